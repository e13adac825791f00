// capstan-launcher: starts etcd in its container, as the steward says, and ends it cleanly.
//
// Waits for the member's initialisation, fetches its configuration, runs etcd as a child, answers /readyz, /stop and
// /restart, and leaves the exit marker that decides how the next start validates. One thread, one poll loop.
#include "launcher/http_lite.hpp"
#include "launcher/launcher_fsm.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

namespace capstan::launcher {
namespace {

struct Options {
    Address steward{"127.0.0.1", 8080};
    Address listen{"", 9095};
    Address etcd_client{"127.0.0.1", 2379};
    std::string etcd{"/usr/local/bin/etcd"};
    std::string data_dir{"/var/etcd/data"};
    std::string runtime_dir{"/var/run/capstan"};  // shared with the steward, in memory
};

constexpr const char* kHelp =
    "capstan-launcher: run etcd as the steward of this member says\n"
    "\n"
    "  --steward=ADDRESS:PORT  the steward (default 127.0.0.1:8080)\n"
    "  --listen=ADDRESS:PORT   own /readyz, /stop, /restart (default :9095, all addresses)\n"
    "  --etcd-client=ADDRESS:PORT  etcd's client port, for the health check (default 127.0.0.1:2379)\n"
    "  --etcd=PATH             etcd's program (default /usr/local/bin/etcd; env CAPSTAN_ETCD overrides)\n"
    "  --data-dir=DIR          holds exit_code, the exit marker (default /var/etcd/data)\n"
    "  --runtime-dir=DIR       in-memory directory shared with the steward (default /var/run/capstan)\n"
    "  --version, --help\n"
    "\n"
    "On Kubernetes the containers of a pod share 127.0.0.1. Where they do not, set POD_IP and CAPSTAN_POD_MAP: the\n"
    "launcher then uses POD_IP in place of 127.0.0.1 and of \"all addresses\".\n";

void say(const std::string& text) { std::fprintf(stderr, "capstan-launcher: %s\n", text.c_str()); }

// Reads at most 64 KiB; "" when the file is not there.
std::string read_small_file(const std::string& path) {
    std::string text;
    if (std::FILE* file = std::fopen(path.c_str(), "re")) {
        char buffer[4096];
        std::size_t count = 0;
        while (text.size() < 64 * 1024 && (count = std::fread(buffer, 1, sizeof buffer, file)) > 0) {
            text.append(buffer, count);
        }
        std::fclose(file);
    }
    return text;
}

// Writes atomically with mode 0600 and makes it durable. Error text, "" on success.
std::string write_file(const std::string& path, std::string_view text) {
    const std::string temporary = path + ".tmp";
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const bool written = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                         ::fsync(fd) == 0;
    const int error = errno;
    if (fd >= 0) {
        ::close(fd);
    }
    if (!written || ::rename(temporary.c_str(), path.c_str()) != 0) {
        return "cannot write " + path + ": " + std::strerror(written ? errno : error);
    }
    return {};
}

class Launcher {
public:
    explicit Launcher(Options options)
        : options_(std::move(options)),
          marker_path_(options_.data_dir + "/exit_code"),
          fsm_(read_small_file(marker_path_), std::to_string(::getpid()) + "-" + std::to_string(::time(nullptr))) {}

    int run();

private:
    void perform(const Actions& actions);
    void spawn(const std::string& configuration);
    void on_signals();
    void reap();
    Reply answer(std::string_view method, std::string_view path);
    int poll_timeout(Time now) const;

