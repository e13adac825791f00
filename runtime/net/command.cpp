#include "runtime/net/command.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

namespace capstan::net {

namespace {

// One end of a pipe that is read until it ends.
struct Pipe {
    int fd{-1};
    std::unique_ptr<Watch> watch;
    std::string text;

    Pipe() = default;
    ~Pipe() { close(); }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    void close() {
        watch.reset();
        if (fd >= 0) {
            ::close(fd);
        }
        fd = -1;
    }
    // What is there now. False: the end.
    bool read() {
        std::array<char, 16 * 1024> buffer;
        for (;;) {
            const ssize_t count = ::read(fd, buffer.data(), buffer.size());
            if (count > 0) {
                text.append(buffer.data(), static_cast<std::size_t>(count));
                if (text.size() > kCommandOutputBytesMax) {
                    return true;
                }
            } else {
                return count < 0 && (errno == EAGAIN || errno == EINTR);
            }
        }
    }
};

// All signals blocked while it lives: a handler of ours must not run in the child.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_;
};

struct ChildPlan {
    pid_t parent;
    const char* path;
    char* const* argv;
    char* const* environment;
    int output;
    int errors;
    int refusal;  // gets errno when the program cannot be run; closed by exec
};

// Between fork and exec only async-signal-safe calls: other threads may hold any lock.
[[noreturn]] void run_child(const ChildPlan& plan) {
    // Nobody else ends it when we are killed. It is bound to the thread that forks: the loop's.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != plan.parent) {
        ::_exit(127);  // killed before that call
    }
    ::setpgid(0, 0);
    for (int number = 1; number < NSIG; ++number) {
        ::signal(number, SIG_DFL);  // ignored signals would stay ignored in the program
    }
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0 && ::dup2(null, 0) == 0 && ::dup2(plan.output, 1) == 1 &&
        ::dup2(plan.errors, 2) == 2) {
        ::execve(plan.path, plan.argv, plan.environment);
    }
    const int error = errno;
    [[maybe_unused]] const auto written = ::write(plan.refusal, &error, sizeof error);
    ::_exit(127);
}

// The file that `name` means: a path, or the first of $PATH that may be run; else one that may not,
// so that the error of running it is the right one; "" when there is none at all.
std::string find_program(const std::string& name) {
    if (name.find('/') != std::string::npos) {
        return name;
    }
    const char* const variable = ::getenv("PATH");
    std::string_view directories = variable == nullptr ? "/usr/bin:/bin" : variable;
    std::string refused;
    for (bool more = true; more;) {
        const std::size_t end = std::min(directories.find(':'), directories.size());
        const std::string directory(directories.substr(0, end));
        more = end < directories.size();
        directories.remove_prefix(more ? end + 1 : end);
        const std::string path = (directory.empty() ? "." : directory) + "/" + name;
        struct stat found {};
        if (::stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) {
            continue;
        }
        if (::access(path.c_str(), X_OK) == 0) {
            return path;
        }
        if (refused.empty()) {
            refused = path;
        }
    }
    return refused;
}

std::vector<std::string> merged_environment(const std::vector<std::string>& over) {
    std::map<std::string, std::string> by_name;
    const auto put = [&](const std::string& entry) {
        by_name[entry.substr(0, entry.find('='))] = entry;
    };
    for (char** entry = environ; *entry != nullptr; ++entry) {
        put(*entry);
    }
    std::for_each(over.begin(), over.end(), put);
    std::vector<std::string> entries;
    for (auto& [name, entry] : by_name) {
        entries.push_back(std::move(entry));
    }
    return entries;
}

void close_all(const std::array<int, 3>& descriptors) {
    for (const int fd : descriptors) {
        if (fd >= 0) {
            ::close(fd);
        }
    }
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> list;
    for (const std::string& text : texts) {
        list.push_back(const_cast<char*>(text.c_str()));
    }
    list.push_back(nullptr);
    return list;
}

class CommandProcess : public std::enable_shared_from_this<CommandProcess> {
public:
    CommandProcess(IoLoop& loop, Command command, CommandDone done)
        : loop_(loop), command_(std::move(command)), done_(std::move(done)) {}
    ~CommandProcess() { kill(); }
    CommandProcess(const CommandProcess&) = delete;
    CommandProcess& operator=(const CommandProcess&) = delete;

