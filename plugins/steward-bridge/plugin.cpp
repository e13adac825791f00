// steward-bridge: the sidecar of one etcd member.
#include "plugins/steward-bridge/api/api_service.hpp"
#include "plugins/steward-bridge/api/routes.hpp"
#include "plugins/steward-bridge/api/snapshotter_access.hpp"
#include "plugins/steward-bridge/commands/backup_command.hpp"
#include "plugins/steward-bridge/files.hpp"
#include "plugins/steward-bridge/heartbeat.hpp"
#include "plugins/steward-bridge/maintenance/maintenance_service.hpp"
#include "plugins/steward-bridge/member_service.hpp"
#include "plugins/steward-bridge/snapshotter/service.hpp"
#include "plugins/steward-bridge/stream/digest.hpp"

#include <sys/random.h>

namespace capstan::steward {
namespace {

// Wakes the services when the EtcdMember or its configuration changes; they do the work.
class Waker final : public Controller {
public:
    explicit Waker(Member& member) noexcept : member_(member) {}
    Outcome reconcile(Call&, const Request&) override {
        member_.wake().notify();
        member_.api_wake().notify();
        return Outcome::done();
    }

private:
    Member& member_;
};

Result<std::string> make_token() {
    char raw[32];
    if (::getrandom(raw, sizeof raw, 0) != static_cast<ssize_t>(sizeof raw)) {
        return fail(Code::unavailable, "getrandom gave no bytes");
    }
    return to_hex({raw, sizeof raw});
}

Role role_of(const std::optional<EtcdStatus>& status) {
    if (!status || !status->has_leader) {
        return Role::unknown;
    }
    return status->leader ? Role::leader : status->learner ? Role::learner : Role::follower;
}

// Of the cluster's tokens: configured, of this machine (local mode), and out of the Etcd's Secret.
std::vector<std::string> token_files(const ApiConfig& api,
                                     const PodMap& map,
                                     const Identity& identity) {
    std::vector<std::string> files;
    for (const std::string& file : {api.token_file, map.steward_token_file()}) {
        if (!file.empty()) {
            files.push_back(file);
        }
    }
    files.push_back(cluster_token_file(map, identity));
    return files;
}

// What services and routes share.
struct Steward {
    Steward(const HostTables& host,
            Identity identity,
            std::string token,
            std::vector<std::string> token_files)
        : member(host, std::move(identity)),
          access(std::move(token), std::move(token_files)),
          snapshotter(host),
          snapshots(snapshotter),
          defragmenter(host, member) {}
    Member member;
    Access access;
    Snapshotter snapshotter;
    SnapshotterAccess snapshots;
    Defragmenter defragmenter;
};

Result<void> make_plugin(Setup& setup) {
    add_command(setup, "backup", &run_backup_command);
    if (is_for_command(setup)) {
        return ok();
    }
    CAPSTAN_TRY(const Identity identity, Identity::from_environment());
    CAPSTAN_TRY(const PodMap map, PodMap::load());
    CAPSTAN_TRY(const std::string token, make_token());
    CAPSTAN_TRY(write_file(map.path(identity.run_dir) + "/token", token + "\n"));
    auto defaults = SnapshotterConfig::parse(json::View(setup.config()));
    if (!defaults) {
        return fail(with_context(defaults.error(), "configuration of steward-bridge"));
    }
    CAPSTAN_TRY(const ApiConfig api, ApiConfig::parse(json::View(setup.config())));
    auto steward =
        std::make_shared<Steward>(setup.host(), identity, token, token_files(api, map, identity));
    Member& member = steward->member;
    member.set_plugin_config(setup.config());
    Snapshotter& snapshotter = steward->snapshotter;
    member.on_status([&snapshotter](const std::optional<EtcdStatus>& status) {
        snapshotter.on_role(role_of(status));
    });
    member.set_snapshots({[&snapshotter] { snapshotter.end_term(); },
                          [&snapshotter] { return snapshotter.at_rest(); }});
    setup.controller("member", std::make_unique<Waker>(member));
    setup.service("member", std::make_unique<MemberService>(member));
    setup.service("api", std::make_unique<ApiService>(member, api.peer_tls));
    setup.service("heartbeat", std::make_unique<Heartbeat>(member));
    setup.service("snapshotter",
                  std::make_unique<SnapshotService>(
                      setup.host(), member, snapshotter, std::move(defaults).value()));
    setup.service(
        "maintenance",
        std::make_unique<MaintenanceService>(setup.host(), member, steward->defragmenter));
    add_routes(
        setup,
        {&member, &steward->access, &steward->snapshots, &steward->defragmenter, api.peer_tls});
    setup.own(steward);
    return ok();
}

}  // namespace
}  // namespace capstan::steward

CAPSTAN_PLUGIN(capstan::steward::make_plugin)
