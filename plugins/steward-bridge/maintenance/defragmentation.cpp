#include "plugins/steward-bridge/maintenance/defragmentation.hpp"

#include "plugins/steward-bridge/maintenance/turn.hpp"
#include "plugins/steward-bridge/pod_map.hpp"

#include <algorithm>
#include <utility>

namespace capstan::steward {
namespace {

constexpr std::chrono::milliseconds kLookTimeout{5'000};
// Between the end of the longest defragmentation and that of the turn.
constexpr std::chrono::minutes kTurnSpare{2};
// What is left of a call to record the outcome in.
constexpr std::chrono::seconds kCallSpare{10};

api::IntOrString bytes_of(std::int64_t bytes) {
    return api::IntOrString{std::to_string(bytes), true};
}

std::chrono::milliseconds time_for(Call& call, const Configuration& configuration) {
    const auto wanted = configuration.defragmentation_timeout;
    const auto left =
        call.deadline() == kNever ? wanted : call.deadline() - call.now() - kCallSpare;
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::max<std::chrono::nanoseconds>(
        std::min<std::chrono::nanoseconds>(wanted, left), std::chrono::seconds(1)));
}

}  // namespace

Defragmenter::Defragmenter(const HostTables& host, Member& member)
    : member_(member),
      seconds_(host,
               CAPSTAN_METRIC_HISTOGRAM,
               "etcdbr_defragmentation_duration_seconds",
               "Time of a defragmentation of this member.",
               {"succeeded", "endpoint"},
               duration_buckets()) {
    seconds_.show({"true", ""});
    seconds_.show({"false", ""});
}

Result<api::Defragmentation> Defragmenter::run(Call& call, std::string reason) {
    {
        const std::lock_guard lock(mutex_);
        if (std::exchange(busy_, true)) {
            return fail(Code::conflict, "this member is being defragmented already");
        }
    }
    auto result = run_alone(call, std::move(reason));
    const std::lock_guard lock(mutex_);
    busy_ = false;
    return result;
}

Result<api::Defragmentation> Defragmenter::run_alone(Call& call, std::string reason) {
    const Identity& me = member_.identity();
    CAPSTAN_TRY(const Configuration configuration, read_configuration(call, me));
    CAPSTAN_TRY(const PodMap map, PodMap::load());
    CAPSTAN_TRY(const std::string endpoint, map.url(configuration.local_endpoint));
    const ObjectKey lease{me.ns, configuration.member_names.front()};
    CAPSTAN_TRY(
        take_turn(call, lease, me.member, configuration.defragmentation_timeout + kTurnSpare));
    bool under_way = false;
    auto result = defragment(call, configuration, endpoint, std::move(reason), under_way);
    if (under_way) {
        call.log(LogLevel::warn,
                 "etcd may still be defragmenting, so the turn is kept until its time",
                 {{"lease", lease.name}});
        return result;
    }
    if (const auto given = give_turn_back(call, lease, me.member); !given) {
        call.log(LogLevel::warn,
                 "the turn to defragment is not given back, it ends by its time",
                 {{"error", given.error().message}});
    }
    return result;
}

Result<api::Defragmentation> Defragmenter::defragment(Call& call,
                                                      const Configuration& configuration,
                                                      const std::string& endpoint,
                                                      std::string reason,
                                                      bool& under_way) {
    Gateway gateway(call, member_.client_tls());
    EtcdMaintenance etcd(gateway);
    CAPSTAN_TRY(const EtcdStatus before, gateway.status(endpoint, kLookTimeout));
    CAPSTAN_TRY(const ClusterHealth cluster, etcd.look(endpoint, kLookTimeout));
    if (std::string why = why_not_defragment(cluster, before.member_id); !why.empty()) {
        return fail(Code::unavailable,
                    "this member is not defragmented while its cluster is not healthy: " + why);
    }
    api::Defragmentation work;
    work.start_time = to_rfc3339(call.wall_now());
    work.initial_db_size = bytes_of(before.db_size);
    work.reason = std::move(reason);
    work.status = api::TaskStatus::in_progress;
    member_.set_defragmentation(work);
    call.log(LogLevel::info, "defragmentation begins", {{"bytes", before.db_size}});
    const MonotonicTime started = call.now();
    Result<void> outcome = etcd.defragment(endpoint, time_for(call, configuration));
    under_way = !outcome &&
                (outcome.error().code == Code::timeout || outcome.error().code == Code::cancelled);
    const std::chrono::duration<double> took = call.now() - started;
    seconds_.update({outcome ? "true" : "false", endpoint}, took.count());
    if (outcome) {
        const auto after = gateway.status(endpoint, kLookTimeout);
        if (after) {
            work.final_db_size = bytes_of(after.value().db_size);
        }
    }
    CAPSTAN_TRY(record(call, work, outcome));
    return work;
}

Result<void> Defragmenter::record(Call& call,
                                  api::Defragmentation& done,
                                  const Result<void>& outcome) {
    done.end_time = to_rfc3339(call.wall_now());
    done.status = outcome ? api::TaskStatus::succeeded : api::TaskStatus::failed;
    if (!outcome) {
        done.reason = outcome.error().code == Code::timeout ? "TimedOut" : "EtcdRefused";
        done.message = outcome.error().message;
    }
    member_.set_defragmentation(done);
    if (!outcome) {
        call.log(LogLevel::error, "defragmentation failed", {{"error", outcome.error().message}});
        return outcome;
    }
    call.log(LogLevel::info,
             "defragmentation is done",
             {{"before", done.initial_db_size->text},
              {"after", done.final_db_size ? done.final_db_size->text : std::string("unknown")}});
    return ok();
}

void DefragmentationPlan::follow(const std::string& schedule, WallTime now) {
    if (schedule == text_) {
        return;
    }
    text_ = schedule;
    looked_at_ = now;
    schedule_.reset();
    next_.reset();
    due_.reset();
    if (schedule.empty()) {
        return;
    }
    if (auto parsed = Schedule::parse(schedule)) {
        schedule_ = std::move(parsed).value();
        next_ = schedule_->next_after(now);
    }
}

std::optional<WallTime> DefragmentationPlan::due(WallTime now) {
    if (next_ && now + kClockStep < looked_at_) {
        next_ = schedule_->next_after(now);  // the clock was set back
    }
    looked_at_ = now;
    while (next_ && *next_ <= now) {
        due_ = next_;
        next_ = schedule_->next_after(*next_);
    }
    return due_;
}

bool others_are_done(const std::vector<json::Value>& others,
                     WallTime slot,
                     std::string& waits_for) {
    for (const json::Value& other : others) {
        const json::View view(other);
        const json::View last = view["status"]["lastDefragmentation"];
        const auto started = parse_rfc3339(last["startTime"].string_or(""));
        if (!started || *started < slot || last["status"].string_or("") != "Succeeded") {
            waits_for = view["metadata"]["name"].string_or("");
            return false;
        }
    }
    return true;
}

}  // namespace capstan::steward
