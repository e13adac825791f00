#include "launcher/launcher_fsm.hpp"

#include <algorithm>
#include <utility>

namespace capstan::launcher {
namespace {

using Kind = Action::Kind;

std::string_view trim(std::string_view text) {
    const auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
    while (!text.empty() && blank(text.front())) {
        text.remove_prefix(1);
    }
    while (!text.empty() && blank(text.back())) {
        text.remove_suffix(1);
    }
    return text;
}

Action timer(std::chrono::milliseconds delay) {
    return {Kind::set_timer, {}, delay, 0};
}
Action log(std::string text) {
    return {Kind::log, std::move(text), {}, 0};
}

}  // namespace

LauncherFsm::LauncherFsm(std::string_view marker, std::string run)
    : run_(std::move(run)),
      last_exit_clean_(trim(marker) == "terminated" || trim(marker) == "interrupt"),
      marker_present_(!marker.empty()) {}

Action LauncherFsm::get(std::string path) {
    return {Kind::get, std::move(path), {}, 0};
}

Actions LauncherFsm::start() {
    return begin_run();
}

Actions LauncherFsm::begin_run() {
    state_ = State::starting_run;
    ++run_number_;
    const std::string mode = last_exit_clean_ ? "sanity" : "full";
    return {get("/initialization/start?mode=" + mode + "&run=" + run_ + "-" +
                std::to_string(run_number_))};
}

Actions LauncherFsm::pause_and_retry(std::string reason) {
    state_ = State::pausing;
    const auto delay = pause_;
    pause_ = std::min(pause_ * 2, kFailurePauseMax);
    return {log(std::move(reason)), timer(delay)};
}

Actions LauncherFsm::steward_silent(int status, std::string_view why) {
    const std::string code = status == 0 ? "" : " (HTTP " + std::to_string(status) + ")";
    waiting_for_ = "the steward" + code;
    if (++silent_ != kSilentMax) {
        return {timer(kPollPeriod)};
    }
    return {log("the steward in this pod does not answer" + code + ": " +
                std::string(trim(why.substr(0, kReasonBytesMax))) +
                "; etcd is not started before it does, its log says why"),
            timer(kPollPeriod)};
}

Actions LauncherFsm::on_reply(int status, std::string_view body) {
    const bool answered = status >= 200 && status < 300;
    switch (state_) {
        case State::starting_run:
            if (!answered) {
                return steward_silent(status, body);
            }
            silent_ = 0;
            state_ = State::polling;
            waiting_for_ = "initialisation of the member";
            return {get("/initialization/status?run=" + run_ + "-" + std::to_string(run_number_))};
        case State::polling:
            if (answered && trim(body) == "Successful") {
                state_ = State::fetching;
                waiting_for_ = "the member's configuration";
                return {get("/config")};
            }
            if (answered && trim(body) == "Failed") {
                return pause_and_retry(
                    "initialisation failed, the steward's log says why; starting over");
            }
            // the steward restarted and does not know this run
            if (answered && trim(body) == "New") {
                state_ = State::starting_run;
                return {timer(kPollPeriod)};
            }
            return {timer(kPollPeriod)};
        case State::fetching:
            if (!answered || body.empty()) {
                return {timer(kPollPeriod)};
            }
            state_ = State::running;
            healthy_ = false;
            waiting_for_ = "etcd to answer";
            pause_ = kFailurePauseFirst;
            return {{Kind::spawn, std::string(body), {}, 0}, timer(kPollPeriod)};
        default: return {};  // a late answer after a signal
    }
}

Actions LauncherFsm::on_timer() {
    switch (state_) {
        case State::starting_run: {
            const std::string mode = last_exit_clean_ ? "sanity" : "full";
            return {get("/initialization/start?mode=" + mode + "&run=" + run_ + "-" +
                        std::to_string(run_number_))};
        }
        case State::polling:
            return {get("/initialization/status?run=" + run_ + "-" + std::to_string(run_number_))};
        case State::pausing: return begin_run();
        case State::fetching: return {get("/config")};
        case State::running: return {{Kind::check_health, {}, {}, 0}};
        case State::restarting:
        case State::ending: return {log("etcd did not end in time"), {Kind::kill, {}, {}, 0}};
        case State::over: return {};
    }
    return {};
}

Actions LauncherFsm::on_health(bool healthy, bool learner) {
    if (state_ != State::running) {
        return {};
    }
    Actions actions;
    const bool serves = healthy && !learner;
    if (serves != healthy_) {
        actions.push_back(log(serves ? "etcd is ready" : "etcd does not answer"));
    }
    healthy_ = serves;
    waiting_for_ = healthy && learner ? "the cluster to give this member a vote" : "etcd to answer";
    if (healthy && marker_present_) {  // from here on only a clean stop writes it again
        marker_present_ = false;
        actions.push_back({Kind::remove_marker, {}, {}, 0});
    }
    actions.push_back(timer(serves ? kHealthPeriod : kPollPeriod));
    return actions;
}

Actions LauncherFsm::on_child_exit(bool clean, int code) {
    healthy_ = false;
    switch (state_) {
        case State::restarting: last_exit_clean_ = clean; return begin_run();
        case State::ending:
            state_ = State::over;
            if (!clean) {  // killed: the next start has to look at everything
                return {{Kind::remove_marker, {}, {}, 0}, {Kind::exit, {}, {}, 1}};
            }
            return {{Kind::exit, {}, {}, 0}};
        case State::running:
            state_ = State::over;
            return {log("etcd ended by itself with code " + std::to_string(code)),
                    {Kind::exit, {}, {}, code == 0 ? 1 : code}};
        default: return {};
    }
}

Actions LauncherFsm::on_terminate(std::string_view signal_text) {
    if (state_ == State::over) {
        return {};
    }
    if (state_ == State::ending) {  // a second signal: do not wait any longer
        return {{Kind::kill, {}, {}, 0}};
    }
    const bool child_lives = state_ == State::running || state_ == State::restarting;
    // Without a child nothing has touched the data since the last run: its
    // marker stays what it was.
    if (!child_lives) {
        state_ = State::over;
        return {{Kind::exit, {}, {}, 0}};
    }
    state_ = State::ending;
    waiting_for_ = "etcd to end";
    marker_present_ = true;
    return {{Kind::write_marker, std::string(signal_text), {}, 0},
            {Kind::terminate, {}, {}, 0},
            timer(kKillAfter)};
}

Actions LauncherFsm::on_restart_request() {
    if (state_ != State::running) {
        return {};  // nothing runs yet, or it is being restarted already
    }
    state_ = State::restarting;
    healthy_ = false;
    waiting_for_ = "etcd to restart with a new configuration";
    return {log("restarting etcd with a new configuration"),
            {Kind::terminate, {}, {}, 0},
            timer(kKillAfter)};
}

std::string LauncherFsm::why_not_ready() const {
    return ready() ? std::string() : "waiting for " + waiting_for_;
}

}  // namespace capstan::launcher
