// What every command of `capstan backup` stands on: stores, listings, texts, exit codes. Lives for
// one command. Thread: one.
#pragma once

#include "plugins/steward-bridge/commands/arguments.hpp"
#include "plugins/steward-bridge/commands/progress.hpp"
#include "plugins/steward-bridge/restore/restoration.hpp"
#include "plugins/steward-bridge/snapshot/record.hpp"
#include "plugins/steward-bridge/store/host_transport.hpp"
#include "plugins/steward-bridge/store/store.hpp"
#include "plugins/steward-bridge/store/store_config.hpp"
#include "plugins/steward-bridge/stream/host_digest.hpp"

#include "capstan/cli.hpp"
#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::steward {

inline constexpr std::size_t kPrefixSearchKeys = 10'000;  // looked at to suggest a prefix

// A failure and the exit code it means.
struct Failure {
    int exit_code{CAPSTAN_EXIT_FAILED};
    std::string message;
};
template <class T>
using CommandResult =
    boost::outcome_v2::basic_result<T, Failure, boost::outcome_v2::policy::terminate>;
inline auto give_up(int exit_code, std::string message) {
    return boost::outcome_v2::failure(Failure{exit_code, std::move(message)});
}

inline auto give_up(Failure failure) {
    return boost::outcome_v2::failure(std::move(failure));
}

// Of a store that answers: what is in it.
struct Backup {
    std::unique_ptr<ObjectStore> store;
    SnapshotListing listing;
};

// Says once that a store is tried again: it may take half a minute.
class ToldPace final : public Pace {
public:
    ToldPace(Call& call, std::function<void()> tell) : pace_(call), tell_(std::move(tell)) {}

    WallTime wall_now() override { return pace_.wall_now(); }
    Result<void> sleep(std::chrono::nanoseconds duration) override {
        if (const auto tell = std::exchange(tell_, nullptr)) {
            tell();
        }
        return pace_.sleep(duration);
    }
    double chance() override { return pace_.chance(); }

private:
    HostPace pace_;
    std::function<void()> tell_;
};

class Session {
public:
    Session(CommandCall& command, const BackupArguments& arguments);
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    const BackupArguments& arguments() const noexcept { return arguments_; }
    CommandCall& command() noexcept { return command_; }
    Digests& digests() noexcept { return digests_; }
    Progress& progress() noexcept { return progress_; }
    WallTime now() { return pace_.wall_now(); }
    bool cancelled() const { return command_.call().cancelled(); }

    // `make_directory`: of a Local store that is not there yet.
    CommandResult<std::unique_ptr<ObjectStore>> open(const StoreArguments& store,
                                                     StoreRole role,
                                                     bool make_directory = false);
    // Failures: a prefix with no snapshot, named with those that are near.
    CommandResult<Backup> open_backup(StoreRole role = StoreRole::primary);
    CommandResult<SnapshotListing> list(ObjectStore& store, const std::string& prefix);

    // The options of the engine: point in time, cancellation. `work_directory` is the engine's.
    RestoreOptions restore_options(std::string work_directory);
    // What an error of the engine means. `objects`: those it read.
    Failure failure_of(const Error& error, const ObservedObjects& objects) const;

    // "capstan backup list: MESSAGE" on standard error.
    void complain(std::string_view message);
    void warn(std::string_view message);
    int fail_with(const Failure& failure);
    // To standard output, once; the exit code.
    int print(std::string_view text);
    int print_json(const json::Value& value);

private:
    std::string near_prefixes(ObjectStore& store, const std::string& prefix);

    CommandCall& command_;
    const BackupArguments& arguments_;
    HostDigests digests_;
    HostTransport transport_;
    ToldPace pace_;
    Progress progress_;
};

// What a failing call to a store means.
int exit_code_of_store(Code code) noexcept;

// A directory of our own for what is unpacked, gone with this object.
class Workspace {
public:
    // Below `parent`; "": $TMPDIR, else /tmp. Failures: it cannot be made.
    static CommandResult<std::unique_ptr<Workspace>> make(Session& session, std::string parent);
    explicit Workspace(std::string path) : path_(std::move(path)) {}
    ~Workspace();
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;

    std::string engine_directory() const { return path_ + "/work"; }
    std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

private:
    const std::string path_;
};

int run_list(Session& session);
int run_explain(Session& session);
int run_verify(Session& session);
int run_restore(Session& session);
int run_compact(Session& session);
int run_copy(Session& session);
int run_dump(Session& session);
int run_check(Session& session);

}  // namespace capstan::steward
