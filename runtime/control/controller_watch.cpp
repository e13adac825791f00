// From cache events to keys: change, predicate, map rule, queue. All on the loop.
#include "runtime/control/controller.hpp"
#include "runtime/control/controller_parts.hpp"
#include "runtime/control/unit.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace capstan::control {

namespace {

Result<std::string> value_of(const plugin::ValueSource& source,
                             const Core& core,
                             const json::Value& config,
                             const std::string& where) {
    switch (source.kind) {
        case plugin::ValueSource::Kind::literal: return source.text;
        case plugin::ValueSource::Kind::config: {
            const json::Value* found = config.pointer(source.text);
            const std::string* text = found == nullptr ? nullptr : found->if_string();
            if (text == nullptr) {
                return fail(Code::invalid,
                            where + ": the configuration has no string at " + source.text);
            }
            return *text;
        }
        case plugin::ValueSource::Kind::environment: break;
    }
    auto value = core.parts.environment ? core.parts.environment(source.text) : std::nullopt;
    if (!value) {
        return fail(Code::invalid, where + ": environment variable " + source.text + " is not set");
    }
    return *std::move(value);
}

plugin::EventType type_of(cache::EventType type) {
    switch (type) {
        case cache::EventType::create: return plugin::EventType::create;
        case cache::EventType::update: return plugin::EventType::update;
        case cache::EventType::remove: return plugin::EventType::removal;
        case cache::EventType::resync: return plugin::EventType::resync;
    }
    return plugin::EventType::update;
}

queue::Reason reason_of(const cache::Event& event, bool forced) {
    if (forced) {
        return queue::Reason::forced;
    }
    if (event.initial) {
        return queue::Reason::initial;
    }
    switch (event.type) {
        case cache::EventType::create: return queue::Reason::create;
        case cache::EventType::remove: return queue::Reason::remove;
        case cache::EventType::resync: return queue::Reason::external;
        case cache::EventType::update: break;
    }
    return queue::Reason::update;
}

std::string described(const cache::WatchState& state) {
    if (!state.reason.empty()) {
        return state.reason;
    }
    return "its first state";
}

}  // namespace

Result<void> Controller::prepare() {
    const Core& core = *unit_.core();
    for (const plugin::Watch& watch : spec_.watches) {
        auto state = std::make_unique<WatchState>();
        state->watch = &watch;
        state->spec.gvk = watch.gvk;
        state->spec.projection.keep = watch.keep;
        const std::string where = label_ + ": watch of " + watch.gvk.to_string();
        const auto fill = [&](const std::optional<plugin::ValueSource>& source,
                              std::string& out) -> Result<void> {
            if (source) {
                CAPSTAN_TRY(out, value_of(*source, core, unit_.plugin().config, where));
            }
            return ok();
        };
        CAPSTAN_TRY(fill(watch.select.ns, state->spec.ns));
        CAPSTAN_TRY(fill(watch.select.labels, state->spec.label_selector));
        std::vector<std::pair<std::string, plugin::ValueSource>> fields = watch.select.fields;
        if (watch.select.name) {
            fields.emplace_back("metadata.name", *watch.select.name);
        }
        for (const auto& [field, source] : fields) {
            CAPSTAN_TRY(const std::string value,
                        value_of(source, core, unit_.plugin().config, where));
            state->spec.field_selector +=
                (state->spec.field_selector.empty() ? "" : ",") + field + "=" + value;
        }
        std::vector<std::string> looked_at = watch.predicate.looks_at();
        for (std::string& pointer : plugin::looks_at(watch.map)) {
            looked_at.push_back(std::move(pointer));
        }
        state->parts = kube::Parts::of(looked_at);
        const std::string gvk = watch.gvk.to_string();
        const auto counter = [&](std::string_view outcome) {
            return &unit_.core()->metrics.events.with({gvk, unit_.manifest().id, outcome});
        };
        state->filtered = counter("filtered");
        state->passed = counter("passed");
        state->forced = counter("forced");
        state->error = counter("error");
        watches_.push_back(std::move(state));
    }
    return ok();
}

