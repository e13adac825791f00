#include "plugins/steward-bridge/member_restore.hpp"

#include "plugins/steward-bridge/data/data_aside.hpp"
#include "plugins/steward-bridge/restore/store_objects.hpp"
#include "plugins/steward-bridge/restore/stored_owner.hpp"
#include "plugins/steward-bridge/store/host_transport.hpp"
#include "plugins/steward-bridge/store/store_config.hpp"
#include "plugins/steward-bridge/stream/host_digest.hpp"

#include "capstan/plugin.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

namespace capstan::steward {
namespace {

// A store with what it borrows.
struct OpenedStore {
    explicit OpenedStore(Call& call) : digests(call.host()), transport(call), pace(call) {}
    HostDigests digests;
    HostTransport transport;
    HostPace pace;
    StoreConfig config;
    std::unique_ptr<ObjectStore> store;
};

Result<std::unique_ptr<OpenedStore>> open_backups(Call& call,
                                                  const json::Value& store,
                                                  const PodMap& map) {
    auto opened = std::make_unique<OpenedStore>(call);
    CAPSTAN_TRY(opened->config, StoreConfig::parse_spec(json::View(store)));
    if (opened->config.provider == "Local") {
        // where the pod really has it
        opened->config.container = map.path(local_directory(
            opened->config, json::View(store)["home"].string_or(""), process_environment()));
    }
    StoreParts parts{
        process_environment(), opened->digests, opened->transport, opened->pace, {}, false};
    CAPSTAN_TRY(opened->store, open_store(opened->config, parts));
    return opened;
}

bool holds_backups(const SnapshotListing& listing) {
    // Also what cannot be read any more was a backup once: no new cluster in its place.
    return !listing.snapshots.empty() || !listing.parts.empty() ||
           std::any_of(listing.skipped.begin(), listing.skipped.end(), [](const SkippedKey& key) {
               return key.last_revision > 0;
           });
}

// A prefix that another Etcd writes to, by mistake of either, would give this one its data.
StoreLook judge_owner(OpenedStore& opened, const Identity& identity) {
    const std::string& prefix = opened.config.prefix;
    const auto owner = read_owner(*opened.store, prefix);
    if (!owner) {
        return {StartFacts::Store::unreachable, owner.error().message};
    }
    const PrefixOwner me{
        identity.ns, identity.etcd, {}, {}};  // a namesake's are its own, from before
    if (!owner.value() || kinship(me, *owner.value()) != Kinship::stranger) {
        return {StartFacts::Store::has_backups, {}};
    }
    return {StartFacts::Store::foreign,
            "the backups below prefix \"" + prefix + "\" of " + opened.store->describe() +
                " are those of " + owner.value()->described() +
                ", whose data a restoration would bring; remedy: set spec.backup.store.prefix of "
                "Etcd " +
                identity.ns + "/" + identity.etcd +
                " to a prefix of its own, or, when that Etcd is gone and this one takes its "
                "place, remove " +
                owner_key(prefix) + " from the store"};
}

// The unpacked base and the new database are both at least as large as the base is stored.
Result<void> check_room(const SnapshotListing& listing, const std::string& data_directory) {
    const auto chosen = choose_history(listing);  // what is wrong with it restore() tells
    const SnapshotRecord* const full = chosen ? chosen.value().history.newest_full() : nullptr;
    const std::uint64_t needed = full != nullptr ? 2 * full->bytes : 0;
    if (free_bytes(data_directory) < needed) {
        // What is still in its place is the newest copy.
        std::error_code error;
        const bool holds_data = std::filesystem::exists(data_directory + "/member/snap/db", error);
        remove_aside(data_directory, holds_data ? 0 : 1);
    }
    const std::uint64_t room = free_bytes(data_directory);
    if (room < needed) {
        return fail(Code::overloaded,
                    "restoring needs at least " + std::to_string(needed) +
                        " bytes, the volume of " + data_directory + " has " + std::to_string(room) +
                        " left; remedy: enlarge the volume, or delete member.damaged-* on it");
    }
    return ok();
}

}  // namespace

json::Value store_of(const json::Value& backup, const json::Value& plugin_config) {
    json::Value store = json::object();
    for (const json::Value* from : {&plugin_config, &backup}) {
        for (const json::Member& member : json::View(*from)["snapstoreConfig"].object()) {
            store.set(member.key, member.value);
        }
    }
    return json::View(store)["provider"].string_or("").empty() ? json::Value() : store;
}

StoreLook look_at_store(Call& call,
                        const json::Value& store,
                        const PodMap& map,
                        const Identity& identity) {
    if (store.is_null()) {
        return {};
    }
    const auto opened = open_backups(call, store, map);
    if (!opened) {
        return {StartFacts::Store::unreachable, opened.error().message};
    }
    const auto listing = list_snapshots(*opened.value()->store, opened.value()->config.prefix);
    if (!listing) {
        return {StartFacts::Store::unreachable, listing.error().message};
    }
    if (!holds_backups(listing.value())) {
        return {StartFacts::Store::empty, {}};
    }
    return judge_owner(*opened.value(), identity);
}

Result<RestoreReport> restore_member(Call& call,
                                     const Configuration& configuration,
                                     const json::Value& store,
                                     const PodMap& map,
                                     const std::string& data_directory,
                                     const std::vector<std::string>& peer_urls,
                                     BeforePublishing before_publishing) {
    const json::View etcd(configuration.etcd);
    CAPSTAN_TRY(const std::string_view name, etcd["name"].as_string());
    std::string initial_cluster;
    for (const std::string& url : peer_urls) {
        initial_cluster += (initial_cluster.empty() ? "" : ",") + std::string(name) + "=" + url;
    }
    CAPSTAN_TRY(
        const NewCluster cluster,
        make_cluster(
            name, initial_cluster, etcd["initial-cluster-token"].string_or("etcd-cluster")));
    CAPSTAN_TRY(const auto opened, open_backups(call, store, map));
    auto listed = list_snapshots(*opened->store, opened->config.prefix);
    if (!listed) {
        Error error = listed.error();  // a store that is busy is no volume without room
        error.code = error.code == Code::overloaded ? Code::unavailable : error.code;
        return fail(std::move(error));
    }
    const SnapshotListing& listing = listed.value();
    CAPSTAN_TRY(check_room(listing, data_directory));
    RestoreOptions options;
    options.work_directory =
        (std::filesystem::path(data_directory).parent_path() / "restoration.temp").string();
    options.quota_bytes = static_cast<std::uint64_t>(
        std::max<std::int64_t>(etcd["quota-backend-bytes"].int_or(0), 0));
    options.cancelled = [&call] { return call.cancelled(); };
    options.before_publishing = std::move(before_publishing);
    StoreObjects objects(*opened->store);
    return restore(listing, objects, opened->digests, cluster, data_directory, options);
}

}  // namespace capstan::steward
