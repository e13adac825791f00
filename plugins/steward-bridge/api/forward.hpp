// Passing a request on to the steward of the leading member, which takes the snapshots.
//
// Its address is the host of the leader's client URL and the port of this API. What makes it
// impossible is answered with 405, as etcd-backup-restore does. Thread: the request's.
#pragma once

#include "capstan/plugin.hpp"
#include "plugins/steward-bridge/api/access.hpp"
#include "plugins/steward-bridge/member.hpp"
#include "plugins/steward-bridge/pod_map.hpp"

#include <string>
#include <string_view>

namespace capstan::steward {

// Files are read when needed, so that they may rotate. All empty: plain HTTP.
struct PeerTlsFiles {
    std::string ca, certificate, key;
    std::string server_name{};  // that the certificate is for; empty: the host of the URL
};
// Towards the API of this cluster's stewards, this one included: what the plugin's configuration
// says (`configured`), else the files of the Etcd's own TLS, whose pair all stewards share.
PeerTlsFiles steward_tls_files(const PeerTlsFiles& configured,
                               const Configuration& configuration,
                               const PodMap& map,
                               const Identity& identity);
// Errors: of the files.
Result<HttpTls> read_tls(const PeerTlsFiles& files);
// The directory of the API's certificates, as the host's listener knows it.
std::string api_tls_directory(const PodMap& map, const Identity& identity);

// The base URL of a member's steward: "http://main-1.main-peer:2379" gives
// "https://main-1.main-peer:8080". Errors: invalid.
Result<std::string> steward_url(std::string_view client_url, std::uint16_t api_port, bool tls);

// May a token be sent to a steward at `base`? Not over the network in clear text.
bool may_carry_token(std::string_view base) noexcept;

// Always answers.
void forward_to_leader(Call& call,
                       Exchange& exchange,
                       const Member& member,
                       const Access& access,
                       const PeerTlsFiles& files);

}  // namespace capstan::steward
