// Tells the loop when a process has ended, whoever its parent is.
//
// One thread waits on pidfds and posts; everything else happens on the loop thread. Owner:
// the node. Thread: [io].
#pragma once

#include "capstan/error.hpp"
#include "runtime/local/node/process.hpp"
#include "runtime/net/loop.hpp"

#include <functional>
#include <memory>

namespace capstan::local {

// A process under watch. Destroying it ends the watch, not the process; no callback follows.
class WatchedProcess {
public:
    virtual ~WatchedProcess() = default;
    virtual const ProcessIdentity& identity() const noexcept = 0;
    virtual void signal(int number) = 0;  // exactly this process; no effect once it has ended
};

class ProcessWatcher {
public:
    // Errors: unavailable (no epoll, no thread).
    static Result<std::unique_ptr<ProcessWatcher>> create(net::Loop& loop);
    virtual ~ProcessWatcher() = default;  // joins; requires: every WatchedProcess destroyed

    // `on_exit` runs once, later. What the process left in its session has been killed by then.
    // Errors: not_found (no such process any more), unavailable (the kernel has no
    // pidfd_open: Linux 5.3).
    virtual Result<std::unique_ptr<WatchedProcess>> watch(
        const ProcessIdentity& identity, std::function<void(ProcessExit)> on_exit) = 0;
};

}  // namespace capstan::local
