#include "plugins/steward-bridge/member_service.hpp"

#include "plugins/steward-bridge/data/data_aside.hpp"
#include "plugins/steward-bridge/files.hpp"
#include "plugins/steward-bridge/membership.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace capstan::steward {
namespace {

constexpr std::string_view kMemberGvk = "druid.gardener.cloud/v1alpha1/EtcdMember";
constexpr std::string_view kMemberGk = "druid.gardener.cloud/EtcdMember";
constexpr std::string_view kConfigHashAnnotation = "druid.gardener.cloud/config-hash";
constexpr std::string_view kSnapshotsTaken = "SnapshotsTaken";
constexpr std::string_view kApiServed = "ApiServed";

// The gateway answers, and what it says is that etcd hung up on it.
bool needs_client_usage(const Error& error) {
    return error.message.find("HTTP 503") != std::string::npos &&
           (error.message.find("bad certificate") != std::string::npos ||
            error.message.find("authentication handshake failed") != std::string::npos);
}

}  // namespace

Result<void> MemberService::run(Call& call) {
    while (!call.cancelled()) {
        if (!status_loaded_) {
            load_status(call);
        }
        if (auto request = member_.take_request()) {
            silent_starts_ = started_ && !answered_since_start_ ? silent_starts_ + 1 : 0;
            started_ = false;
            answered_since_start_ = false;
            active_.reset();
            member_.set_status(std::nullopt);
            member_.end_snapshots();
            start_.begin(*request);
            pending_ = true;
        }
        if (pending_) {
            initialise(call);
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
        return call.now() + start_.pause();
    }
    if (!active_ || (answered_since_start_ && status_.state() == api::MemberState::started)) {
        return call.now() + kProbeRunning;
    }
    const bool learner = answered_since_start_ && promote_at_ > call.now();
    return learner ? std::min(promote_at_, call.now() + kProbeRunning)
                   : call.now() + kProbeStarting;
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
    return steward::read_configuration(call, member_.identity());
}

// Put by who added this member to a running cluster, removed by this steward when it votes.
bool MemberService::learner_mark(Call& call) const {
    const auto object = call.cache().get_value(kMemberGk, member_.identity().member_key());
    return object &&
           json::View(object.value())["metadata"]["annotations"][kLearnerAnnotation].string_or(
               "") == "true";
}

void MemberService::initialise(Call& call) {
    if (status_loaded_) {
        start_.leave_started(call);
    }
    const auto map = PodMap::load();
    if (!map) {
        return start_.wait_for(call, "PodMapUnreadable", map.error().message);
    }
    auto configuration = read_configuration(call);
    std::optional<MemberStart::Ended> ended;
    if (configuration && status_loaded_) {
        ended = start_.look(call, configuration.value(), map.value(), learner_mark(call));
    } else {
        const Error why = configuration ? Error{Code::unavailable,
                                                "own EtcdMember is not known yet",
                                                std::chrono::milliseconds{0}}
                                        : configuration.error();
        const auto last_good =
            read_file(map.value().path(member_.identity().run_dir) + "/etcd.conf.yaml");
        if (!last_good || why.code == Code::invalid) {
            return start_.wait_for(call, "ConfigurationUnreadable", why.message);
        }
        ended = start_.look_without_api(call, last_good.value(), why);
    }
    if (ended) {
        finish_start(call,
                     *ended,
                     configuration && status_loaded_
                         ? std::optional(std::move(configuration).value())
                         : std::nullopt);
    }
}

void MemberService::finish_start(Call& call,
                                 const MemberStart::Ended& ended,
                                 std::optional<Configuration> configuration) {
    pending_ = false;
    if (ended.successful) {
        active_ = std::move(configuration);  // without the API: learned when it is back
        requested_hash_ = active_ ? active_->config_hash : std::string();
        promote_pause_ = kPromoteFirst;
        promote_at_ = call.now();
        tidied_ = false;
        started_ = true;
        if (silent_starts_ >= kSilentStartsMax) {
            status_.condition(kInitialised,
                              "EtcdEndsAtStart",
                              "etcd has ended " + std::to_string(silent_starts_) +
                                  " times in a row before it answered, with data that looks whole; "
                                  "its log says why",
                              call.wall_now());
        }
    }
    member_.finish_run(ended.successful ? RunState::successful : RunState::failed,
                       ended.etcd_config);
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
    start_.tls().keep_fresh(call, *active_, map.value());
    auto seen = Gateway(call, member_.client_tls()).status(endpoint.value(), kProbeTimeout);
    if (!seen) {
        member_.set_status(std::nullopt);
        if (needs_client_usage(seen.error())) {
            status_.condition(kInitialised,
                              "GatewayNeedsClientAuthUsage",
                              "etcd refuses the calls of its own gateway: before 3.5 it makes them "
                              "with the server's certificate; remedy: issue that one for client "
                              "authentication as well, or use etcd 3.5 or newer",
                              call.wall_now());
        }
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
    status_.observe(seen.value(),
                    {active_->config_hash, advertised(map.value()), active_->peer_tls.has_value()},
                    call.wall_now());
    member_.set_status(seen.value().has_leader ? std::optional(seen.value()) : std::nullopt);
    if (seen.value().learner) {
        promote(call, map.value(), seen.value());
    } else if (status_.state() == api::MemberState::started && !tidied_) {
        tidy_up(call, map.value());
    }
}

// A learner that has caught up becomes a voting member. Not being in sync is normal for as long as
// there is data to fetch, so it is asked again, less and less often.
void MemberService::promote(Call& call, const PodMap& map, const EtcdStatus& seen) {
    if (call.now() < promote_at_) {
        return;
    }
    promote_at_ = call.now() + promote_pause_;
    promote_pause_ = std::min(promote_pause_ * 2, kPromoteMax);
    RunningCluster cluster(call, *active_, map, member_.client_tls());
    const auto list = cluster.find();
    if (!list) {
        return;
    }
    // The answer to an earlier try may have been lost.
    const ListedMember* own = list->by_id(seen.member_id);
    if (own == nullptr || !own->learner) {
        return;  // the next look at etcd sees it
    }
    const auto promoted = cluster.promote(seen.member_id);
    if (promoted || promoted.error().code == Code::exists) {
        call.log(LogLevel::info, "learner is a voting member now", {{"member", seen.member_id}});
        member_.wake().notify();
        return;
    }
    status_.condition(kInitialised,
                      promoted.error().code == Code::conflict ? "CatchingUp" : "NotPromotedYet",
                      promoted.error().message,
                      call.wall_now());
}

// The mark goes last: what dies before it starts as a learner again, which is right.
void MemberService::drop_learner_mark(Call& call) {
    const json::Value patch = {
        {"metadata", {{"annotations", {{kLearnerAnnotation, nullptr}}}}},
    };
    const auto patched =
        call.client().patch_merge(kMemberGvk, member_.identity().member_key(), patch);
    if (!patched) {
        call.log(LogLevel::warn,
                 "the learner mark cannot be removed yet",
                 {{"error", patched.error().message}});
        return;
    }
    call.log(LogLevel::info, "learner mark removed");
}

// Once the member is Started: nothing of its way there is left behind.
void MemberService::tidy_up(Call& call, const PodMap& map) {
    status_.condition(kInitialised, {}, {}, call.wall_now());
    std::remove(learner_file(map.path(member_.identity().run_dir)).c_str());
    remove_aside(map.path(active_->data_dir), 1);
    tidied_ = !learner_mark(call);
    if (!tidied_) {
        report(call);  // Started first, then the mark
        drop_learner_mark(call);
    }
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
    // The launcher takes no orders from others.
    const auto token = read_file(map.value().path(member_.identity().run_dir) + "/token");
    const std::string line = token ? token.value() : std::string();
    HttpRequest request;
    request.method = "POST";
    request.url = (base ? base.value() : std::string()) + "/restart";
    request.headers = {{"authorization", "Bearer " + line.substr(0, line.find('\n'))}};
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
    const ApiReport api = member_.api_report();
    status_.condition(kApiServed, api.reason, api.message, now);
    status_.defragmentation(member_.defragmentation(), now);
    if (const auto alarms = member_.alarms()) {
        status_.alarms(*alarms, now);
    }
    // The object was deleted and made again, or its status taken away: it must not stay empty.
    if (status_.reported()) {
        const auto object = call.cache().get(kMemberGk, {me.ns, me.member});
        if (object && !object.value().text("/status/observedAt")) {
            status_.lost();
        }
    }
    const auto status = status_.due(call.now());
    if (!status) {
        return;
    }
    const json::Value intent = {
        {"apiVersion", "druid.gardener.cloud/v1alpha1"},
        {"kind", "EtcdMember"},
        {"metadata", {{"name", me.member}, {"namespace", me.ns}}},
        {"status", *status},
    };
    const MonotonicTime begun = call.now();
    const auto applied = call.client().apply(kMemberGvk, intent, {.subresource = "status"});
    if (applied) {
        status_.written(call.now());
        return;
    }
    status_.refused(begun, call.now());
    if (applied.error().message != last_problem_) {
        last_problem_ = applied.error().message;
        call.log(
            LogLevel::warn, "EtcdMember cannot be written", {{"error", applied.error().message}});
    }
}

}  // namespace capstan::steward