    void start() {
        if (const auto spawned = spawn(); !spawned) {
            finish(fail(spawned.error()));
            return;
        }
        limit_ = loop_.at(loop_.now() + command_.time_max, [weak = weak_from_this()] {
            if (const auto self = weak.lock()) {
                const auto seconds =
                    std::chrono::duration_cast<std::chrono::seconds>(self->command_.time_max);
                self->finish(
                    fail(Code::timeout, "no end within " + std::to_string(seconds.count()) + " s"));
            }
        });
    }
    void cancel() {
        done_ = nullptr;
        kill();
    }

private:
    Result<void> spawn() {
        const std::string path = find_program(command_.argv.front());
        if (path.empty()) {
            return fail(Code::not_found, std::strerror(ENOENT));
        }
        Pipe refusal;
        std::array<int, 3> ends{-1, -1, -1};
        Pipe* const pipes[] = {&output_, &errors_, &refusal};
        for (std::size_t i = 0; i < ends.size(); ++i) {
            int both[2] = {-1, -1};
            if (::pipe2(both, O_CLOEXEC) != 0) {
                const int error = errno;
                close_all(ends);
                return fail(Code::unavailable, std::string("pipe: ") + std::strerror(error));
            }
            pipes[i]->fd = both[0];
            ends[i] = both[1];
        }
        const auto entries = merged_environment(command_.environment);
        const auto argv = pointers(command_.argv);
        const auto environment = pointers(entries);
        const ChildPlan plan{
            ::getpid(), path.c_str(), argv.data(), environment.data(), ends[0], ends[1], ends[2]};
        int error = 0;
        {
            const SignalsBlocked blocked;
            pid_ = ::fork();
            if (pid_ == 0) {
                run_child(plan);
            }
            error = errno;
        }
        close_all(ends);
        if (pid_ < 0) {
            return fail(Code::unavailable, std::string("fork: ") + std::strerror(error));
        }
        // Ends with its exec at the latest.
        ssize_t count = 0;
        do {
            count = ::read(refusal.fd, &error, sizeof error);
        } while (count < 0 && errno == EINTR);
        if (count == sizeof error) {
            const bool absent = error == ENOENT || error == ENOTDIR;
            return fail(absent ? Code::not_found : Code::unavailable, std::strerror(error));
        }
        return watch();
    }

    Result<void> watch() {
        pid_fd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
        if (pid_fd_ < 0) {
            return fail(Code::unavailable, std::string("pidfd_open: ") + std::strerror(errno));
        }
        for (Pipe* pipe : {&output_, &errors_}) {
            ::fcntl(pipe->fd, F_SETFL, O_NONBLOCK);
            CAPSTAN_TRY(pipe->watch, loop_.on_readable(pipe->fd, [this, pipe] { read(*pipe); }));
        }
        CAPSTAN_TRY(exit_, loop_.on_readable(pid_fd_, [this] { ended(); }));
        return ok();
    }

    void read(Pipe& pipe) {
        const auto self = shared_from_this();
        const bool more = pipe.read();
        if (output_.text.size() > kCommandOutputBytesMax) {
            finish(
                fail(Code::too_large,
                     "more than " + std::to_string(kCommandOutputBytesMax) + " bytes of output"));
            return;
        }
        if (errors_.text.size() > kCommandErrorsBytesKept) {
            errors_.text.erase(0, errors_.text.size() - kCommandErrorsBytesKept);
        }
        if (!more) {
            pipe.close();
        }
    }

    // What its own children still write is not waited for.
    void ended() {
        siginfo_t info{};
        if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid != pid_) {
            return;
        }
        CommandResult result;
        result.code = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
        for (Pipe* pipe : {&output_, &errors_}) {
            if (pipe->fd >= 0) {
                pipe->read();
            }
        }
        result.output = std::move(output_.text);
        result.errors = std::move(errors_.text);
        finish(std::move(result));
    }

    void finish(Result<CommandResult> result) {
        const auto self = shared_from_this();
        kill();
        if (const auto call = std::exchange(done_, nullptr)) {
            call(std::move(result));
        }
    }

    void kill() {
        limit_.reset();
        exit_.reset();
        output_.close();
        errors_.close();
        if (pid_ > 0) {
            ::kill(-pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
            pid_ = -1;
        }
        if (pid_fd_ >= 0) {
            ::close(pid_fd_);
            pid_fd_ = -1;
        }
    }

    IoLoop& loop_;
    const Command command_;
    CommandDone done_;
    pid_t pid_{-1};
    int pid_fd_{-1};
    Pipe output_;
    Pipe errors_;
    std::unique_ptr<Watch> exit_;
    std::unique_ptr<Timer> limit_;
};

class CommandHandle final : public RunningCommand {
public:
    explicit CommandHandle(std::shared_ptr<CommandProcess> process)
        : process_(std::move(process)) {}
    ~CommandHandle() override { process_->cancel(); }
    CommandHandle(const CommandHandle&) = delete;
    CommandHandle& operator=(const CommandHandle&) = delete;

private:
    std::shared_ptr<CommandProcess> process_;  // shared with callbacks that run
};

}  // namespace

std::unique_ptr<RunningCommand> run_command(IoLoop& loop, Command command, CommandDone done) {
    CAPSTAN_CHECK(!command.argv.empty(), "argv");
    auto process = std::make_shared<CommandProcess>(loop, std::move(command), std::move(done));
    loop.post([weak = std::weak_ptr(process)] {
        if (const auto self = weak.lock()) {
            self->start();
        }
    });
    return std::make_unique<CommandHandle>(std::move(process));
}

}  // namespace capstan::net