// One watch becomes one for each configured namespace.
void Controller::scope_watches() {
    const RuntimeOptions& options = unit_.core()->options;
    std::vector<std::unique_ptr<WatchState>> scoped;
    for (auto& state : watches_) {
        const bool everywhere = options.namespaces.empty() || !state->spec.ns.empty() ||
                                (options.cluster_scoped && options.cluster_scoped(state->spec.gvk));
        if (everywhere) {
            scoped.push_back(std::move(state));
            continue;
        }
        for (const std::string& ns : options.namespaces) {
            auto one = std::make_unique<WatchState>();
            one->watch = state->watch;
            one->spec = state->spec;
            one->spec.ns = ns;
            one->parts = state->parts;
            one->filtered = state->filtered;
            one->passed = state->passed;
            one->forced = state->forced;
            one->error = state->error;
            scoped.push_back(std::move(one));
        }
    }
    watches_ = std::move(scoped);
}

Result<void> Controller::start_watches(std::vector<ReadStore>& stores) {
    scope_watches();
    for (auto& state : watches_) {
        cache::WatchRequest request;
        request.spec = state->spec;
        if (state->watch->role == plugin::Role::primary) {
            for (const plugin::Watch& other : spec_.watches) {
                if (other.map.kind == plugin::MapRule::Kind::refers_from) {
                    request.indexes.push_back({cache::IndexSpec::Kind::field, other.map.field});
                }
            }
        }
        WatchState* watch = state.get();
        request.on_event = [this, watch](const cache::Event& event) { on_event(*watch, event); };
        request.on_state = [this, watch](const cache::WatchState& now) { on_state(*watch, now); };
        CAPSTAN_TRY(state->handle, unit_.core()->parts.cache.watch(std::move(request)));
        stores.push_back({state->watch->gvk,
                          !state->spec.projection.keep.empty(),
                          state->handle->store(),
                          state->synced});
        on_state(*watch, state->handle->state());
    }
    arm_resync();
    return ok();
}

void Controller::drop_watches() {
    resync_timer_.reset();
    for (auto& state : watches_) {
        state->handle.reset();
    }
}

void Controller::on_state(WatchState& watch, const cache::WatchState& state) {
    watch.last = state;
    if (state.synced) {
        watch.synced->store(true);
    }
    check_synced();
}

void Controller::check_synced() {
    std::string waiting;
    bool all = true;
    for (const auto& state : watches_) {
        all = all && state->synced->load();
        if (!state->synced->load() || state->last.state == cache::SyncState::degraded) {
            waiting += (waiting.empty() ? "" : ", ") + state->spec.gvk.to_string() + ": " +
                       described(state->last);
        }
    }
    bool changed = false;
    {
        const std::lock_guard lock(mutex_);
        changed = waiting != waiting_for_ || all != synced_.load();
        waiting_for_ = waiting;
        synced_.store(all);
    }
    if (changed) {
        reopen();
        unit_.controllers_changed();
    }
}

std::string Controller::waiting_for() const {
    const std::lock_guard lock(mutex_);
    return waiting_for_;
}

void Controller::on_event(WatchState& watch, const cache::Event& event) {
    // Parsed here and not in the cache, and only what somebody looks at: most events change nothing
    // that matters.
    json::Value old_object;
    json::Value new_object;
    if (watch.watch->map.kind == plugin::MapRule::Kind::identity) {
        const auto& object = event.new_object != nullptr ? event.new_object : event.old_object;
        primary_cluster_scoped_ = object != nullptr && object->key().ns.empty();
    }
    plugin::EventView view;
    view.type = type_of(event.type);
    if (event.new_object != nullptr) {
        new_object = event.new_object->parse(watch.parts);
        view.new_object = &new_object;
    }
    if (event.type == cache::EventType::resync) {
        view.old_object = view.new_object;
    } else if (event.old_object != nullptr) {
        old_object = event.old_object->parse(watch.parts);
        view.old_object = &old_object;
    }
    view.config = &unit_.plugin().config;
    view.gates = &unit_.plugin().gates;
    const plugin::Verdict verdict = watch.watch->predicate.evaluate(view);
    if (!verdict.pass && !verdict.forced) {
        watch.filtered->add();
        return;
    }
    (verdict.error ? watch.error : verdict.forced ? watch.forced : watch.passed)->add();
    wake_keys(watch, event, view.old_object, view.new_object, verdict.forced);
}

