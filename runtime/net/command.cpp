#include "runtime/net/command.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
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

struct FileActions {
    posix_spawn_file_actions_t actions;
    FileActions() { ::posix_spawn_file_actions_init(&actions); }
    ~FileActions() { ::posix_spawn_file_actions_destroy(&actions); }
    FileActions(const FileActions&) = delete;
    FileActions& operator=(const FileActions&) = delete;
};

struct Attributes {
    posix_spawnattr_t attributes;
    Attributes() {
        ::posix_spawnattr_init(&attributes);
        sigset_t none;
        sigemptyset(&none);
        sigset_t all;
        sigfillset(&all);
        ::posix_spawnattr_setsigmask(&attributes, &none);
        ::posix_spawnattr_setsigdefault(&attributes, &all);
        ::posix_spawnattr_setpgroup(&attributes, 0);
        ::posix_spawnattr_setflags(
            &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    }
    ~Attributes() { ::posix_spawnattr_destroy(&attributes); }
    Attributes(const Attributes&) = delete;
    Attributes& operator=(const Attributes&) = delete;
};

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
        std::array<int, 2> output{-1, -1};
        std::array<int, 2> errors{-1, -1};
        if (::pipe2(output.data(), O_CLOEXEC) != 0) {
            return fail(Code::unavailable, std::string("pipe: ") + std::strerror(errno));
        }
        output_.fd = output[0];
        if (::pipe2(errors.data(), O_CLOEXEC) != 0) {
            ::close(output[1]);
            return fail(Code::unavailable, std::string("pipe: ") + std::strerror(errno));
        }
        errors_.fd = errors[0];
        FileActions files;
        ::posix_spawn_file_actions_addopen(&files.actions, 0, "/dev/null", O_RDONLY, 0);
        ::posix_spawn_file_actions_adddup2(&files.actions, output[1], 1);
        ::posix_spawn_file_actions_adddup2(&files.actions, errors[1], 2);
        const Attributes attributes;
        const auto entries = merged_environment(command_.environment);
        const auto argv = pointers(command_.argv);
        const int error = ::posix_spawnp(&pid_,
                                         argv[0],
                                         &files.actions,
                                         &attributes.attributes,
                                         argv.data(),
                                         pointers(entries).data());
        ::close(output[1]);
        ::close(errors[1]);
        if (error != 0) {
            pid_ = -1;
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
