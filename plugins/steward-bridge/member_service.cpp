#include "plugins/steward-bridge/member_service.hpp"

#include "plugins/steward-bridge/files.hpp"
#include "plugins/steward-bridge/render.hpp"

#include <algorithm>
#include <utility>

namespace capstan::steward {
namespace {

constexpr std::string_view kMemberGvk = "druid.gardener.cloud/v1alpha1/EtcdMember";
constexpr std::string_view kMemberGk = "druid.gardener.cloud/EtcdMember";
constexpr std::string_view kConfigHashAnnotation = "druid.gardener.cloud/config-hash";
constexpr std::string_view kLearnerAnnotation = "druid.gardener.cloud/create-as-learner";
constexpr std::string_view kInitialised = "Initialized";
constexpr std::string_view kSnapshotsTaken = "SnapshotsTaken";

}  // namespace

Result<void> MemberService::run(Call& call) {
    while (!call.cancelled()) {
        if (!status_loaded_) {
            load_status(call);
        }
        if (auto request = member_.take_request()) {
            answered_since_start_ = false;
            active_.reset();
            member_.set_status(std::nullopt);
            pending_ = std::move(request);
        }
        if (pending_) {
            initialise(call, *pending_);
        } else {
            probe(call);
            follow_configuration(call);
        }
        report(call);
        const Result<void> woken = call.wait(member_.wake(), next_look(call));
        if (!woken && woken.error().code != Code::timeout) {
            break;
        }
    }
    return ok();
}

MonotonicTime MemberService::next_look(Call& call) const {
    if (pending_) {
        return call.now() + kRetryWait;
    }
    return call.now() + (active_ && !answered_since_start_ ? kProbeStarting : kProbeRunning);
}

// What an earlier steward of this member reported. Without the API this waits: nothing
// is known to be unknown.
void MemberService::load_status(Call& call) {
    auto object = call.cache().get_value(kMemberGk, member_.identity().member_key());
    if (!object) {
        return;
    }
    api::EtcdMember decoded;
    const Result<void> read = api::decode(json::View(object.value()), decoded);
    if (!read) {
        call.log(LogLevel::warn,
                 "own EtcdMember cannot be read, its history starts anew",
                 {{"error", read.error().message}});
    }
    status_ = MemberStatus(decoded.status.value_or(api::EtcdMemberStatus{}));
    status_loaded_ = true;
}

Result<Configuration> MemberService::read_configuration(Call& call) {
    const Identity& me = member_.identity();
    CAPSTAN_TRY(const json::Value object, call.cache().get_value("ConfigMap", me.config_map_key()));
    const json::View text = json::View(object)["data"]["steward.yaml"];
    CAPSTAN_TRY(const std::string_view yaml, text.as_string());
    auto parsed = Configuration::parse(yaml, me.member);
    if (!parsed) {
        return fail(with_context(parsed.error(),
                                 "ConfigMap " + me.config_map_key().to_string() + " steward.yaml"));
    }
    return parsed;
}

StartFacts::List MemberService::find_self(Call& call,
                                          const Configuration& configuration,
                                          const PodMap& map) {
    Gateway gateway(call);
    for (const std::string& endpoint : configuration.service_endpoints) {
        for (const std::string& address : map.urls(endpoint)) {
            const auto members = gateway.member_list(address, kProbeTimeout);
            if (!members) {
                continue;
            }
            const json::View own_urls =
                json::View(configuration.etcd)["initial-advertise-peer-urls"];
            const auto own_url = map.url(own_urls.string_or(""));
            for (const ListedMember& member : members.value()) {
                const bool mine = member.name == member_.identity().member ||
                                  (own_url && std::find(member.peer_urls.begin(),
                                                        member.peer_urls.end(),
                                                        own_url.value()) != member.peer_urls.end());
                if (mine) {
                    return member.started ? StartFacts::List::member
                                          : StartFacts::List::member_never_started;
                }
            }
            return StartFacts::List::not_member;
        }
    }
    return StartFacts::List::unreachable;
}

StartFacts MemberService::gather(Call& call,
                                 const Configuration& configuration,
                                 const PodMap& map) {
    StartFacts facts;
    facts.replicas = configuration.replicas;
    facts.has_record = status_.has_record();
    if (!facts.has_record) {
        // The lease is the older witness: an EtcdMember may have been deleted and made again.
        const auto lease =
            call.client().get("coordination.k8s.io/v1/Lease", member_.identity().member_key());
        facts.has_record = lease && lease.value().text("/spec/holderIdentity").has_value();
    }
    facts.data = inspect_data_directory(map.path(configuration.data_dir));
    facts.list = find_self(call, configuration, map);
    return facts;
}

void MemberService::initialise(Call& call, const RunRequest& request) {
    const WallTime now = call.wall_now();
    const auto wait_for = [&](const std::string& reason, const std::string& message) {
        status_.condition(kInitialised, reason, message, now);
        if (message != last_problem_) {
            call.log(
                LogLevel::info, "initialisation waits", {{"reason", reason}, {"message", message}});
            last_problem_ = message;
        }
    };
    const auto map = PodMap::load();
    if (!map) {
        return wait_for("PodMapUnreadable", map.error().message);
    }
    auto configuration = read_configuration(call);
    if (!configuration || !status_loaded_) {
        // With the API out of reach a restart goes on from the last good set (the data is
        // there, the cluster runs).
        const auto last_good =
            read_file(map.value().path(member_.identity().run_dir) + "/etcd.conf.yaml");
        if (last_good && !configuration && configuration.error().code != Code::invalid) {
            call.log(LogLevel::warn,
                     "the API cannot be read, starting from the last good configuration",
                     {{"error", configuration.error().message}});
            pending_.reset();
            member_.finish_run(RunState::successful, last_good.value());
            return;
        }
        return wait_for(
            "ConfigurationUnreadable",
            configuration ? "own EtcdMember is not known yet" : configuration.error().message);
    }
    if (!status_.state()) {
        const bool single = configuration.value().replicas == 1;
        status_.enter(api::MemberState::new_,
                      std::nullopt,
                      single ? "NewSingleNodeClusterCreated" : "NewClusterCreated",
                      {},
                      now);
    }
    const StartFacts facts = gather(call, configuration.value(), map.value());
    if (facts.data.state != DataDirectory::State::missing) {
        status_.enter(api::MemberState::initializing,
                      request.full ? api::MemberSubState::db_validation_full
                                   : api::MemberSubState::db_validation_sanity,
                      request.full ? "DetectedPreviousUncleanExit" : "DetectedPreviousCleanExit",
                      {},
                      now);
    }
    const StartDecision decision = decide_start(facts);
    switch (decision.what) {
        case StartDo::start:
        case StartDo::bootstrap:
        case StartDo::join: return prepare(call, configuration.value(), map.value(), decision);
        case StartDo::wait: return wait_for(decision.reason, decision.message);
        case StartDo::fail:
        case StartDo::rejoin_learner:
        case StartDo::become_learner:
        case StartDo::restore: break;
    }
    const bool later = decision.what != StartDo::fail;
    const std::string message =
        decision.message + (later ? "; this version of the steward cannot repair that" : "");
    status_.condition(kInitialised, decision.reason, message, now);
    call.log(LogLevel::error,
             "the member cannot start",
             {{"reason", decision.reason}, {"message", message}});
    pending_.reset();
    member_.finish_run(RunState::failed, {});
}

void MemberService::prepare(Call& call,
                            const Configuration& configuration,
                            const PodMap& map,
                            const StartDecision& decision) {
    const WallTime now = call.wall_now();
    auto rendered = render_etcd_config(configuration.etcd, map, decision.what == StartDo::join);
    if (!rendered) {
        status_.condition(kInitialised, "ConfigurationNotRendered", rendered.error().message, now);
        return;  // a peer without an address yet: look again
    }
    const auto stored =
        write_file(map.path(member_.identity().run_dir) + "/etcd.conf.yaml", rendered.value());
    if (!stored) {
        status_.condition(kInitialised, "ConfigurationNotStored", stored.error().message, now);
        return;
    }
    call.log(LogLevel::info,
             "member is ready to start",
             {{"how",
               decision.what == StartDo::bootstrap ? "bootstrap"
               : decision.what == StartDo::join    ? "join"
                                                   : "start"},
              {"configHash", configuration.config_hash}});
    status_.condition(kInitialised, {}, {}, now);
    last_problem_.clear();
    active_ = configuration;
    requested_hash_ = configuration.config_hash;
    pending_.reset();
    member_.finish_run(RunState::successful, std::move(rendered).value());
}

std::string MemberService::advertised(const PodMap& map) const {
    const auto url = map.url(json::View(active_->etcd)["advertise-client-urls"].string_or(""));
    return url ? url.value() : std::string();
}

void MemberService::probe(Call& call) {
    if (!active_) {
        // the steward restarted beside a running etcd
        auto configuration = read_configuration(call);
        if (!configuration || !status_loaded_) {
            return;
        }
        active_ = std::move(configuration).value();
        active_->config_hash = status_.get().config_hash.value_or("");
        requested_hash_ = active_->config_hash;
    }
    const auto map = PodMap::load();
    const auto endpoint =
        map ? map.value().url(active_->local_endpoint) : Result<std::string>(map.error());
    if (!endpoint) {
        return;
    }
    auto seen = Gateway(call).status(endpoint.value(), kProbeTimeout);
    if (!seen) {
        member_.set_status(std::nullopt);
        return;
    }
    if (!answered_since_start_ && seen.value().has_leader) {
        answered_since_start_ = true;
        call.log(LogLevel::info,
                 "etcd answers",
                 {{"member", seen.value().member_id},
                  {"cluster", seen.value().cluster_id},
                  {"version", seen.value().version}});
    }
    status_.observe(seen.value(), {active_->config_hash, advertised(map.value())}, call.wall_now());
    member_.set_status(seen.value().has_leader ? std::optional(seen.value()) : std::nullopt);
}

// A new configuration is applied only when the operator names its hash on this
// member: it decides the order.
void MemberService::follow_configuration(Call& call) {
    if (!active_ || !answered_since_start_) {
        return;
    }
    const auto object = call.cache().get_value(kMemberGk, member_.identity().member_key());
    if (!object) {
        return;
    }
    const std::string wanted(
        json::View(object.value())["metadata"]["annotations"][kConfigHashAnnotation].string_or(""));
    if (wanted.empty() || wanted == active_->config_hash || wanted == requested_hash_) {
        return;
    }
    const auto configuration = read_configuration(call);
    const auto map = PodMap::load();
    if (!configuration || configuration.value().config_hash != wanted || !map) {
        return;
    }
    auto base =
        map.value().url("http://127.0.0.1:" + std::to_string(configuration.value().launcher_port));
    HttpRequest request;
    request.method = "POST";
    request.url = (base ? base.value() : std::string()) + "/restart";
    const auto answer = call.http().send(request);
    if (answer && answer.value().status == 200) {
        requested_hash_ = wanted;
        call.log(
            LogLevel::info, "etcd is restarted with a new configuration", {{"configHash", wanted}});
    }
}

void MemberService::report(Call& call) {
    if (!status_loaded_) {
        return;
    }
    const WallTime now = call.wall_now();
    const Identity& me = member_.identity();
    const BackupReport backups = member_.backup_report();
    status_.backups(backups.snapshots);
    status_.condition(kSnapshotsTaken, backups.reason, backups.message, now);
    // The object was deleted and made again, or its status taken away: it must not stay empty.
    if (status_.reported()) {
        const auto object = call.cache().get(kMemberGk, {me.ns, me.member});
        if (object && !object.value().text("/status/observedAt")) {
            status_.lost();
        }
    }
    const auto status = status_.due(now);
    if (!status) {
        return;
    }
    const json::Value intent = {
        {"apiVersion", "druid.gardener.cloud/v1alpha1"},
        {"kind", "EtcdMember"},
        {"metadata", {{"name", me.member}, {"namespace", me.ns}}},
        {"status", *status},
    };
    const auto applied = call.client().apply(kMemberGvk, intent, {.subresource = "status"});
    if (applied) {
        status_.written(now);
    } else if (applied.error().message != last_problem_) {
        last_problem_ = applied.error().message;
        call.log(
            LogLevel::warn, "EtcdMember cannot be written", {{"error", applied.error().message}});
    }
}

}  // namespace capstan::steward
