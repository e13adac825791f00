// capstan-launcher: starts etcd in its container, as the steward says, and ends it cleanly.
//
// Waits for the member's initialisation, fetches its configuration, runs etcd as a child, answers
// /readyz, /stop and /restart, and leaves the exit marker that decides how the next start
// validates. One thread, one poll loop.
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
    std::string exit_marker{"/var/etcd/data/exit_code"};
    std::string run_dir{"/var/run/capstan"};  // shared with the steward, in memory
};

constexpr const char* kHelp =
    "capstan-launcher run      run etcd as the steward of this member says\n"
    "  --steward=http://HOST:PORT  the steward (default http://127.0.0.1:8080); HOST is numeric or "
    "in /etc/hosts\n"
    "  --listen-port=PORT          own /readyz, POST /stop, POST /restart (default 9095)\n"
    "  --etcd-port=PORT            etcd's client port, for the health check (default 2379)\n"
    "  --etcd=PATH                 etcd's program (default /usr/local/bin/etcd; env CAPSTAN_ETCD "
    "overrides)\n"
    "  --data-dir=DIR              etcd's data directory; only named, etcd's configuration "
    "decides\n"
    "  --exit-marker=PATH          file that tells the next start how this one ended\n"
    "                              (default /var/etcd/data/exit_code)\n"
    "  --run-dir=DIR               in-memory directory shared with the steward (default "
    "/var/run/capstan)\n"
    "capstan-launcher install PATH   copy this program to PATH, mode 0755\n"
    "capstan-launcher --version | --help\n"
    "\n"
    "On Kubernetes the containers of a pod share 127.0.0.1 and the launcher listens on all "
    "addresses. Where they do not,\n"
    "set POD_IP and CAPSTAN_POD_MAP: the launcher then uses POD_IP for all three.\n";

void say(const std::string& text) {
    std::fprintf(stderr, "capstan-launcher: %s\n", text.c_str());
}

// Reads at most 64 KiB; "" when the file is not there.
std::string read_small_file(const std::string& path) {
    std::string text;
    if (std::FILE* file = std::fopen(path.c_str(), "re")) {
        char buffer[4096];
        std::size_t count = 0;
        while (text.size() < 64 * 1024 &&
               (count = std::fread(buffer, 1, sizeof buffer, file)) > 0) {
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
    const bool written =
        fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
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
          marker_path_(options_.exit_marker),
          fsm_(read_small_file(marker_path_),
               std::to_string(::getpid()) + "-" + std::to_string(::time(nullptr))) {}

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
            case Action::Kind::get: {
                std::string token = read_small_file(options_.run_dir + "/token");
                while (!token.empty() && token.back() == '\n') {
                    token.pop_back();
                }
                steward_.start(options_.steward, action.text, token, now);
                break;
            }
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
            perform(fsm_.on_health(reply.status == 200 &&
                                   reply.body.find("\"true\"") != std::string::npos));
        }
        listener_.step(entries, now, [this](std::string_view method, std::string_view path) {
            return answer(method, path);
        });
        if (timer_ && now >= *timer_) {
            timer_.reset();
            perform(fsm_.on_timer());
        }
    }
    return *exit_code_;
}

// The address of `host` in /etc/hosts, "" when it is not there.
std::string find_in_hosts(std::string_view host) {
    const std::string hosts = read_small_file("/etc/hosts");
    std::size_t at = 0;
    while (at < hosts.size()) {
        const std::size_t end = std::min(hosts.find('\n', at), hosts.size());
        std::string line = hosts.substr(at, end - at);
        at = end + 1;
        line.resize(std::min(line.find('#'), line.size()));
        char* rest = nullptr;
        const char* address = ::strtok_r(line.data(), " \t\r", &rest);
        for (const char* name = address; name != nullptr;
             name = ::strtok_r(nullptr, " \t\r", &rest)) {
            if (name != address && host == name) {
                return address;
            }
        }
    }
    return {};
}

