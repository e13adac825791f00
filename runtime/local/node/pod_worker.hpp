// One pod on this machine: its directory, its containers, its status.
//
// Level-triggered: every input only marks that sync() is due. Decisions are in pod_fsm, probe_fsm
// and pod_status. Owner: the node. Thread: [io].
#pragma once

#include "capstan/json.hpp"
#include "runtime/local/node/container.hpp"
#include "runtime/local/node/environment.hpp"
#include "runtime/local/node/node.hpp"
#include "runtime/local/node/pod_fsm.hpp"
#include "runtime/local/node/pod_map.hpp"
#include "runtime/local/node/prober.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace capstan::local {

inline constexpr std::chrono::seconds kRetryBlocked{2};  // a container that lacks something
inline constexpr std::chrono::seconds kRetryApi{1};
inline constexpr std::chrono::seconds kGraceOfVanished{2};  // the pod's object is gone already
inline constexpr std::chrono::seconds kHousekeeping{30};    // log sizes

struct PodContext {
    net::Loop& loop;
    NodeApi& api;
    ProcessWatcher& watcher;
    const NodeOptions& options;
    std::string node_id;
    std::string ca_file;
    std::function<Result<std::string>(const ObjectKey&)> address_of;
    std::function<json::Value(const PodMapInput&)> build_map;
    std::function<void()> on_done;  // some worker is done(), or stopped(): look
};

class PodWorker {
public:
    PodWorker(PodContext& context, json::Value pod);
    ~PodWorker();  // processes go on
    PodWorker(const PodWorker&) = delete;
    PodWorker& operator=(const PodWorker&) = delete;

    // Makes the directory and adopts what runs. Errors: unavailable; nothing was
    // started, setup is tried again.
    Result<void> setup();
    void update(json::Value pod);  // a newer state of the same uid
    void vanish();                 // the object is gone: stop, clean up
    void stop();                   // end the containers, keep the pod
    void refresh();                // volumes and names may have changed

    bool done() const noexcept { return done_; }
    bool stopped() const noexcept;  // after stop(): nothing runs
    const json::Value& pod() const noexcept { return pod_; }
    const std::string& address() const noexcept { return address_; }
    std::vector<pid_t> pids() const;  // session leaders that run
    std::string waits_for() const;    // "" when ready or finished
    struct LogFile {
        std::string path;
        std::string container;
        int attempt{0};
    };
    Result<LogFile> log_file(const LogOptions& options) const;
    bool log_open(const std::string& container, int attempt) const;  // may still grow
    static std::string dir_of(const NodeOptions& options, const std::string& uid);

private:
    struct Slot;

    void schedule();
    void wake_at(MonotonicTime when);
    void sync();
    void end_all();
    void finish();
    void advance();
    void mind_probes(Slot& slot);
    std::optional<Error> prepare(Slot& slot, std::string& reason);
    void try_start(Slot& slot);
    Result<SpawnRequest> build_request(const Slot& slot,
                                       const std::vector<std::string>* command,
                                       std::string& reason);
    EnvironmentContext environment(const PathMap& paths) const;
    Result<std::string> issue_token() const;
    Result<void> write_account(PathMap& paths);
    std::optional<Error> write_map(Slot& slot);
    void write_status();
    void housekeep();
    void log(NodeLogLevel level, std::string_view message, std::string_view detail = {}) const;
    std::chrono::seconds grace() const;

    PodContext& context_;
    json::Value pod_;
    const std::string uid_;
    const ObjectKey key_;
    const std::string dir_;
    const std::vector<std::string> aliases_;
    std::string address_;
    WallTime started_{};
    std::vector<std::unique_ptr<Slot>> slots_;
    Phase phase_{Phase::pending};
    bool initialized_{false};
    bool set_up_{false};
    bool vanished_{false};
    bool stopping_{false};
    bool done_{false};
    bool scheduled_{false};
    std::string setup_error_;
    std::unique_ptr<net::Timer> timer_;
    MonotonicTime timer_at_{kNever};
    std::unique_ptr<net::Timer> housekeeping_;
    std::shared_ptr<bool> alive_;  // shared: posted tasks may outlive the worker
};

}  // namespace capstan::local