void Controller::wake_keys(const WatchState& watch,
                           const cache::Event& event,
                           const json::Value* old_object,
                           const json::Value* new_object,
                           bool forced) {
    const plugin::MappedKeys mapped =
        plugin::map_keys(watch.watch->map, old_object, new_object, lookups(watch.watch->map.kind));
    if (mapped.truncated) {
        log_.warn("an event maps to too many keys; the rest is left to the resync",
                  {{"gvk", watch.spec.gvk.to_string()}, {"count", mapped.keys.size()}});
    }
    queue::AddOptions options;
    options.reason = reason_of(event, forced);
    options.priority = event.initial ? queue::kPriorityLow : queue::kPriorityNormal;
    for (const ObjectKey& key : mapped.keys) {
        if (watch.watch->ignore_own_writes && event.own_write && !event.relisted &&
            forget_own_write(key, watch.spec.gvk, *event.new_object)) {
            continue;
        }
        // a full queue is logged there and made good by the refill
        const Result<void> added = enqueue(key, options);
        if (!added && added.error().code == Code::overloaded) {
            remember_if_gone(key, event);
        }
    }
}

// Not on a standby, which would collect names for ever: its leader is told of them.
void Controller::remember_if_gone(const ObjectKey& key, const cache::Event& event) {
    if (!unit_.core()->leading.load()) {
        return;
    }
    const auto stores = primary_stores();
    const bool known = event.type != cache::EventType::remove &&
                       std::any_of(stores.begin(), stores.end(), [&key](const auto& store) {
                           return store->get(key) != nullptr;
                       });
    if (!known) {
        gone_.insert(key);
    }
}

std::vector<cache::ObjectPtr> Controller::primary_objects() const {
    const auto stores = primary_stores();
    std::vector<cache::ObjectPtr> objects;
    for (const auto& store : stores) {
        std::vector<cache::ObjectPtr> more = store->list();
        objects.insert(objects.end(),
                       std::make_move_iterator(more.begin()),
                       std::make_move_iterator(more.end()));
    }
    if (stores.size() > 1) {
        std::sort(objects.begin(), objects.end(), [](const auto& one, const auto& other) {
            return one->key() < other->key();
        });
    }
    return objects;
}

void Controller::enqueue_all(queue::Reason reason) {
    for (const cache::ObjectPtr& object : primary_objects()) {
        static_cast<void>(enqueue(object->key(), {reason, queue::kPriorityLow, {}}));
    }
}

void Controller::arm_resync() {
    if (!spec_.resync_every) {
        return;
    }
    const double factor = 0.9 + 0.2 * unit_.core()->random_unit();
    const auto period = std::chrono::nanoseconds(
        static_cast<std::int64_t>(static_cast<double>(spec_.resync_every->count()) * factor));
    net::Loop& loop = unit_.core()->parts.loop;
    resync_timer_ = loop.at(loop.now() + period, [this] {
        enqueue_all(queue::Reason::external);
        arm_resync();
    });
}

// Keys that found no room are known to the cache or to gone_: they are added again when there is
// room.
void Controller::refill_after_overflow() {
    bool has_room = false;
    {
        const std::lock_guard lock(mutex_);
        has_room = queue_.take_overflow();
    }
    if (has_room) {
        unit_.core()->parts.loop.post([this, unit = unit_.shared_from_this()] { refill(); });
    }
}

bool Controller::refill_gone() {
    while (!gone_.empty()) {
        if (!add(*gone_.begin(), {queue::Reason::remove, queue::kPriorityNormal, {}}, true)) {
            return false;
        }
        gone_.erase(gone_.begin());
    }
    return true;
}

// With more keys than room the first of them would fill the queue each time: a refill goes on where
// the last one found no more room, once round for what was dropped before it began.
void Controller::refill() {
    if (watches_.front()->handle == nullptr) {
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        if (std::exchange(dropped_, false)) {
            refill_.active = true;
            refill_.wrapped = false;
            refill_.from = refill_.last;
        }
    }
    if (!refill_gone()) {
        return;
    }
    const std::vector<cache::ObjectPtr> objects = primary_objects();
    auto next = std::upper_bound(
        objects.begin(), objects.end(), refill_.last, [](const ObjectKey& key, const auto& object) {
            return key < object->key();
        });
    while (refill_.active) {
        if (next == objects.end() && !refill_.wrapped) {
            refill_.wrapped = true;
            next = objects.begin();
        }
        if (next == objects.end() || (refill_.wrapped && refill_.from < (*next)->key())) {
            refill_.active = false;
            return;
        }
        if (!add((*next)->key(), {queue::Reason::forced, queue::kPriorityLow, {}}, true)) {
            return;  // the queue has noted it: the next refill goes on here
        }
        refill_.last = (*next)->key();
        ++next;
    }
}

}  // namespace capstan::control
