// What the launcher does next: from container start to a running etcd, and to a clean end.
//
// Pure: feed it what happened, perform the actions it returns, in order. No I/O, no clock. The
// driver is launcher.cpp. Source: the wrapper's contract (initialization, config, exit marker)
// and docs/architecture.md.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::launcher {

// steward's answer to "initialised yet?"
inline constexpr std::chrono::milliseconds kPollPeriod{200};
inline constexpr int kSilentMax = 50;  // tries in vain, 10 s, before that is logged
inline constexpr std::size_t kReasonBytesMax = 512;
// after a failed initialisation; doubles
inline constexpr std::chrono::milliseconds kFailurePauseFirst{500};
inline constexpr std::chrono::milliseconds kFailurePauseMax{10'000};
inline constexpr std::chrono::milliseconds kHealthPeriod{1'000};
inline constexpr std::chrono::milliseconds kKillAfter{20'000};  // SIGTERM to SIGKILL

struct Action {
    enum class Kind {
        get,           // GET `text` from the steward; answer through on_reply
        check_health,  // GET etcd's /health; answer through on_health
        set_timer,     // on_timer after `delay`; replaces a pending timer
        spawn,         // write `text` as etcd's configuration and start etcd
        terminate,     // SIGTERM to etcd
        kill,          // SIGKILL to etcd
        write_marker,  // exit marker with `text`
        remove_marker,
        exit,  // leave with `code`
        log,   // one line
    };
    Kind kind;
    std::string text{};
    std::chrono::milliseconds delay{0};
    int code{0};
};
using Actions = std::vector<Action>;

class LauncherFsm {
public:
    // `marker`: text of the exit marker, "" when there is none. `run`: unique per process,
    // names this initialisation.
    LauncherFsm(std::string_view marker, std::string run);

    Actions start();
    Actions on_reply(int status, std::string_view body);  // status 0: no answer
    // `learner`: etcd answers, but has no vote yet and serves no clients.
    Actions on_health(bool healthy, bool learner = false);
    Actions on_timer();
    Actions on_child_exit(bool clean, int code);  // clean: code 0 or ended by the SIGTERM we sent
    Actions on_terminate(std::string_view signal_text);  // "terminated" or "interrupt"
    // the steward wants a new process with a new configuration
    Actions on_restart_request();

    bool ready() const { return state_ == State::running && healthy_; }
    std::string why_not_ready() const;  // "" when ready

private:
    enum class State {
        starting_run,
        polling,
        pausing,
        fetching,
        running,
        restarting,
        ending,
        over
    };

    Action get(std::string path);
    Actions begin_run();
    Actions pause_and_retry(std::string reason);
    Actions steward_silent(int status, std::string_view why);

    State state_{State::starting_run};
    std::string run_;
    int run_number_{0};
    int silent_{0};  // tries to reach the steward since it last answered
    bool last_exit_clean_;
    bool healthy_{false};
    bool marker_present_;
    std::string exit_marker_;
    std::string waiting_for_{"the steward"};
    std::chrono::milliseconds pause_{kFailurePauseFirst};
};

}  // namespace capstan::launcher
