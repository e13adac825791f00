// Loopback addresses of pods: one per pod name, kept for good, so that a pod that comes back
// is found where it was.
//
// On Kubernetes the name is what stays; here names become addresses when a configuration is
// written, so the address has to stay. Kept in one file. While the book is open no other book of
// this machine gives one of its addresses away, whether anybody listens there yet or not.
// Owner: the node. Thread: owning.
#pragma once

#include "capstan/error.hpp"
#include "capstan/object_ref.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace capstan::local {

inline constexpr int kAddressesMax = 60'000;  // of the /16

// An address that this process has for itself among all that ask here: a name of its network
// namespace, as loopback is. Freed with it, also by the process' end.
class HeldAddress {
public:
    // nullopt: another one holds it.
    static std::optional<HeldAddress> take(const std::string& address);
    HeldAddress(HeldAddress&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    HeldAddress& operator=(HeldAddress&&) = delete;
    ~HeldAddress();

private:
    explicit HeldAddress(int fd) : fd_(fd) {}
    int fd_;  // -1: this machine lets nobody hold one
};

class AddressBook {
public:
    // `prefix`: "127.77". A missing or damaged file is an empty book (what runs is adopted
    // with its own address).
    AddressBook(std::string path, std::string prefix);

    // The pod's address; a new one is taken from those that nobody holds or listens on, and saved.
    // Errors: overloaded (none free), unavailable (the file cannot be written;
    // nothing was given out).
    Result<std::string> address_of(const ObjectKey& pod);
    std::optional<std::string> known(const ObjectKey& pod) const;
    // Of an adopted pod; not saved. Held if it can be: one of a stopped node may be another's now.
    void claim(const ObjectKey& pod, const std::string& address);
    void release(const ObjectKey& pod);

private:
    Result<void> save() const;

    const std::string path_;
    const std::string prefix_;
    std::map<ObjectKey, std::string> by_pod_;
    std::set<std::string> taken_;
    std::map<std::string, HeldAddress> held_;  // of taken_
    int next_{2};
};

// Who listens where, from /proc/net/tcp and tcp6.
struct Listener {
    std::string address;  // "127.0.0.1"; "*" for all addresses
    std::uint16_t port{0};
    std::string inode;
};
std::vector<Listener> listeners();
// Why `address`:`port` cannot be bound now: "port 2379 is taken on all addresses by etcd
// (pid 812)"; nullopt: free.
std::optional<std::string> port_conflict(const std::string& address, std::uint16_t port);

}  // namespace capstan::local
