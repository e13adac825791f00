// Processes that outlive us: start behind a gate, recognise later, end without hitting a stranger.
//
// A pid alone is no identity. Pid, start time (/proc/<pid>/stat field 22) and boot id together
// are; signals go through a pidfd opened first and checked against the identity after. Thread:
// any (each object: one).
#pragma once

#include "capstan/error.hpp"

#include <sys/types.h>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

struct ProcessIdentity {
    pid_t pid{0};  // 0: none
    std::uint64_t start_ticks{0};
    std::string boot_id;

    bool operator==(const ProcessIdentity&) const = default;
};

enum class ProcessState : std::uint8_t { running, zombie, gone };

struct ProcessExit {
    std::optional<int> code;  // 128 + signal when signalled; nullopt: nobody could tell
};

std::string boot_id();                               // of this boot; "" without /proc
std::optional<ProcessIdentity> identify(pid_t pid);  // of a process that exists now
ProcessState process_state(const ProcessIdentity& identity);

struct SpawnRequest {
    std::string path;               // absolute
    std::vector<std::string> argv;  // at least one
    std::vector<std::string> env;   // "NAME=value", complete
    std::string cwd;
    std::string log_path;  // stdout and stderr, appended
};

// A child that exists, leads its own session, and waits. It runs nothing before release(); should
// we die first, or the object be destroyed, it sees the closed gate and exits. So a record written
// in between names every process that ever ran.
class GatedProcess {
public:
    // Errors: not_found, unavailable (program, directory or log file, named; or no more processes).
    static Result<GatedProcess> spawn(const SpawnRequest& request);
    GatedProcess(GatedProcess&& other) noexcept;
    GatedProcess& operator=(GatedProcess&&) = delete;
    ~GatedProcess();

    const ProcessIdentity& identity() const noexcept { return identity_; }
    // Returns when the program has taken over. Errors: unavailable, with the reason of
    // exec; the child is reaped.
    Result<void> release();

private:
    GatedProcess() = default;
    ProcessIdentity identity_;
    std::string path_;
    int gate_{-1};    // write end: one byte lets the child go on
    int answer_{-1};  // read end: errno of a failed exec, or end of file
};

// Takes the exit code of an ended process: reaps our child, or asks the kernel about a
// stranger. `pidfd` is readable.
ProcessExit collect_exit(int pidfd, const ProcessIdentity& identity);

// Kills every process of the session that `leader` led and that started after it: what a
// container leaves behind.
void kill_session(const ProcessIdentity& leader);

// Pids whose environment has exactly `entry` ("NAME=value").
std::vector<pid_t> find_by_environment(std::string_view entry);
// Value of `name` in the environment of `pid`; "" when unknown.
std::string environment_of(pid_t pid, std::string_view name);
pid_t session_of(pid_t pid);  // 0: gone

}  // namespace capstan::local
