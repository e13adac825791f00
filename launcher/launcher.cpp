#include "launcher/launcher.hpp"

#include "launcher/files.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

namespace capstan::launcher {
namespace {

constexpr std::size_t kTokenBytesMin = 16;  // with its scheme; a shorter one is no token

}  // namespace

Launcher::Launcher(Options options)
    : options_(std::move(options)),
      marker_path_(options_.exit_marker),
      learner_path_(options_.run_dir + "/learner"),
      fsm_(read_small_file(marker_path_),
           std::to_string(::getpid()) + "-" + std::to_string(::time(nullptr))) {}

std::string Launcher::token() const {
    std::string token = read_small_file(options_.run_dir + "/token");
    while (!token.empty() && token.back() == '\n') {
        token.pop_back();
    }
    return token;
}

// The port is open to the pod's network, and these two end or restart a member.
bool Launcher::is_steward(std::string_view authorization) const {
    const std::string expected = "Bearer " + token();
    if (expected.size() != authorization.size() || expected.size() < kTokenBytesMin) {
        return false;
    }
    unsigned difference = 0;  // takes the same time wherever they differ
    for (std::size_t i = 0; i < expected.size(); ++i) {
        difference |= static_cast<unsigned char>(expected[i] ^ authorization[i]);
    }
    return difference == 0;
}

Reply Launcher::answer(const Request& request) {
    const std::string_view path = request.path;
    if (path == "/readyz") {
        const std::string why = fsm_.why_not_ready();
        return why.empty() ? Reply{200, "ready\n"} : Reply{503, why + "\n"};
    }
    if (path == "/healthz") {
        return {200, "ok\n"};
    }
    const bool change = path == "/stop" || path == "/restart";
    if (change && request.method != "POST") {
        return {405, "use POST\n"};
    }
    if (change && !is_steward(request.authorization)) {
        return {401, "send \"Authorization: Bearer\" with the token of the run directory\n"};
    }
    if (path == "/stop") {
        perform(fsm_.on_terminate("terminated"));
        return {200, "stopping\n"};
    }
    if (path == "/restart") {
        perform(fsm_.on_restart_request());
        return {200, "restarting\n"};
    }
    return {404, "not found; there are /readyz, /healthz, POST /stop, POST /restart\n"};
}

void Launcher::spawn(const std::string& configuration) {
    const std::string path = options_.run_dir + "/launcher.etcd.conf.yaml";
    if (const std::string error = write_file(path, configuration); !error.empty()) {
        say(error + "; remedy: the directory given by --run-dir must be writable");
        exit_code_ = 1;
        return;
    }
    const pid_t parent = ::getpid();
    child_terminated_by_us_ = false;
    child_ = ::fork();
    if (child_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a launcher killed hard must not leave etcd behind
        if (::getppid() != parent) {
            ::_exit(1);
        }
        sigset_t none;
        sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
        ::signal(SIGPIPE, SIG_DFL);
        ::umask(0077);
        const std::string flag = "--config-file=" + path;
        ::execlp(options_.etcd.c_str(), "etcd", flag.c_str(), static_cast<char*>(nullptr));
        ::dprintf(2,
                  "capstan-launcher: cannot run %s: %s; remedy: --etcd or CAPSTAN_ETCD must name "
                  "etcd's program\n",
                  options_.etcd.c_str(),
                  std::strerror(errno));
        ::_exit(127);
    }
    if (child_ < 0) {
        say(std::string("fork: ") + std::strerror(errno));
        exit_code_ = 1;
    }
}

void Launcher::perform(const Actions& actions) {
    const Time now = std::chrono::steady_clock::now();
    for (const Action& action : actions) {
        switch (action.kind) {
            case Action::Kind::get:
                steward_.start(options_.steward, action.text, token(), now);
                break;
            case Action::Kind::check_health:
                health_.start(options_.etcd_client, "/health", "", now);
                break;
            case Action::Kind::set_timer: timer_ = now + action.delay; break;
            case Action::Kind::spawn: spawn(action.text); break;
            case Action::Kind::terminate:
            case Action::Kind::kill:
                if (child_ > 0) {
                    child_terminated_by_us_ = action.kind == Action::Kind::terminate;
                    ::kill(child_, action.kind == Action::Kind::kill ? SIGKILL : SIGTERM);
                }
                break;
            case Action::Kind::write_marker:
                if (const std::string error = write_file(marker_path_, action.text);
                    !error.empty()) {
                    say(error + "; the next start validates everything");
                }
                break;
            case Action::Kind::remove_marker: ::unlink(marker_path_.c_str()); break;
            case Action::Kind::exit: exit_code_ = action.code; break;
            case Action::Kind::log: say(action.text); break;
        }
    }
}

void Launcher::reap() {
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid != child_) {
            continue;
        }
        child_ = -1;
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        // etcd ends a SIGTERM by raising it again, so "ended by our SIGTERM" is its clean end.
        const bool clean = code == 0 || (child_terminated_by_us_ && WIFSIGNALED(status) &&
                                         WTERMSIG(status) == SIGTERM);
        perform(fsm_.on_child_exit(clean, code));
    }
}

void Launcher::on_signals() {
    signalfd_siginfo info{};
    while (::read(signal_fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
        if (info.ssi_signo == SIGCHLD) {
            reap();
        } else {
            perform(fsm_.on_terminate(info.ssi_signo == SIGINT ? "interrupt" : "terminated"));
        }
    }
}

int Launcher::poll_timeout(Time now) const {
    Time next = now + std::chrono::seconds(5);
    if (timer_) {
        next = std::min(next, *timer_);
    }
    for (const Fetch* fetch : {&steward_, &health_}) {
        if (fetch->active()) {
            next = std::min(next, fetch->deadline());
        }
    }
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(next - now).count() + 1;
    return static_cast<int>(std::max<long>(wait, 0));
}

int Launcher::run() {
    sigset_t mask;
    sigemptyset(&mask);
    for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) {
        sigaddset(&mask, signal);
    }
    ::sigprocmask(SIG_BLOCK, &mask, nullptr);
    ::signal(SIGPIPE, SIG_IGN);  // a log reader that left must not end the member
    signal_fd_ = ::signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    if (const std::string error = listener_.listen(options_.listen); !error.empty()) {
        say("cannot listen on port " + std::to_string(options_.listen.port) + ": " + error +
            "; remedy: free it or give --listen");
        return 1;
    }
    perform(fsm_.start());
    while (!exit_code_) {
        const Time before = std::chrono::steady_clock::now();
        std::vector<pollfd> entries{
            {signal_fd_, POLLIN, 0}, steward_.poll_entry(), health_.poll_entry()};
        listener_.add_poll_entries(entries);
        ::poll(entries.data(), entries.size(), poll_timeout(before));
        const Time now = std::chrono::steady_clock::now();
        on_signals();
        Reply reply;
        if (steward_.active() && steward_.step(entries[1].revents, now, reply)) {
            perform(fsm_.on_reply(reply.status, reply.body));
        }
        if (health_.active() && health_.step(entries[2].revents, now, reply)) {
            const bool healthy =
                reply.status == 200 && reply.body.find("\"true\"") != std::string::npos;
            perform(fsm_.on_health(healthy, ::access(learner_path_.c_str(), F_OK) == 0));
        }
        listener_.step(entries, now, [this](const Request& request) { return answer(request); });
        if (timer_ && now >= *timer_) {
            timer_.reset();
            perform(fsm_.on_timer());
        }
    }
    return *exit_code_;
}

}  // namespace capstan::launcher
