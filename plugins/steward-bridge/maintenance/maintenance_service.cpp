#include "plugins/steward-bridge/maintenance/maintenance_service.hpp"

#include "plugins/steward-bridge/pod_map.hpp"

#include <algorithm>

namespace capstan::steward {
namespace {

constexpr std::string_view kMemberGvk = "druid.gardener.cloud/v1alpha1/EtcdMember";
constexpr std::chrono::milliseconds kAlarmTimeout{5'000};
constexpr std::string_view kAlarms[] = {"NOSPACE", "CORRUPT"};

}  // namespace

MaintenanceService::MaintenanceService(const HostTables& host,
                                       Member& member,
                                       Defragmenter& defragmenter)
    : member_(member),
      defragmenter_(defragmenter),
      alarm_(host,
             CAPSTAN_METRIC_GAUGE,
             "steward_etcd_alarm",
             "1 while etcd has raised this alarm on any member.",
             {"alarm"}),
      db_size_(host,
               CAPSTAN_METRIC_GAUGE,
               "steward_etcd_db_size_bytes",
               "Size of this member's database file."),
      db_size_in_use_(host,
                      CAPSTAN_METRIC_GAUGE,
                      "steward_etcd_db_size_in_use_bytes",
                      "Part of this member's database file that holds data.") {
    for (const std::string_view alarm : kAlarms) {
        alarm_.show({alarm});
    }
}

Result<void> MaintenanceService::run(Call& call) {
    MonotonicTime look_at = call.now();
    while (!call.cancelled()) {
        const auto configuration = read_configuration(call, member_.identity());
        if (configuration && call.now() >= look_at) {
            look(call, configuration.value());
            look_at = call.now() + kAlarmPeriod;
        }
        if (configuration) {
            follow_schedule(call, configuration.value());
        }
        MonotonicTime next = std::max(look_at, call.now() + std::chrono::seconds(1));
        if (const auto slot = plan_.next()) {
            next = std::min<MonotonicTime>(
                next,
                call.now() + std::max<std::chrono::nanoseconds>(*slot - call.wall_now(),
                                                                std::chrono::milliseconds(100)));
        }
        const Result<void> slept = call.sleep_until(next);
        if (!slept && slept.error().code != Code::timeout) {
            break;
        }
    }
    return ok();
}

void MaintenanceService::look(Call& call, const Configuration& configuration) {
    if (const auto status = member_.status()) {
        db_size_.update(static_cast<double>(status->db_size));
        db_size_in_use_.update(static_cast<double>(status->db_size_in_use));
    }
    const auto map = PodMap::load();
    const auto endpoint =
        map ? map.value().url(configuration.local_endpoint) : Result<std::string>(map.error());
    if (!endpoint) {
        return;
    }
    Gateway gateway(call, member_.client_tls());
    auto alarms = EtcdMaintenance(gateway).alarms(endpoint.value(), kAlarmTimeout);
    if (!alarms) {
        return;  // etcd does not answer; what was known of its alarms stands
    }
    for (const std::string_view name : kAlarms) {
        const bool raised = std::any_of(alarms.value().begin(),
                                        alarms.value().end(),
                                        [name](const EtcdAlarm& a) { return a.alarm == name; });
        alarm_.update({name}, raised ? 1 : 0);
    }
    member_.set_alarms(std::move(alarms).value());
}

bool MaintenanceService::may_lead_now(Call& call,
                                      const Configuration& configuration,
                                      WallTime slot) {
    if (call.wall_now() - slot >= kLeaderPatience) {
        return true;
    }
    const Identity& me = member_.identity();
    std::vector<json::Value> others;
    for (const std::string& name : configuration.member_names) {
        if (name == me.member) {
            continue;
        }
        auto other = call.client().get_value(kMemberGvk, {me.ns, name});
        if (!other) {
            say_once(call, other.error().message);
            return false;
        }
        others.push_back(std::move(other).value());
    }
    std::string waits_for;
    if (!others_are_done(others, slot, waits_for)) {
        say_once(call, "the leading member comes last and waits for " + waits_for);
        return false;
    }
    return true;
}

void MaintenanceService::follow_schedule(Call& call, const Configuration& configuration) {
    plan_.follow(configuration.defragmentation_schedule, call.wall_now());
    const auto slot = plan_.due(call.wall_now());
    const auto status = member_.status();
    if (!slot || !status || call.now() < not_before_) {
        return;
    }
    not_before_ = call.now() + kDefragmentationRetry;
    const bool last = status->leader && configuration.member_names.size() > 1;
    if (last && !may_lead_now(call, configuration, *slot)) {
        not_before_ = call.now() + std::chrono::seconds(15);
        return;
    }
    const auto done = defragmenter_.run(call, "Scheduled");
    if (done) {
        plan_.done();
        said_.clear();
        return;
    }
    const auto again = done.error().retry_after;
    if (again.count() > 0) {
        not_before_ = call.now() + again;
    }
    say_once(call, done.error().message);
}

void MaintenanceService::say_once(Call& call, const std::string& what) {
    if (what != said_) {
        call.log(LogLevel::info, "defragmentation waits", {{"message", what}});
        said_ = what;
    }
}

}  // namespace capstan::steward
