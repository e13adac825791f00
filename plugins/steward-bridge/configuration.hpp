// What the steward is told: by its environment who it is, by `steward.yaml`
// how its member shall run.
//
// Contract: plugins/etcd/README.md. Unknown fields of steward.yaml are ignored, so the
// operator may be newer. Values.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace capstan {
class Call;
}

namespace capstan::steward {

struct Identity {
    std::string pod, ns, etcd, member, config_map;
    std::string run_dir;  // as in the contract, not yet mapped
    ObjectKey member_key() const { return {ns, member}; }
    ObjectKey config_map_key() const { return {ns, config_map}; }
    // Errors: invalid, names the missing variable.
    static Result<Identity> from_environment();
};

// Secrets of one kind of connection. The pairs are under tls.crt and tls.key.
struct TlsGroup {
    std::string ca_secret, ca_key;  // authority, and its key in the Secret
    std::string server_secret;
    std::string client_secret;  // "": none
};

struct Configuration {
    std::int64_t replicas{1};
    std::uint16_t launcher_port{9095};
    std::string local_endpoint;                  // this member's client URL
    std::vector<std::string> service_endpoints;  // client URLs that reach any member
    std::vector<std::string> peer_endpoints;     // client URLs of the other members
    std::string own_client_url;                  // as this member advertises it
    std::string data_dir;
    std::chrono::nanoseconds heartbeat{std::chrono::seconds(10)};
    std::uint16_t api_port{8080};
    // five cron fields; empty: only on request
    std::string defragmentation_schedule;
    std::chrono::nanoseconds defragmentation_timeout{std::chrono::minutes(15)};
    std::vector<std::string> member_names;  // of the whole cluster, sorted
    std::string config_hash;
    std::optional<TlsGroup> client_tls, peer_tls;
    std::optional<TlsGroup> backup_tls;  // of this steward's own API
    std::string api_token_secret;        // key "token" in it; "": the cluster has none
    json::Value etcd;                    // complete etcd configuration of this member
    json::Value backup;                  // of the Etcd: where backups are, null without

    // `text`: value of the ConfigMap key. Errors: invalid, with the field's path.
    static Result<Configuration> parse(std::string_view text, const std::string& member);
};

// The ConfigMap's, from the cache. Errors: not_found, invalid: name the ConfigMap.
Result<Configuration> read_configuration(Call& call, const Identity& identity);

}  // namespace capstan::steward
