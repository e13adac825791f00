#include "runtime/cli/child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace capstan::cli {
namespace {

constexpr std::chrono::seconds kKillAfter{5};
constexpr std::chrono::seconds kLongRun{30};  // after this a death starts the back-off anew

}  // namespace

Child::Child(net::IoLoop& loop,
             std::vector<std::string> argv,
             std::string log_path,
             std::function<void(int)> on_exit)
    : loop_(loop),
      argv_(std::move(argv)),
      log_path_(std::move(log_path)),
      on_exit_(std::move(on_exit)) {}

Child::~Child() {
    watch_.reset();
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    if (pid_fd_ >= 0) {
        ::close(pid_fd_);
    }
}

Result<void> Child::start() {
    const int log = ::open(log_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0) {
        return fail(Code::unavailable, log_path_ + ": " + std::strerror(errno));
    }
    std::vector<char*> argv;
    for (const std::string& argument : argv_) {
        argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGTERM);
        ::setpgid(0, 0);  // a Ctrl-C in the terminal is for the parent, which ends us in order
        sigset_t none;
        sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
        ::signal(SIGPIPE, SIG_DFL);  // what is ignored stays so in the program
        ::dup2(log, 1);
        ::dup2(log, 2);
        if (::getppid() == parent) {
            ::execv(argv[0], argv.data());
        }
        ::_exit(127);
    }
    const int error = errno;
    ::close(log);
    if (pid_ < 0) {
        return fail(Code::unavailable, std::string("fork: ") + std::strerror(error));
    }
    started_ = loop_.now();
    pid_fd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
    CAPSTAN_TRY(watch_, loop_.on_readable(pid_fd_, [this] { ended(); }));
    return ok();
}

void Child::ended() {
    int status = 0;
    if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) {
        return;
    }
    watch_.reset();
    timer_.reset();
    ::close(pid_fd_);
    pid_fd_ = -1;
    pid_ = -1;
    if (stopping_) {
        if (on_stopped_) {
            on_stopped_();
        }
        return;
    }
    on_exit_(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    pause_ = loop_.now() - started_ > kLongRun ? kChildPauseFirst : pause_;
    timer_ = loop_.at(loop_.now() + pause_, [this] {
        if (const auto started = start(); !started) {
            on_exit_(127);
        }
    });
    pause_ = std::min(pause_ * 2, kChildPauseMax);
}

void Child::stop(std::function<void()> done) {
    stopping_ = true;
    on_stopped_ = std::move(done);
    if (pid_ <= 0) {
        timer_.reset();
        loop_.post([this] { on_stopped_(); });
        return;
    }
    ::kill(pid_, SIGTERM);
    timer_ = loop_.at(loop_.now() + kKillAfter, [this] {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
        }
    });
}

}  // namespace capstan::cli
