// The steward's HTTP API: what launchers, operators and people ask. Paths, codes and bodies are
// etcd-backup-restore's, with more; contract: docs/steward-api.md.
#pragma once

#include "plugins/steward-bridge/api/access.hpp"
#include "plugins/steward-bridge/api/forward.hpp"
#include "plugins/steward-bridge/api/snapshot_access.hpp"
#include "plugins/steward-bridge/maintenance/defragmentation.hpp"
#include "plugins/steward-bridge/member.hpp"

#include <memory>
#include <string>

namespace capstan::steward {

// The part of the plugin's configuration that is the API's.
struct ApiConfig {
    std::string token_file;  // of the cluster's token; empty: only this steward's own
    PeerTlsFiles peer_tls;   // towards the leading member's steward; empty: plain HTTP

    // {"apiTokenFile": "…", "peerTls": {"caFile", "certificateFile", "keyFile"}}; other members
    // are not looked at. Errors: invalid, with the field's path.
    static Result<ApiConfig> parse(const json::View& config);
};

// What the routes stand on; all borrowed, outliving the instance's routes.
struct ApiParts {
    Member* member{nullptr};
    const Access* access{nullptr};
    SnapshotAccess* snapshots{nullptr};
    Defragmenter* defragmenter{nullptr};
    PeerTlsFiles peer_tls;
};
void add_routes(Setup& setup, const ApiParts& parts);

}  // namespace capstan::steward
