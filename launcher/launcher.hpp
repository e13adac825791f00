// The launcher's driver: performs what LauncherFsm decides.
//
// Waits for the member's initialisation, fetches its configuration, runs etcd as a child, answers
// /readyz, /stop and /restart, and leaves the exit marker that decides how the next start
// validates. One thread, one poll loop.
#pragma once

#include "launcher/http_lite.hpp"
#include "launcher/launcher_fsm.hpp"
#include "launcher/options.hpp"

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace capstan::launcher {

class Launcher {
public:
    explicit Launcher(Options options);

    int run();  // until etcd and the launcher have ended: the exit code

private:
    void perform(const Actions& actions);
    void spawn(const std::string& configuration);
    void on_signals();
    void reap();
    Reply answer(const Request& request);
    std::string token() const;  // of the run directory: the steward's, for both directions
    bool is_steward(std::string_view authorization) const;
    int poll_timeout(Time now) const;

    Options options_;
    std::string marker_path_;
    std::string learner_path_;  // there while the steward says: no vote yet
    LauncherFsm fsm_;
    Listener listener_;
    Fetch steward_, health_;
    std::optional<Time> timer_;
    std::optional<int> exit_code_;
    pid_t child_{-1};
    bool child_terminated_by_us_{false};
    int signal_fd_{-1};
};

}  // namespace capstan::launcher
