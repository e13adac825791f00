#include "runtime/local/node/addresses.hpp"

#include "capstan/json.hpp"
#include "runtime/local/node/files.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstddef>
#include <cstring>

namespace capstan::local {
namespace {

std::string_view take_word(std::string_view& line) {
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
    const auto word = line.substr(0, line.find(' '));
    line.remove_prefix(word.size());
    return word;
}

unsigned hex(std::string_view text) {
    unsigned value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value, 16);
    return value;
}

// "0100007F:1F90" -> 127.0.0.1, 8080. The kernel prints the address as one word in host order.
Listener parse_address(std::string_view text) {
    const auto colon = text.find(':');
    const auto address = text.substr(0, colon);
    Listener out;
    out.port = static_cast<std::uint16_t>(hex(text.substr(colon + 1)));
    const bool all_zero = address.find_first_not_of('0') == std::string_view::npos;
    if (all_zero) {
        out.address = "*";
    } else if (address.size() == 8 || address.starts_with("0000000000000000FFFF0000")) {
        const auto word = hex(address.substr(address.size() - 8));
        for (int i = 0; i < 4; ++i) {
            out.address += (i == 0 ? "" : ".") + std::to_string((word >> (8 * i)) & 0xFF);
        }
    }
    return out;
}

void read_listeners(const std::string& path, std::vector<Listener>& out) {
    const auto text = read_file(path, 64u * 1024 * 1024);
    if (!text.has_value()) {
        return;
    }
    std::string_view rest = text.value();
    while (!rest.empty()) {
        auto line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
        take_word(line);  // number
        const auto local = take_word(line);
        take_word(line);                // remote
        if (take_word(line) != "0A") {  // TCP_LISTEN
            continue;
        }
        auto listener = parse_address(local);
        for (int i = 0; i < 5; ++i) {
            take_word(line);  // queues, timer, retransmits, uid, timeout
        }
        listener.inode = take_word(line);
        out.push_back(std::move(listener));
    }
}

// "etcd (pid 812)"; "another process" when it belongs to somebody whose
// descriptors we may not read.
std::string owner_of_socket(const std::string& inode) {
    const std::string wanted = "socket:[" + inode + "]";
    for (const auto& pid : list_dir("/proc")) {
        if (pid.empty() || pid[0] < '0' || pid[0] > '9') {
            continue;
        }
        const std::string fds = "/proc/" + pid + "/fd";
        for (const auto& fd : list_dir(fds)) {
            char target[128];
            const auto n = ::readlink((fds + "/" + fd).c_str(), target, sizeof target);
            if (n > 0 && std::string_view(target, static_cast<std::size_t>(n)) == wanted) {
                const auto comm = read_file("/proc/" + pid + "/comm");
                const auto name = comm.has_value() ? comm.value() : std::string("a process");
                return name.substr(0, name.find('\n')) + " (pid " + pid + ")";
            }
        }
    }
    return "another process";
}

}  // namespace

std::vector<Listener> listeners() {
    std::vector<Listener> out;
    read_listeners("/proc/net/tcp", out);
    read_listeners("/proc/net/tcp6", out);
    return out;
}

std::optional<std::string> port_conflict(const std::string& address, std::uint16_t port) {
    for (const auto& listener : listeners()) {
        if (listener.port == port && (listener.address == "*" || listener.address == address)) {
            return "port " + std::to_string(port) + " is taken on " +
                   (listener.address == "*" ? "all addresses" : listener.address) + " by " +
                   owner_of_socket(listener.inode) + "; stop it or choose another port";
        }
    }
    return std::nullopt;
}

std::optional<HeldAddress> HeldAddress::take(const std::string& address) {
    // An abstract name: it begins with a zero byte and leaves no file behind.
    const std::string name = "capstan-pod-address/" + address;
    sockaddr_un own{};
    own.sun_family = AF_UNIX;
    if (name.size() >= sizeof own.sun_path) {
        return HeldAddress(-1);  // from a damaged file; no address at all
    }
    std::memcpy(own.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    sockaddr_storage generic{};
    std::memcpy(&generic, &own, length);
    const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool bound =
        fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&generic), length) == 0;
    if (bound) {
        return HeldAddress(fd);
    }
    const bool taken = fd >= 0 && errno == EADDRINUSE;
    if (fd >= 0) {
        ::close(fd);
    }
    return taken ? std::nullopt : std::optional(HeldAddress(-1));
}

HeldAddress::~HeldAddress() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

AddressBook::AddressBook(std::string path, std::string prefix)
    : path_(std::move(path)), prefix_(std::move(prefix)) {
    const auto text = read_file(path_);
    const auto value = text.has_value() ? json::parse(text.value()) : fail(Code::not_found, "");
    if (!value.has_value()) {
        return;
    }
    for (const auto& [key, address] : json::View(value.value()).object()) {
        const auto slash = key.find('/');
        if (slash != std::string::npos && address.is_string() &&
            address.if_string()->starts_with(prefix_ + ".")) {
            claim({key.substr(0, slash), key.substr(slash + 1)}, *address.if_string());
        }
    }
}

void AddressBook::claim(const ObjectKey& pod, const std::string& address) {
    release(pod);
    by_pod_[pod] = address;
    taken_.insert(address);
    if (auto held = HeldAddress::take(address)) {
        held_.emplace(address, std::move(*held));
    }
}

void AddressBook::release(const ObjectKey& pod) {
    if (const auto it = by_pod_.find(pod); it != by_pod_.end()) {
        taken_.erase(it->second);
        held_.erase(it->second);
        by_pod_.erase(it);
    }
}

std::optional<std::string> AddressBook::known(const ObjectKey& pod) const {
    const auto it = by_pod_.find(pod);
    return it == by_pod_.end() ? std::nullopt : std::optional(it->second);
}

Result<void> AddressBook::save() const {
    json::Value out = json::object();
    for (const auto& [pod, address] : by_pod_) {
        out.set(pod.to_string(), address);
    }
    return write_file(path_, json::dump(out), 0600);
}

Result<std::string> AddressBook::address_of(const ObjectKey& pod) {
    if (auto address = known(pod)) {
        return *address;
    }
    std::set<std::string> busy;
    for (auto& listener : listeners()) {
        busy.insert(std::move(listener.address));
    }
    for (int tries = 0; tries < kAddressesMax; ++tries) {
        const int number = next_;
        next_ = next_ >= kAddressesMax ? 2 : next_ + 1;
        if (number % 256 == 0 || number % 256 == 255) {
            continue;
        }
        const auto address =
            prefix_ + "." + std::to_string(number / 256) + "." + std::to_string(number % 256);
        if (taken_.contains(address) || busy.contains(address)) {
            continue;
        }
        claim(pod, address);
        if (!held_.contains(address)) {  // another node's, whose pod does not listen yet
            release(pod);
            continue;
        }
        if (auto saved = save(); !saved.has_value()) {
            release(pod);
            return fail(std::move(saved).error());
        }
        return address;
    }
    return fail(Code::overloaded,
                "no address below " + prefix_ + ".0.0/16 is free for pod " + pod.to_string());
}

}  // namespace capstan::local
