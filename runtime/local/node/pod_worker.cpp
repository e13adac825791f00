#include "runtime/local/node/pod_worker.hpp"

#include "runtime/local/node/addresses.hpp"
#include "runtime/local/node/files.hpp"
#include "runtime/local/node/objects.hpp"
#include "runtime/local/node/pod_slot.hpp"

#include <unistd.h>
#include <algorithm>
#include <cerrno>

namespace capstan::local {
namespace {

constexpr std::chrono::seconds kGraceDefault{30};
constexpr std::int64_t kGraceMax = 3'600;

std::vector<std::string> own_aliases(const json::Value& pod) {
    std::vector<std::string> out;
    for (const auto& entry : json::View(pod)["spec"]["hostAliases"].array()) {
        if (json::View(entry)["ip"].string_or("") == "127.0.0.1") {
            for (auto& name : strings_of(json::View(entry)["hostnames"])) {
                out.push_back(std::move(name));
            }
        }
    }
    return out;
}

}  // namespace

std::string PodWorker::dir_of(const NodeOptions& options, const std::string& uid) {
    return options.dir + "/pods/" + uid;
}

PodWorker::PodWorker(PodContext& context, json::Value pod)
    : context_(context),
      pod_(std::move(pod)),
      uid_(uid_of(pod_)),
      key_(key_of(pod_)),
      dir_(dir_of(context.options, uid_)),
      aliases_(own_aliases(pod_)),
      alive_(std::make_shared<bool>(true)) {}

PodWorker::~PodWorker() = default;

void PodWorker::log(NodeLogLevel level, std::string_view message, std::string_view detail) const {
    if (context_.options.log) {
        context_.options.log(level, message, key_.to_string(), detail);
    }
}

Result<void> PodWorker::setup() {
    if (set_up_) {
        return ok();
    }
    CAPSTAN_TRY(make_dirs(dir_));
    CAPSTAN_TRY(auto address, context_.address_of(key_));
    address_ = std::move(address);
    const auto known = read_file(dir_ + "/pod.json");
    const auto parsed = known.has_value() ? json::parse(known.value()) : fail(Code::not_found, "");
    started_ = context_.loop.wall_now();
    if (parsed.has_value()) {
        started_ =
            parse_rfc3339(json::View(parsed.value())["startedAt"].string_or("")).value_or(started_);
    }
    const json::Value record = {
        {"ip", address_}, {"startedAt", to_rfc3339_micro(started_)}, {"pod", pod_}};
    CAPSTAN_TRY(write_file(dir_ + "/pod.json", json::dump(record), 0600));
    std::vector<std::unique_ptr<Slot>> slots;
    for (const bool init : {true, false}) {
        const auto list = json::View(pod_)["spec"][init ? "initContainers" : "containers"];
        for (const auto& spec : list.array()) {
            auto slot = std::make_unique<Slot>(spec, init);
            slot->skipped = init && is_skippable_init(slot->image(),
                                                      strings_of(slot->view()["command"]),
                                                      strings_of(slot->view()["args"]),
                                                      context_.options.images);
            slot->container = std::make_unique<Container>(
                context_.loop, context_.watcher, dir_ + "/" + slot->name(), [this] { schedule(); });
            CAPSTAN_TRY(adopt_slot(*slot->container, slot->name(), uid_, dir_));
            if (slot->container->running()) {
                log(NodeLogLevel::info, "container adopted", slot->name());
            }
            slots.push_back(std::move(slot));
        }
    }
    slots_ = std::move(slots);
    set_up_ = true;
    for (const auto& slot : slots_) {
        std::string reason;
        if (auto error =
                slot->container->running() && !vanished_ ? prepare(*slot, reason) : std::nullopt) {
            log(NodeLogLevel::warn, "adopted container could not be prepared", error->message);
        }
        if (slot->skipped) {
            log(NodeLogLevel::info,
                "init container skipped: not needed on this machine",
                slot->name());
        }
    }
    schedule();
    housekeep();
    return ok();
}

void PodWorker::update(json::Value pod) {
    // What was seen may be from before our last write: taken back, two states could chase each
    // other for ever.
    if (is_older(pod, pod_)) {
        return;
    }
    pod_ = std::move(pod);
    schedule();
}

void PodWorker::vanish() {
    vanished_ = true;
    schedule();
}

void PodWorker::stop() {
    stopping_ = true;
    schedule();
}

void PodWorker::refresh() {
    for (const auto& slot : slots_) {
        std::string reason;
        if (slot->container->running() && !vanished_ && !is_deleting(pod_)) {
            if (auto error = prepare(*slot, reason)) {
                log(NodeLogLevel::warn,
                    "volumes could not be refreshed; the old content stays",
                    error->message);
            }
        }
    }
}

void PodWorker::schedule() {
    if (scheduled_) {
        return;
    }
    scheduled_ = true;
    context_.loop.post([this, alive = std::weak_ptr<bool>(alive_)] {
        if (!alive.expired()) {
            scheduled_ = false;
            sync();
        }
    });
}

void PodWorker::wake_at(MonotonicTime when) {
    if (when >= timer_at_ || when == kNever) {
        return;
    }
    timer_at_ = when;
    timer_ = context_.loop.at(when, [this] {
        timer_at_ = kNever;
        schedule();
    });
}

void PodWorker::sync() {
    if (done_) {
        return;
    }
    if (!set_up_) {
        if (auto result = setup(); !result.has_value()) {
            if (setup_error_ != result.error().message) {
                setup_error_ = result.error().message;
                log(NodeLogLevel::error, "pod cannot be set up", setup_error_);
            }
            wake_at(context_.loop.now() + kRetryBlocked);
            // Without a record on disk nothing was ever started, so a pod that is to go can go.
            const bool clean = ::access((dir_ + "/pod.json").c_str(), F_OK) != 0 && errno == ENOENT;
            if (!clean || (!vanished_ && !is_deleting(pod_))) {
                return;
            }
        }
        setup_error_.clear();
    }
    if (vanished_ || stopping_ || is_deleting(pod_)) {
        end_all();
        return;
    }
    advance();
    write_status();
}

std::chrono::seconds PodWorker::grace() const {
    if (vanished_) {
        return kGraceOfVanished;
    }
    const json::View pod(pod_);
    auto seconds = pod["spec"]["terminationGracePeriodSeconds"].int_or(kGraceDefault.count());
    if (is_deleting(pod_)) {
        seconds = pod["metadata"]["deletionGracePeriodSeconds"].int_or(seconds);
    }
    return std::chrono::seconds(std::clamp<std::int64_t>(seconds, 0, kGraceMax));
}

void PodWorker::end_all() {
    bool running = false;
    for (const auto& slot : slots_) {
        slot->prober.reset();
        if (slot->container->running()) {
            running = true;
            slot->container->stop(grace(), "pod stopped", stopping_);
        }
    }
    if (running) {
        return;
    }
    if (vanished_ || is_deleting(pod_)) {
        finish();
    } else {
        context_.loop.post(context_.on_done);
    }
}

void PodWorker::finish() {
    if (!vanished_) {
        auto removed = context_.api.remove(kPodKind, key_, {.uid = uid_, .grace_seconds = 0});
        const bool gone = removed.has_value() || removed.error().code == Code::not_found ||
                          removed.error().code == Code::conflict;
        if (!gone) {
            log(NodeLogLevel::warn, "pod object could not be removed", removed.error().message);
            wake_at(context_.loop.now() + kRetryApi);
            return;
        }
    }
    if (auto removed = remove_tree(dir_); !removed.has_value()) {
        log(NodeLogLevel::warn, "pod directory could not be removed", removed.error().message);
    }
    done_ = true;
    context_.loop.post(context_.on_done);
}

bool PodWorker::stopped() const noexcept {
    return done_ || std::none_of(slots_.begin(), slots_.end(), [](const auto& slot) {
               return slot->container->running();
           });
}

void PodWorker::advance() {
    const auto now = context_.loop.now();
    const auto wall = context_.loop.wall_now();
    std::vector<ContainerFacts> facts;
    for (const auto& slot : slots_) {
        facts.push_back(slot->facts(now, wall));
    }
    const auto policy =
        restart_policy_from(json::View(pod_)["spec"]["restartPolicy"].string_or("Always"));
    auto plan = plan_pod(policy, facts, now);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        auto& slot = *slots_[i];
        slot.wait_for_backoff(plan.start_at[i], now, key_);
        if (std::find(plan.start.begin(), plan.start.end(), i) != plan.start.end()) {
            if (slot.retry_at <= now) {
                try_start(slot);
                facts[i] = slot.facts(now, wall);
            }
            if (!slot.container->running()) {
                wake_at(std::max(slot.retry_at, now + kRestartDelayFirst));
            }
        }
        mind_probes(slot);
    }
    plan = plan_pod(policy, facts, now);  // what has just been started counts
    phase_ = plan.phase;
    initialized_ = plan.initialized;
    wake_at(plan.wake);
}

