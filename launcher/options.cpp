#include "launcher/options.hpp"

#include "launcher/files.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace capstan::launcher {
namespace {

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

// "unix:PATH" or "http://HOST:PORT". In a shared pod address (`pod_ip` set) only the port counts.
bool parse_steward(std::string_view text, const char* pod_ip, Address& out) {
    constexpr std::string_view kUnix = "unix:";
    if (text.substr(0, kUnix.size()) == kUnix) {
        out = {{}, 0, std::string(text.substr(kUnix.size()))};
        return !out.socket.empty();
    }
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

}  // namespace

bool read_options(int argc, char** argv, Options& options) {
    if (const char* etcd = std::getenv("CAPSTAN_ETCD")) {
        options.etcd = etcd;
    }
    const char* pod_ip =
        std::getenv("CAPSTAN_POD_MAP") == nullptr ? nullptr : std::getenv("POD_IP");
    if (pod_ip != nullptr) {
        options.listen.host = options.etcd_client.host = pod_ip;
    }
    for (int i = 2; i < argc; ++i) {
        if (!parse_option(argv[i], pod_ip, options)) {
            return false;
        }
    }
    if (options.steward.socket.empty() && options.steward.port == 0) {
        options.steward.socket = options.run_dir + "/steward.sock";
    }
    return true;
}

}  // namespace capstan::launcher
