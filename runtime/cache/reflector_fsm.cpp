// Snapshots, back-off and timer of the reflector. Its streams: reflector_watch.cpp.
#include "runtime/cache/reflector_fsm.hpp"

#include "runtime/kube/object.hpp"
#include "runtime/kube/status.hpp"

#include <algorithm>
#include <utility>

namespace capstan::cache {
std::string ReflectorFsm::text_of(const Error& error) {
    return std::string(kube::word_of(error)) + ": " + error.message;
}

ReflectorFsm::ReflectorFsm(ReflectorOptions options, Random random)
    : options_(options),
      random_(std::move(random)),
      watch_list_(options.watch_list),
      whole_list_(options.whole_list) {}

Phase ReflectorFsm::phase() const noexcept {
    if (state_ == State::idle) {
        return Phase::idle;
    }
    const bool lasting = trouble_ && (trouble_->code == Code::forbidden ||
                                      trouble_->code == Code::not_found || failures_ >= 3);
    if (lasting) {
        return Phase::degraded;
    }
    return synced_ ? Phase::live : Phase::syncing;
}

Action ReflectorFsm::start(MonotonicTime now) {
    return begin_snapshot(now, "first");
}

Action ReflectorFsm::begin_snapshot(MonotonicTime now, std::string_view reason) {
    reason_ = reason;
    asked_version_ = consistent_only_ ? "" : last_version_;
    if (!watch_list_ && !whole_list_) {
        return begin_list(now, "");
    }
    Action action = begin_watch(now);
    state_ = State::streaming;
    action.by_list = whole_list_;
    action.resource_version = asked_version_;
    action.send_initial_events = true;
    action.new_shadow = true;
    action.reason = reason_;
    arm();
    return action;
}

Action ReflectorFsm::begin_list(MonotonicTime, std::string continue_token) {
    state_ = State::listing;
    deadline_ = kNever;  // the call has its own
    Action action;
    action.kind = Action::Kind::list;
    action.resource_version = asked_version_;
    action.new_shadow = continue_token.empty();
    action.reason = reason_;
    action.continue_token = std::move(continue_token);
    return action;
}

Step ReflectorFsm::on_page(MonotonicTime now,
                           std::string_view resource_version,
                           std::string_view continue_token) {
    Step step;
    if (state_ != State::listing) {
        return step;
    }
    if (!continue_token.empty()) {
        step.verdict = Verdict::collect;
        step.action = begin_list(now, std::string(continue_token));
        return step;
    }
    step = commit(now, resource_version);
    if (step.verdict == Verdict::commit) {
        std::vector<LogLine> log = std::move(step.action.log);
        step.action = begin_watch(now);
        step.action.log = std::move(log);
    }
    return step;
}

// A complete first state at `resource_version` is here: take it unless it is older than what is
// known.
Step ReflectorFsm::commit(MonotonicTime now, std::string_view resource_version) {
    Step step;
    const bool older = kube::compare_resource_versions(resource_version, last_version_) == -1;
    if (older && !other_data_) {
        if (older_since_ == kNever) {
            older_since_ = now;
        }
        const bool asked_consistent = asked_version_.empty();
        consistent_only_ = true;
        if (!asked_consistent || now - older_since_ < options_.reset_after) {
            const Error error{
                Code::unavailable, "the server's list is older than what it showed before", {}};
            step.action = back_off(now,
                                   Next::snapshot,
                                   "older",
                                   error,
                                   "list is older than the cache, waiting for a newer one");
            return step;
        }
        other_data_ = true;
    }
    if (other_data_) {
        step.reset = true;
        step.action.log.push_back(
            {LogLevel::error, "the API server's data was set back, taking it as it is now", ""});
    }
    other_data_ = false;
    doubtful_ = false;
    step.verdict = Verdict::commit;
    step.first = !synced_;
    last_version_ = resource_version;
    resume_version_ = resource_version;
    synced_ = true;
    consistent_only_ = false;
    older_since_ = kNever;
    stuck_ = 0;
    settle(now, step.action);
    return step;
}

void ReflectorFsm::settle(MonotonicTime now, Action& action) {
    if (trouble_) {
        action.log.push_back({LogLevel::info, "watch works again", ""});
        trouble_.reset();
    }
    if (fine_since_ == kNever) {
        fine_since_ = now;
    }
}

Action ReflectorFsm::back_off(MonotonicTime now,
                              Next next,
                              std::string_view reason,
                              const Error& error,
                              std::string message) {
    const bool unreachable =
        (error.code == Code::unavailable || error.code == Code::timeout) && reason != "older";
    if ((fine_since_ != kNever && now - fine_since_ >= options_.backoff_reset) ||
        unreachable != unreachable_) {
        failures_ = 0;  // how long it was away says nothing about what it answers now
    }
    unreachable_ = unreachable;
    fine_since_ = kNever;
    Action action;
    action.kind = Action::Kind::wait;
    const bool news =
        !trouble_ || trouble_->code != error.code || trouble_->message != error.message;
    action.log.push_back(
        {news ? LogLevel::warn : LogLevel::debug, std::move(message), text_of(error)});
    trouble_ = error;
    const bool cheap = unreachable || error.code == Code::forbidden;
    const int doublings = std::min(failures_++, 16);
    const auto base = std::min(options_.backoff_first * (std::int64_t{1} << doublings),
                               cheap ? options_.cheap_backoff_max : options_.backoff_max);
    double factor = 1.0 + random_();
    if (error.code == Code::not_found) {
        factor = 0.5 + factor / 4;  // a kind that appears is found within backoff_max
    }
    MonotonicTime delay{
        static_cast<std::int64_t>(static_cast<double>(MonotonicTime(base).count()) * factor)};
    if (MonotonicTime(error.retry_after) > delay) {
        delay = MonotonicTime{static_cast<std::int64_t>(
            static_cast<double>(MonotonicTime(error.retry_after).count()) *
            (1.0 + 0.2 * random_()))};
    }
    state_ = State::waiting;
    next_ = next;
    reason_ = reason;
    deadline_ = now + delay;
    return action;
}

bool ReflectorFsm::on_server_back(MonotonicTime now) {
    if (state_ != State::waiting || !unreachable_) {
        return false;
    }
    const auto spread = static_cast<double>(MonotonicTime(kBackSpread).count());
    const MonotonicTime soon = now + MonotonicTime{static_cast<std::int64_t>(random_() * spread)};
    const bool sooner = soon < deadline_;
    deadline_ = std::min(deadline_, soon);
    return sooner;
}

Action ReflectorFsm::fall_back_to_list(MonotonicTime now, LogLevel level, std::string message) {
    watch_list_ = false;
    reason_ = "fallback";
    Action action = begin_list(now, "");
    action.log.push_back({level, std::move(message), ""});
    return action;
}

Action ReflectorFsm::fall_back_to_stream(MonotonicTime now, LogLevel level, const Error& error) {
    whole_list_ = false;
    Action action = begin_snapshot(now, "fallback");
    action.log.push_back({level, "the whole list did not come, streaming instead", text_of(error)});
    return action;
}

// When the version asked for cannot be had: a consistent list can.
std::optional<Action> ReflectorFsm::ask_consistent(MonotonicTime now, const Error& error) {
    const bool gone = error.code == Code::expired || kube::is_too_large_resource_version(error);
    if (!gone || asked_version_.empty()) {
        return std::nullopt;
    }
    consistent_only_ = true;
    Action action = begin_snapshot(now, reason_);
    action.log.push_back(
        {LogLevel::info, "version is gone, asking for a consistent list", text_of(error)});
    return action;
}

Action ReflectorFsm::on_list_error(MonotonicTime now, const Error& error) {
    if (state_ != State::listing) {
        return {};
    }
    if (auto action = ask_consistent(now, error)) {
        return std::move(*action);
    }
    return back_off(now, Next::snapshot, "error", error, "list failed");
}

Action ReflectorFsm::on_timer(MonotonicTime now) {
    if (now < deadline_) {
        return {};
    }
    Action action;
    switch (state_) {
        case State::waiting:
            return next_ == Next::watch ? begin_watch(now) : begin_snapshot(now, reason_);
        case State::streaming:
            if (whole_list_) {
                return fall_back_to_stream(
                    now, LogLevel::warn, Error{Code::timeout, "nothing came for too long", {}});
            }
            return fall_back_to_list(
                now,
                LogLevel::warn,
                "end bookmark of the streaming list did not come, listing instead");
        case State::watching:
            doubtful_ = true;
            action = begin_watch(now);
            action.log.push_back(
                {LogLevel::info, "watch went silent or outlived its time, opening it again", ""});
            return action;
        case State::opening:
            doubtful_ = true;
            return back_off(now,
                            Next::watch,
                            reason_,
                            Error{Code::timeout, "the watch did not open", {}},
                            "watch failed");
        case State::idle:
        case State::listing: deadline_ = kNever; return action;
    }
    return action;
}

}  // namespace capstan::cache
