// Whose a prefix is: what the object `<prefix>/capstan/owner` says.
//
// One Etcd writes below a prefix, whichever etcd cluster it runs: a restoration makes another one.
// Pure. Thread: any.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace capstan::steward {

inline constexpr std::size_t kOwnerTextBytesMax = 4096;

struct PrefixOwner {
    std::string ns, name, uid;  // of the Etcd; uid "": not known
    std::string cluster;        // etcd's id of it, for people; "": not known
    // What was created before is of another Etcd and not continued; WallTime(): all is its own.
    WallTime since{};
    std::string asks{};  // the process of another Etcd that wants to know whether this one lives

    // "Etcd shop/main (uid …, etcd cluster cdf818194e3a8c32)"
    std::string described() const;
};

enum class Kinship : std::uint8_t {
    same,
    namesake,  // of the same name: the one before or after it, or one of another Kubernetes cluster
    stranger,
};
Kinship kinship(const PrefixOwner& a, const PrefixOwner& b);

std::string owner_key(std::string_view prefix);
bool is_owner_key(std::string_view key);
std::string to_text(const PrefixOwner& owner);
// Errors: invalid.
Result<PrefixOwner> parse_owner(std::string_view text);

}  // namespace capstan::steward