    Options options_;
    std::string marker_path_;
    LauncherFsm fsm_;
    Listener listener_;
    Fetch steward_, health_;
    std::optional<Time> timer_;
    std::optional<int> exit_code_;
    pid_t child_{-1};
    bool child_terminated_by_us_{false};
    int signal_fd_{-1};
};

Reply Launcher::answer(std::string_view method, std::string_view path) {
    if (path == "/readyz") {
        const std::string why = fsm_.why_not_ready();
        return why.empty() ? Reply{200, "ready\n"} : Reply{503, why + "\n"};
    }
    if (path == "/healthz") {
        return {200, "ok\n"};
    }
    if ((path == "/stop" || path == "/restart") && method != "POST") {
        return {405, "use POST\n"};
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
    const std::string path = options_.runtime_dir + "/launcher.etcd.conf.yaml";
    if (const std::string error = write_file(path, configuration); !error.empty()) {
        say(error + "; remedy: the directory given by --runtime-dir must be writable");
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
        ::umask(0077);
        const std::string flag = "--config-file=" + path;
        ::execlp(options_.etcd.c_str(), "etcd", flag.c_str(), static_cast<char*>(nullptr));
        ::dprintf(2, "capstan-launcher: cannot run %s: %s; remedy: --etcd or CAPSTAN_ETCD must name etcd's program\n",
                  options_.etcd.c_str(), std::strerror(errno));
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
            case Action::Kind::get: {
                std::string token = read_small_file(options_.runtime_dir + "/token");
                while (!token.empty() && token.back() == '\n') {
                    token.pop_back();
                }
                steward_.start(options_.steward, action.text, token, now);
                break;
            }
            case Action::Kind::check_health: health_.start(options_.etcd_client, "/health", "", now); break;
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
                if (const std::string error = write_file(marker_path_, action.text); !error.empty()) {
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
        const bool clean = code == 0 || (child_terminated_by_us_ && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
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
    signal_fd_ = ::signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    if (const std::string error = listener_.listen(options_.listen); !error.empty()) {
        say("cannot listen on port " + std::to_string(options_.listen.port) + ": " + error +
            "; remedy: free it or give --listen");
        return 1;
    }
    perform(fsm_.start());
    while (!exit_code_) {
        const Time before = std::chrono::steady_clock::now();
        std::vector<pollfd> entries{{signal_fd_, POLLIN, 0}, steward_.poll_entry(), health_.poll_entry()};
        listener_.add_poll_entries(entries);
        ::poll(entries.data(), entries.size(), poll_timeout(before));
        const Time now = std::chrono::steady_clock::now();
        on_signals();
        Reply reply;
        if (steward_.active() && steward_.step(entries[1].revents, now, reply)) {
            perform(fsm_.on_reply(reply.status, reply.body));
        }
        if (health_.active() && health_.step(entries[2].revents, now, reply)) {
            perform(fsm_.on_health(reply.status == 200 && reply.body.find("\"true\"") != std::string::npos));
        }
        listener_.step(entries, now, [this](std::string_view method, std::string_view path) { return answer(method, path); });
        if (timer_ && now >= *timer_) {
            timer_.reset();
            perform(fsm_.on_timer());
        }
    }
    return *exit_code_;
}

// Exit code 2 in `code` when the command line is wrong; 0 after --help or --version.
std::optional<Options> parse(int argc, char** argv, int& code) {
    Options options;
    if (const char* etcd = std::getenv("CAPSTAN_ETCD")) {
        options.etcd = etcd;
    }
    const char* pod_ip = std::getenv("POD_IP");
    if (pod_ip != nullptr && std::getenv("CAPSTAN_POD_MAP") != nullptr) {
        options.steward.host = options.listen.host = options.etcd_client.host = pod_ip;
    }
    code = 2;
    for (int i = 1; i < argc; ++i) {
        const std::string_view argument = argv[i];
        const std::size_t equals = argument.find('=');
        const std::string_view name = argument.substr(0, equals);
        const std::string_view value = equals == std::string_view::npos ? std::string_view() : argument.substr(equals + 1);
        bool good = true;
        if (name == "--help" || name == "--version") {
            std::fputs(name == "--help" ? kHelp : "capstan-launcher " CAPSTAN_VERSION "\n", stdout);
            code = 0;
            return std::nullopt;
        } else if (name == "--steward") {
            good = parse_address(value, options.steward);
        } else if (name == "--listen") {
            good = parse_address(value, options.listen);
        } else if (name == "--etcd-client") {
            good = parse_address(value, options.etcd_client);
        } else if (name == "--etcd") {
            options.etcd = std::getenv("CAPSTAN_ETCD") == nullptr ? std::string(value) : options.etcd;
        } else if (name == "--data-dir") {
            options.data_dir = value;
        } else if (name == "--runtime-dir") {
            options.runtime_dir = value;
        } else {
            say("unknown option " + std::string(name) + "; see --help");
            return std::nullopt;
        }
        if (!good) {
            say(std::string(name) + ": \"" + std::string(value) + "\" is not ADDRESS:PORT with a numeric address");
            return std::nullopt;
        }
    }
    return options;
}

}  // namespace
}  // namespace capstan::launcher

int main(int argc, char** argv) {
    int code = 0;
    const auto options = capstan::launcher::parse(argc, argv, code);
    if (!options) {
        return code;
    }
    return capstan::launcher::Launcher(*options).run();
}
