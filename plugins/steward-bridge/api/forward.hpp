// Passing a request on to the steward of the leading member, which takes the snapshots.
//
// Its address is the host of the leader's client URL and the port of this API. What makes it
// impossible is answered with 405, as etcd-backup-restore does. Thread: the request's.
#pragma once

#include "capstan/plugin.hpp"
#include "plugins/steward-bridge/api/access.hpp"
#include "plugins/steward-bridge/member.hpp"

#include <string>
#include <string_view>

namespace capstan::steward {

// Files are read when needed, so that they may rotate. All empty: plain HTTP.
struct PeerTlsFiles {
    std::string ca, certificate, key;
};

// The base URL of a member's steward: "http://main-1.main-peer:2379" gives
// "https://main-1.main-peer:8080". Errors: invalid.
Result<std::string> steward_url(std::string_view client_url, std::uint16_t api_port, bool tls);

// Always answers.
void forward_to_leader(Call& call,
                       Exchange& exchange,
                       const Member& member,
                       const Access& access,
                       const PeerTlsFiles& files);

}  // namespace capstan::steward
