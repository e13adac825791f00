#include "plugins/steward-bridge/snapshotter/service.hpp"

#include "plugins/steward-bridge/pod_map.hpp"
#include "plugins/steward-bridge/restore/restoration.hpp"
#include "plugins/steward-bridge/snapshotter/engine.hpp"
#include "plugins/steward-bridge/snapshotter/gateway_client.hpp"
#include "plugins/steward-bridge/snapshotter/report.hpp"
#include "plugins/steward-bridge/store/host_transport.hpp"
#include "plugins/steward-bridge/stream/digest.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace capstan::steward {
namespace {

constexpr std::string_view kMemberGk = "druid.gardener.cloud/EtcdMember";
constexpr std::chrono::seconds kStoreRetry{10};
constexpr std::chrono::milliseconds kSyncPeriod{250};
constexpr std::chrono::seconds kSyncPatience{10};

// A Local store's directory, where the pod really has it.
void resolve_directory(SnapshotterConfig& config, const PodMap& map) {
    if (config.store.provider != "Local") {
        return;
    }
    config.store.container =
        map.path(local_directory(config.store, config.home, process_environment()));
    config.home.clear();
}

std::string make_process_name() {
    char raw[8];
    return ::getrandom(raw, sizeof raw, 0) == static_cast<ssize_t>(sizeof raw)
               ? to_hex({raw, sizeof raw})
               : std::to_string(::getpid());
}

}  // namespace

SnapshotService::SnapshotService(const HostTables& host,
                                 Member& member,
                                 Snapshotter& face,
                                 SnapshotterConfig defaults)
    : member_(member),
      face_(face),
      defaults_(std::move(defaults)),
      process_(make_process_name()),
      metrics_(host),
      digests_(host) {}

Result<ReadOrders> SnapshotService::read_orders(Call& call) const {
    const Identity& me = member_.identity();
    CAPSTAN_TRY(const json::Value object, call.cache().get_value("ConfigMap", me.config_map_key()));
    CAPSTAN_TRY(const std::string_view yaml,
                json::View(object)["data"]["steward.yaml"].as_string());
    CAPSTAN_TRY(const json::Value document, json::parse(yaml));
    CAPSTAN_TRY(const Configuration configuration, Configuration::parse(yaml, me.member));
    CAPSTAN_TRY(const PodMap map, PodMap::load());
    ReadOrders orders;
    CAPSTAN_TRY(orders.config, SnapshotterConfig::parse(json::View(document)["backup"], defaults_));
    resolve_directory(orders.config, map);
    CAPSTAN_TRY(orders.etcd.endpoint, map.url(configuration.local_endpoint));
    orders.etcd.tls = member_.client_tls();
    orders.etcd.data_directory = map.path(configuration.data_dir);
    return orders;
}

// Polled, as what it comes from changes in three places: the ConfigMap, the pod's map, and (later)
// certificates.
void SnapshotService::look_at_orders(Call& call) {
    const MonotonicTime now = call.now();
    if (looked_ && now - looked_at_orders_ < kOrdersPeriod) {
        return;
    }
    looked_ = true;
    looked_at_orders_ = now;
    auto orders = read_orders(call);
    if (orders) {
        orders_problem_.clear();
        face_.configure(std::move(orders.value().config), std::move(orders.value().etcd));
        return;
    }
    // A process that has just started has not heard of its ConfigMap yet: no news, for a while.
    if (orders.error().code == Code::unavailable && !face_.orders().config) {
        unsynced_since_ = unsynced_since_.value_or(now);
        if (now - *unsynced_since_ < kSyncPatience) {
            looked_ = false;
            return;
        }
    }
    // What runs goes on with what it has; an Etcd that cannot be read is not one without backups.
    if (orders.error().message != orders_problem_) {
        orders_problem_ = orders.error().message;
        call.log(LogLevel::warn,
                 "the configuration of backups cannot be read",
                 {{"error", orders_problem_}});
    }
}

bool SnapshotService::wait(Call& call, MonotonicTime until) {
    const Result<void> woken = call.wait(face_.wake(), until);
    return woken.has_value() || woken.error().code == Code::timeout;
}

void SnapshotService::report() {
    if (face_.version() == reported_) {
        return;
    }
    const SnapshotterView view = face_.view();
    reported_ = view.version;
    BackupReport report;
    if (view.state == SnapshotterState::failing) {
        report.reason = view.reason;
        report.message = view.message;
    }
    if (view.facts.full && view.facts.observed_at) {
        report.snapshots = to_status(view.facts);
    }
    member_.set_backup_report(std::move(report));
}

