// The backups of this member's cluster: is there anything to restore, and restoring it as a cluster
// of this one member. Thread: the call's; streams only.
#pragma once

#include "plugins/steward-bridge/configuration.hpp"
#include "plugins/steward-bridge/pod_map.hpp"
#include "plugins/steward-bridge/restore/restoration.hpp"
#include "plugins/steward-bridge/start_plan.hpp"

#include <functional>
#include <string>

namespace capstan {
class Call;
}

namespace capstan::steward {

// The store that the Etcd names, member by member over what the plugin's own configuration says of
// it (both as etcd-backup-restore's `snapstoreConfig`); null when neither names a provider.
json::Value store_of(const json::Value& backup, const json::Value& plugin_config);

using BeforePublishing = std::function<Result<void>(const std::string& made)>;

struct StoreLook {
    StartFacts::Store store{StartFacts::Store::none};
    std::string problem;  // for unreachable and foreign
};
// `store`: of store_of().
StoreLook look_at_store(Call& call,
                        const json::Value& store,
                        const PodMap& map,
                        const Identity& identity);

// Makes `data_directory` for one member under `peer_urls`. What it holds stays until all of the new
// data is on the disk; then `before_publishing` (of RestoreOptions) moves it away. Errors: of
// restore(); overloaded: the volume has no room (says how much is needed).
Result<RestoreReport> restore_member(Call& call,
                                     const Configuration& configuration,
                                     const json::Value& store,
                                     const PodMap& map,
                                     const std::string& data_directory,
                                     const std::vector<std::string>& peer_urls,
                                     BeforePublishing before_publishing);

}  // namespace capstan::steward
