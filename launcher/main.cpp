// capstan-launcher: starts etcd in its container, as the steward says, and ends it cleanly.
// The command line; the work is in launcher.cpp.
#include "launcher/files.hpp"
#include "launcher/launcher.hpp"
#include "launcher/options.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

namespace capstan::launcher {
namespace {

constexpr const char* kHelp =
    R"(capstan-launcher run      run etcd as the steward of this member says
  --steward=unix:PATH         the steward (default: steward.sock in the run directory), or
  --steward=http://HOST:PORT  HOST is numeric or in /etc/hosts
  --listen-port=PORT          own /readyz, POST /stop, POST /restart (default 9095)
  --etcd-port=PORT            etcd's client port, for the health check (default 2379)
  --etcd=PATH                 etcd's program (default /usr/local/bin/etcd; env CAPSTAN_ETCD overrides)
  --data-dir=DIR              etcd's data directory; only named, etcd's configuration decides
  --exit-marker=PATH          file that tells the next start how this one ended
                              (default /var/etcd/data/exit_code)
  --run-dir=DIR               in-memory directory shared with the steward (default /var/run/capstan)
capstan-launcher install PATH   copy this program to PATH, mode 0755
capstan-launcher --version | --help

On Kubernetes the containers of a pod share 127.0.0.1 and the launcher listens on all addresses. Where they do not,
set POD_IP and CAPSTAN_POD_MAP: the launcher then uses POD_IP.
)";

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
    return read_options(argc, argv, options) ? Launcher(options).run() : 2;
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