Result<void> SnapshotService::run(Call& call) {
    while (!call.cancelled()) {
        look_at_orders(call);
        const Snapshotter::Orders orders = face_.orders();
        if (orders.config && orders.config->backups() && orders.role == Role::leader) {
            if (face_.begin_work(orders.term)) {
                const Result<void> led = lead(call, orders);
                face_.end_work();
                CAPSTAN_TRY(led);
                report();
            }
            continue;
        }
        if (!orders.config && !orders_problem_.empty()) {
            face_.publish(SnapshotterState::failing, "ConfigurationUnreadable", orders_problem_);
        } else {
            const bool no_store = orders.config && !orders.config->backups();
            face_.publish(
                no_store ? SnapshotterState::no_store : SnapshotterState::stopped, "", "");
        }
        face_.refuse_asks({Code::unavailable,
                           "this member does not lead its cluster (any more); ask the steward of "
                           "the leading member",
                           {}});
        report();
        const std::chrono::milliseconds pause = looked_ ? kOrdersPeriod : kSyncPeriod;
        if (!wait(call, call.now() + pause)) {
            break;
        }
    }
    return ok();
}

Result<std::unique_ptr<ObjectStore>> SnapshotService::open_store_of(const SnapshotterConfig& config,
                                                                    Transport& transport,
                                                                    Pace& pace) {
    const StoreParts parts{process_environment(), digests_, transport, pace, config.home, true};
    return open_store(config.store, parts);
}

// As far as it is known: without an EtcdMember by name alone.
PrefixOwner SnapshotService::owner(Call& call) {
    const Identity& me = member_.identity();
    PrefixOwner owner{me.ns, me.etcd, {}, {}};
    const MonotonicTime patience = call.now() + kSyncPatience;
    auto object = call.cache().get_value(kMemberGk, me.member_key());
    while (!object && object.error().code == Code::unavailable && call.now() < patience &&
           wait(call, call.now() + kSyncPeriod)) {
        object = call.cache().get_value(kMemberGk, me.member_key());
    }
    api::ObjectMeta meta;
    if (object && api::decode(json::View(object.value())["metadata"], meta)) {
        owner.uid = meta.controller_uid();
    }
    owner.cluster = member_.status().value_or(EtcdStatus()).cluster_id;
    return owner;
}

// One term: ends with a change of role or configuration, or with the steward.
Result<void> SnapshotService::lead(Call& call, const Snapshotter::Orders& orders) {
    const SnapshotterConfig& config = *orders.config;
    HostTransport transport(call);
    HostPace pace(call);
    auto store = open_store_of(config, transport, pace);
    if (!store) {
        metrics_.failed(store.error().code);
        face_.publish(SnapshotterState::failing, "StoreNotUsable", store.error().message);
        face_.refuse_asks(store.error());
        report();
        wait(call, call.now() + kStoreRetry);
        return ok();
    }
    GatewayClient etcd(call, orders.etcd, config);
    StoreClaim claim({*store.value(), pace, config.store.prefix, owner(call), process_});
    Vault vault({*store.value(),
                 digests_,
                 pace,
                 config.store.prefix,
                 member_.identity().member,
                 process_,
                 [&claim] { return claim.still_ours(); }});
    CAPSTAN_TRY(Schedule schedule, Schedule::parse(config.schedule));
    bool closing = false;
    const Guard guard = [this, &call, &closing, term = orders.term]() -> Result<void> {
        const bool goes_on = closing ? face_.etcd_gone() : face_.term() == term;
        if (call.cancelled() || !goes_on) {
            return fail(Code::cancelled,
                        "the member no longer leads, its configuration has changed, or its "
                        "steward stops");
        }
        return ok();
    };
    SnapshotEngine engine({etcd,
                           vault,
                           digests_,
                           pace,
                           face_,
                           metrics_,
                           [&call] { return call.now(); },
                           guard,
                           [&call](LogLevel level, std::string_view text, const json::Value& keys) {
                               call.log(level, text, keys);
                           },
                           [&](const SnapshotFacts& facts) {
                               leases_.renew(call, member_.identity().ns, config, facts);
                           },
                           [&] { return left_history(orders.etcd.data_directory); },
                           [&] { forget_left_history(orders.etcd.data_directory); },
                           &claim},
                          config,
                          std::move(schedule));
    while (true) {
        look_at_orders(call);
        report();
        const Result<MonotonicTime> idle = engine.step();
        if (!idle && guard()) {
            return idle.error();
        }
        if (!idle) {
            closing = true;
            engine.close();
            return ok();
        }
        if (idle.value() > call.now() &&
            !wait(call, std::min(idle.value(), call.now() + kOrdersPeriod))) {
            return ok();
        }
    }
}

}  // namespace capstan::steward
