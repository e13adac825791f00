#include "runtime/local/node/process.hpp"

#include "runtime/local/node/files.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

namespace capstan::local {
namespace {

struct Stat {
    char state{'X'};
    pid_t session{0};
    std::uint64_t start_ticks{0};
    int exit_status{0};  // wait status; 0 without the right to see it
};

// proc(5): the name in parentheses may hold anything, so fields are counted from the last ')'.
std::optional<Stat> read_stat(pid_t pid) {
    const auto text = read_file("/proc/" + std::to_string(pid) + "/stat");
    if (!text.has_value()) {
        return std::nullopt;
    }
    const auto& line = text.value();
    auto at = line.rfind(')');
    if (at == std::string::npos) {
        return std::nullopt;
    }
    Stat stat;
    int field = 2;
    while (at != std::string::npos && at + 1 < line.size()) {
        const auto begin = at + 1 + (line[at] == ')' ? 1 : 0);
        const auto end = line.find_first_of(" \n", begin);
        const auto word = std::string_view(line).substr(begin, end - begin);
        ++field;
        if (field == 3 && !word.empty()) {
            stat.state = word[0];
        } else if (field == 6) {
            std::from_chars(word.data(), word.data() + word.size(), stat.session);
        } else if (field == 22) {
            std::from_chars(word.data(), word.data() + word.size(), stat.start_ticks);
        } else if (field == 52) {
            std::from_chars(word.data(), word.data() + word.size(), stat.exit_status);
        }
        at = end;
    }
    return field >= 22 ? std::optional(stat) : std::nullopt;
}

int code_of(int wait_status) {
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

// Linux 6.15: the exit status of any process we hold a pidfd of, once its parent has reaped it.
struct PidfdInfo {
    std::uint64_t mask;
    std::uint64_t cgroup_id;
    std::uint32_t ids[11];
    std::int32_t exit_status;
};
static_assert(sizeof(PidfdInfo) == 64, "PIDFD_INFO_SIZE_VER0");
constexpr std::uint64_t kPidfdInfoExit = 1u << 3;

std::optional<int> exit_from_pidfd(int pidfd) {
    PidfdInfo info{};
    info.mask = kPidfdInfoExit;
    if (::ioctl(pidfd, _IOWR(0xFF, 11, PidfdInfo), &info) != 0 ||
        (info.mask & kPidfdInfoExit) == 0) {
        return std::nullopt;
    }
    return code_of(info.exit_status);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> out;
    out.reserve(texts.size() + 1);
    for (const auto& text : texts) {
        out.push_back(const_cast<char*>(text.c_str()));  // execve's signature; it does not write
    }
    out.push_back(nullptr);
    return out;
}

struct ChildPlan {
    const char* path;
    char* const* argv;
    char* const* env;
    const char* cwd;
    int gate;    // read end
    int answer;  // write end
    int log;
    int null;
};

// Between fork and exec only async-signal-safe calls: other threads may hold any lock.
[[noreturn]] void run_child(const ChildPlan& plan) {
    ::setsid();
    // The descriptors are above 9 (see keep_high), so 0 to 4 are free to be filled.
    ::dup2(plan.null, 0);
    ::dup2(plan.log, 1);
    ::dup2(plan.log, 2);
    ::dup2(plan.gate, 3);
    ::dup2(plan.answer, 4);
    // also the gate's write end: else we would hold it open ourselves
    ::syscall(SYS_close_range, 5u, ~0u, 0u);
    for (int number = 1; number < NSIG; ++number) {
        ::signal(number, SIG_DFL);  // ignored signals would stay ignored in the program
    }
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    char go = 0;
    ssize_t n = 0;
    do {
        n = ::read(3, &go, 1);
    } while (n < 0 && errno == EINTR);
    if (n != 1) {
        ::_exit(127);
    }
    ::close(3);
    ::fcntl(4, F_SETFD, FD_CLOEXEC);
    if (::chdir(plan.cwd) == 0) {
        ::execve(plan.path, plan.argv, plan.env);
    }
    const int error = errno;
    [[maybe_unused]] const auto written = ::write(4, &error, sizeof error);
    ::_exit(127);
}

int keep_high(int fd) {
    if (fd < 0) {
        return fd;
    }
    const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, 10);
    ::close(fd);
    return high;
}

void close_all(std::initializer_list<int> fds) {
    for (const int fd : fds) {
        if (fd >= 0) {
            ::close(fd);
        }
    }
}

}  // namespace

std::string boot_id() {
    auto text = read_file("/proc/sys/kernel/random/boot_id");
    if (!text.has_value()) {
        return {};
    }
    auto id = text.value();
    while (!id.empty() && id.back() == '\n') {
        id.pop_back();
    }
    return id;
}

std::optional<ProcessIdentity> identify(pid_t pid) {
    const auto stat = read_stat(pid);
    if (!stat) {
        return std::nullopt;
    }
    return ProcessIdentity{pid, stat->start_ticks, boot_id()};
}

ProcessState process_state(const ProcessIdentity& identity) {
    if (identity.pid <= 0 || identity.boot_id != boot_id()) {
        return ProcessState::gone;
    }
    const auto stat = read_stat(identity.pid);
    if (!stat || stat->start_ticks != identity.start_ticks || stat->state == 'X') {
        return ProcessState::gone;
    }
    return stat->state == 'Z' ? ProcessState::zombie : ProcessState::running;
}

Result<GatedProcess> GatedProcess::spawn(const SpawnRequest& request) {
    const int log = keep_high(
        ::open(request.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (log < 0) {
        return fail(file_error("open log", request.log_path, errno));
    }
    int gate[2] = {-1, -1};
    int answer[2] = {-1, -1};
    const int null = keep_high(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (null < 0 || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate) != 0 ||
        ::pipe2(answer, O_CLOEXEC) != 0) {
        const int error = errno;
        close_all({log, null, gate[0], gate[1], answer[0], answer[1]});
        return fail(Code::unavailable, "start " + request.path + ": " + std::strerror(error));
    }
    gate[0] = keep_high(gate[0]);
    answer[1] = keep_high(answer[1]);
    auto argv = pointers(request.argv);
    auto env = pointers(request.env);
    const ChildPlan plan{request.path.c_str(),
                         argv.data(),
                         env.data(),
                         request.cwd.c_str(),
                         gate[0],
                         answer[1],
                         log,
                         null};
    const pid_t pid = ::fork();
    if (pid == 0) {
        run_child(plan);
    }
    const int fork_error = errno;
    close_all({log, null, gate[0], answer[1]});
    GatedProcess child;
    child.gate_ = gate[1];
    child.answer_ = answer[0];
    child.path_ = request.path;
    if (pid < 0) {
        return fail(Code::unavailable, "start " + request.path + ": " + std::strerror(fork_error));
    }
    child.identity_.pid = pid;
    auto identity = identify(pid);
    if (!identity) {
        return fail(Code::unavailable,
                    "start " + request.path + ": /proc is not readable; mount it");
    }
    child.identity_ = std::move(*identity);
    return child;
}

GatedProcess::GatedProcess(GatedProcess&& other) noexcept
    : identity_(std::move(other.identity_)),
      path_(std::move(other.path_)),
      gate_(std::exchange(other.gate_, -1)),
      answer_(std::exchange(other.answer_, -1)) {}

GatedProcess::~GatedProcess() {
    if (gate_ < 0) {
        return;
    }
    close_all({gate_, answer_});
    if (identity_.pid > 0) {
        int status = 0;
        while (::waitpid(identity_.pid, &status, 0) < 0 && errno == EINTR) {
        }
    }
}

Result<void> GatedProcess::release() {
    CAPSTAN_CHECK(gate_ >= 0, path_);
    const char go = 1;
    ssize_t n = 0;
    do {
        // a socket, so that a dead child is no SIGPIPE for us
        n = ::send(gate_, &go, 1, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    int error = 0;
    do {
        n = ::read(answer_, &error, sizeof error);
    } while (n < 0 && errno == EINTR);
    if (n == static_cast<ssize_t>(sizeof error)) {
        return fail(Code::unavailable, "start " + path_ + ": " + std::strerror(error));
    }
    close_all({gate_, answer_});
    gate_ = -1;
    return ok();
}

ProcessExit collect_exit(int pidfd, const ProcessIdentity& identity) {
    siginfo_t info{};
    if (::waitid(
            static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd), &info, WEXITED | WNOHANG) ==
            0 &&
        info.si_pid == identity.pid) {
        return {info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status};
    }
    if (const auto code = exit_from_pidfd(pidfd)) {
        return {code};
    }
    // Not our child and not reaped yet: the zombie's stat shows its status to its own user.
    const auto stat = read_stat(identity.pid);
    if (stat && stat->start_ticks == identity.start_ticks && stat->state == 'Z') {
        return {code_of(stat->exit_status)};
    }
    return {};
}

namespace {

template <class Visit>
void each_process(const Visit& visit) {
    for (const auto& name : list_dir("/proc")) {
        pid_t pid = 0;
        const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (parsed.ec == std::errc{} && parsed.ptr == name.data() + name.size() && pid > 1) {
            visit(pid);
        }
    }
}

}  // namespace

void kill_session(const ProcessIdentity& leader) {
    if (leader.pid <= 1) {
        return;
    }
    const auto self = ::getpid();
    each_process([&](pid_t pid) {
        const auto stat = read_stat(pid);
        if (pid == self || pid == leader.pid || !stat || stat->session != leader.pid ||
            stat->start_ticks < leader.start_ticks) {
            return;
        }
        ::kill(pid, SIGKILL);
    });
}

std::string environment_of(pid_t pid, std::string_view name) {
    const auto text = read_file("/proc/" + std::to_string(pid) + "/environ");
    if (!text.has_value()) {
        return {};
    }
    std::string_view rest = text.value();
    while (!rest.empty()) {
        const auto entry = rest.substr(0, rest.find('\0'));
        if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
            return std::string(entry.substr(name.size() + 1));
        }
        rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    }
    return {};
}

std::vector<pid_t> find_by_environment(std::string_view entry) {
    const auto name = entry.substr(0, entry.find('='));
    const auto value = entry.substr(name.size() + 1);
    std::vector<pid_t> found;
    each_process([&](pid_t pid) {
        if (environment_of(pid, name) == value) {
            found.push_back(pid);
        }
    });
    return found;
}

pid_t session_of(pid_t pid) {
    const auto stat = read_stat(pid);
    return stat ? stat->session : 0;
}

}  // namespace capstan::local