void PodWorker::mind_probes(Slot& slot) {
    if (slot.init || !slot.container->running()) {
        slot.prober.reset();
        return;
    }
    if (!slot.prober || slot.probed_attempt != slot.container->record().attempt) {
        slot.probed_attempt = slot.container->record().attempt;
        ProberContext context{context_.loop,
                              context_.watcher,
                              context_.options.http_client,
                              address_,
                              [this, &slot](const std::vector<std::string>& command) {
                                  std::string reason;
                                  return build_request(slot, &command, reason);
                              },
                              [this, alive = std::weak_ptr<bool>(alive_)] {
                                  if (!alive.expired()) {
                                      schedule();
                                  }
                              }};
        slot.prober =
            std::make_unique<Prober>(std::move(context), slot.spec, slot.started_at(context_.loop));
    }
    if (const auto fatal = slot.prober->fatal(); !fatal.empty() && !slot.container->stopping()) {
        log(NodeLogLevel::warn, "container is restarted", slot.name() + ": " + fatal);
        slot.container->stop(grace(), fatal);
    }
}

void PodWorker::try_start(Slot& slot) {
    std::string reason;
    auto error = prepare(slot, reason);
    if (!error) {
        auto request = build_request(slot, nullptr, reason);
        if (request.has_value()) {
            auto started = slot.container->start(std::move(request).value());
            slot.clear_wait();
            if (started.has_value()) {
                log(NodeLogLevel::info,
                    "container started",
                    slot.name() + " pid " + std::to_string(slot.container->record().process.pid));
            } else {
                log(NodeLogLevel::error, "container could not be started", started.error().message);
                schedule();
            }
            return;
        }
        error = std::move(request).error();
    }
    if (slot.waiting_message != error->message) {
        log(NodeLogLevel::warn, "container waits", slot.name() + ": " + error->message);
    }
    slot.waiting_reason = reason;
    slot.waiting_message = error->message;
    slot.retry_at = context_.loop.now() + kRetryBlocked;
}

void PodWorker::housekeep() {
    for (const auto& slot : slots_) {
        slot->container->trim_log(kLogBytesMax);
    }
    housekeeping_ = context_.loop.at(context_.loop.now() + kHousekeeping, [this] { housekeep(); });
}

}  // namespace capstan::local
