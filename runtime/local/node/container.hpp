// One container as a process: start, adopt, stop, and the record that outlives us.
//
// The record is on disk before the program runs (GatedProcess), so whatever runs is found again.
// When to start is not decided here (pod_fsm.hpp). Owner: PodWorker. Thread: [io].
#pragma once

#include "capstan/error.hpp"
#include "runtime/local/node/container_record.hpp"
#include "runtime/local/node/process_watcher.hpp"
#include "runtime/net/loop.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace capstan::local {

inline constexpr int kLogsKept = 3;  // attempts whose logs stay

class Container {
public:
    // `dir` is the container's own (made when needed): record.json, <attempt>.log. `on_change` runs
    // after the process ended and its record is written; never inside a call of this class.
    Container(net::Loop& loop,
              ProcessWatcher& watcher,
              std::string dir,
              std::function<void()> on_change);
    ~Container();  // the process goes on
    Container(const Container&) = delete;
    Container& operator=(const Container&) = delete;

    // Reads the record; a process that still runs is watched, one that is gone counts as
    // ended with unknown code.
    // Errors: unavailable (the record cannot be read or is damaged: nothing is running under our
    // name then, unless find_by_environment says otherwise).
    Result<void> adopt();

    // Requires: not running. `request.log_path` is filled in. A failed start is recorded as
    // an ended attempt with reason StartError. Errors: as GatedProcess and write_file;
    // nothing runs afterwards.
    Result<void> start(SpawnRequest request);

    // SIGTERM now, SIGKILL after `grace`. May be called again: the shorter rest counts. No effect
    // when not running. `planned` goes into the record: this end is nobody's failure.
    void stop(std::chrono::seconds grace, std::string reason, bool planned = false);

    bool running() const noexcept { return watched_ != nullptr; }
    bool stopping() const noexcept { return stopping_; }
    const ContainerRecord& record() const noexcept { return record_; }
    std::string log_path(int attempt) const;
    void trim_log(std::size_t bytes_max);  // copies the newest log aside and empties it when larger

private:
    Result<void> save();
    void ended(ProcessExit exit);
    void record_end(std::optional<int> code, std::string reason, std::string message);

    net::Loop& loop_;
    ProcessWatcher& watcher_;
    const std::string dir_;
    const std::function<void()> on_change_;
    ContainerRecord record_;
    std::unique_ptr<WatchedProcess> watched_;
    std::unique_ptr<net::Timer> kill_timer_;
    MonotonicTime kill_at_{kNever};
    std::string stop_reason_;
    bool stopping_{false};
    bool planned_{false};
};

}  // namespace capstan::local