// "http://HOST:PORT". In a shared pod address (`pod_ip` set) only the port counts.
bool parse_steward(std::string_view text, const char* pod_ip, Address& out) {
    constexpr std::string_view kScheme = "http://";
    const std::size_t colon = text.rfind(':');
    if (text.substr(0, kScheme.size()) != kScheme || colon == std::string_view::npos ||
        colon < kScheme.size()) {
        return false;
    }
    std::string host(text.substr(kScheme.size(), colon - kScheme.size()));
    const std::string port(text.substr(colon));
    if (pod_ip != nullptr) {
        host = pod_ip;
    } else if (const std::string known = find_in_hosts(host); !known.empty()) {
        host = known;
    }
    return parse_address(host + port, out);
}

bool parse_port(std::string_view text, Address& out) {
    Address parsed;
    if (!parse_address(":" + std::string(text), parsed)) {
        return false;
    }
    out.port = parsed.port;
    return true;
}

// One "--name=value"; false when the name is unknown or the value does not fit, after saying so.
bool parse_option(std::string_view argument, const char* pod_ip, Options& options) {
    const std::size_t equals = std::min(argument.find('='), argument.size());
    const std::string_view name = argument.substr(0, equals);
    const std::string value(argument.substr(std::min(equals + 1, argument.size())));
    bool good = !value.empty();
    if (name == "--steward") {
        good = parse_steward(value, pod_ip, options.steward);
    } else if (name == "--listen-port") {
        good = parse_port(value, options.listen);
    } else if (name == "--etcd-port") {
        good = parse_port(value, options.etcd_client);
    } else if (name == "--etcd") {
        options.etcd = std::getenv("CAPSTAN_ETCD") == nullptr ? value : options.etcd;
    } else if (name == "--exit-marker") {
        options.exit_marker = value;
    } else if (name == "--run-dir") {
        options.run_dir = value;
    } else if (name != "--data-dir") {
        say("unknown option \"" + std::string(name) + "\"; see --help");
        return false;
    }
    if (!good) {
        say(std::string(name) + ": \"" + value + "\" does not fit; see --help");
    }
    return good;
}

// Copies this program to `path` through a temporary file beside it. Exit code.
int install(const std::string& path) {
    const std::string temporary = path + ".tmp";
    const int from = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    const int to = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    char buffer[64 * 1024];
    ssize_t count = from < 0 || to < 0 ? -1 : 1;
    while (count > 0 && (count = ::read(from, buffer, sizeof buffer)) > 0) {
        count = ::write(to, buffer, static_cast<std::size_t>(count)) == count ? count : -1;
    }
    if (count < 0 || ::fchmod(to, 0755) != 0 || ::fsync(to) != 0 ||
        ::rename(temporary.c_str(), path.c_str()) != 0) {
        say("cannot install to " + path + ": " + std::strerror(errno));
        return 1;
    }
    return 0;
}

int run_command(int argc, char** argv) {
    Options options;
    if (const char* etcd = std::getenv("CAPSTAN_ETCD")) {
        options.etcd = etcd;
    }
    const char* pod_ip =
        std::getenv("CAPSTAN_POD_MAP") == nullptr ? nullptr : std::getenv("POD_IP");
    if (pod_ip != nullptr) {
        options.steward.host = options.listen.host = options.etcd_client.host = pod_ip;
    }
    for (int i = 2; i < argc; ++i) {
        if (!parse_option(argv[i], pod_ip, options)) {
            return 2;
        }
    }
    return Launcher(options).run();
}

}  // namespace
}  // namespace capstan::launcher

int main(int argc, char** argv) {
    const std::string_view command = argc > 1 ? argv[1] : "--help";
    if (command == "run") {
        return capstan::launcher::run_command(argc, argv);
    }
    if (command == "install" && argc == 3) {
        return capstan::launcher::install(argv[2]);
    }
    const bool asked = command == "--help" || command == "--version";
    std::fputs(command == "--version" ? "capstan-launcher " CAPSTAN_VERSION "\n"
                                      : capstan::launcher::kHelp,
               asked ? stdout : stderr);
    return asked ? 0 : 2;
}
