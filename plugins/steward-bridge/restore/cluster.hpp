// The members of a cluster that starts anew, with the ids etcd gives them.
//
// An id is the beginning of SHA-1 over the member's sorted peer URLs and the token; the cluster's,
// of SHA-1 over the members' ids. Thread: any (values).
#pragma once

#include "capstan/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::steward {

struct NewMember {
    std::uint64_t id{0};
    std::string name;
    std::vector<std::string> peer_urls;  // sorted

    std::string hex_id() const;           // as etcd prints it and as the bucket `members` has it
    std::string raft_attributes() const;  // {"peerURLs":[…]}
    std::string json() const;             // {"id":…,"peerURLs":[…],"name":"…"}
};

struct NewCluster {
    std::uint64_t id{0};
    std::vector<NewMember> members;  // by id
    std::size_t own{0};              // index of the member whose directory is written

    const NewMember& self() const { return members[own]; }
};

// `initial_cluster` as etcd takes it: "a=https://a:2380,b=https://b:2380"; a name may stand several
// times, once per URL. Errors: invalid, naming the part that is wrong and what is expected.
Result<NewCluster> make_cluster(std::string_view name,
                                std::string_view initial_cluster,
                                std::string_view token);

}  // namespace capstan::steward
