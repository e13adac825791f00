#include "runtime/cache/informer.hpp"

#include "runtime/kube/status.hpp"

#include <utility>

namespace capstan::cache {

std::string_view to_string(SyncState state) noexcept {
    switch (state) {
        case SyncState::pending: return "pending";
        case SyncState::live: return "live";
        case SyncState::degraded: return "degraded";
    }
    return "pending";
}

Informer::Informer(net::Loop& loop,
                   kube::Client& client,
                   const CacheOptions& options,
                   std::shared_ptr<View> view)
    : loop_(loop),
      client_(client),
      observer_(options.observer),
      view_(std::move(view)),
      fsm_(options.reflector, options.random),
      group_resource_(view_->spec.gvk.kind) {}

void Informer::start() {
    running_ = true;
    client_.resources().resolve(view_->spec.gvk,
                                [weak = weak_from_this()](Result<kube::Resource> resource) {
                                    if (const auto self = weak.lock(); self && resource) {
                                        self->group_resource_ = resource.value().group_resource();
                                    }
                                });
    perform(fsm_.start(loop_.now()));
}

void Informer::stop() {
    running_ = false;
    call_.reset();
    check_.reset();
    timer_.reset();
    subscriptions_.clear();
    shadow_ = {};
    unreadable_.clear();
}

void Informer::perform(Action action) {
    if (!running_) {
        return;
    }
    if (observer_ != nullptr) {
        for (const LogLine& line : action.log) {
            observer_->log(view_->spec, line);
        }
        if (action.new_shadow) {
            observer_->listed(view_->spec, action.reason);
        }
    }
    if (action.new_shadow || action.kind == Action::Kind::wait) {
        shadow_ = {};
        unreadable_.clear();
    }
    if (action.kind != Action::Kind::keep) {
        check_.reset();
    }
    switch (action.kind) {
        case Action::Kind::keep:
            if (action.check) {
                open_check(action.resource_version);
            }
            break;
        case Action::Kind::wait: call_.reset(); break;
        case Action::Kind::list: open_list(action); break;
        case Action::Kind::watch: open_watch(action); break;
    }
    rearm();
    tell_state();
}

void Informer::open_list(const Action& action) {
    verb_ = "list";
    kube::ListOptions options;
    options.ns = view_->spec.ns;
    options.label_selector = view_->spec.label_selector;
    options.field_selector = view_->spec.field_selector;
    options.match = action.resource_version.empty() ? kube::ListMatch::consistent
                                                    : kube::ListMatch::not_older_than;
    options.resource_version = action.resource_version;
    options.continue_token = action.continue_token;
    options.projection = view_->spec.projection;
    call_ = client_.list(view_->spec.gvk,
                         std::move(options),
                         [weak = weak_from_this()](Result<kube::ListPage> page) {
                             if (const auto self = weak.lock()) {
                                 self->on_page(std::move(page));
                             }
                         });
}

void Informer::open_watch(const Action& action) {
    verb_ = action.by_list ? "list" : "watch";
    kube::WatchOptions options;
    options.ns = view_->spec.ns;
    options.label_selector = view_->spec.label_selector;
    options.field_selector = view_->spec.field_selector;
    options.resource_version = action.resource_version;
    options.send_initial_events = action.send_initial_events;
    options.by_list = action.by_list;
    options.timeout = action.timeout;
    options.projection = view_->spec.projection;
    kube::WatchHandler handler;
    handler.on_open = [weak = weak_from_this()] {
        if (const auto self = weak.lock()) {
            self->perform(self->fsm_.on_watch_open(self->loop_.now()));
        }
    };
    handler.on_bytes = [weak = weak_from_this()] {
        if (const auto self = weak.lock()) {
            self->last_bytes_ = self->loop_.now();
            self->fsm_.on_watch_bytes(self->last_bytes_);
        }
    };
    handler.on_event = [weak = weak_from_this()](kube::WatchEvent event) {
        if (const auto self = weak.lock()) {
            self->on_event(std::move(event));
        }
    };
    handler.on_end = [weak = weak_from_this()](Result<void> result) {
        if (const auto self = weak.lock()) {
            self->note_end(result ? "ended" : capstan::to_string(result.error().code));
            self->perform(self->fsm_.on_watch_end(self->loop_.now(), result));
        }
    };
    watching_ = true;
    call_ = client_.watch(view_->spec.gvk, std::move(options), std::move(handler));
}

void Informer::on_page(Result<kube::ListPage> page) {
    if (!page) {
        perform(fsm_.on_list_error(loop_.now(), page.error()));
        return;
    }
    last_event_ = last_bytes_ = loop_.now();
    kube::ListPage& got = page.value();
    Step step = fsm_.on_page(loop_.now(), got.resource_version, got.continue_token);
    if (step.verdict != Verdict::ignore) {
        shadow_.insert(shadow_.end(),
                       std::make_move_iterator(got.items.begin()),
                       std::make_move_iterator(got.items.end()));
        for (kube::Unreadable& one : got.unreadable) {
            on_unreadable({.verdict = Verdict::collect}, std::move(one));
        }
    }
    take(std::move(step), nullptr, EventKind::initial_end, got.resource_version);
}

void Informer::on_event(kube::WatchEvent event) {
    last_event_ = loop_.now();
    EventKind kind = EventKind::undecodable;
    switch (event.type) {
        case kube::WatchEvent::Type::added: kind = EventKind::added; break;
        case kube::WatchEvent::Type::modified: kind = EventKind::modified; break;
        case kube::WatchEvent::Type::deleted: kind = EventKind::deleted; break;
        case kube::WatchEvent::Type::bookmark:
            kind = event.initial_events_end ? EventKind::initial_end : EventKind::bookmark;
            break;
        case kube::WatchEvent::Type::undecodable: break;
    }
    Step step = fsm_.on_watch_event(loop_.now(), kind, event.resource_version);
    if (kind == EventKind::undecodable) {
        on_unreadable(step,
                      {.head = std::exchange(event.object, nullptr),
                       .resource_version = event.resource_version,
                       .why = std::move(event.error.message)});
    }
    take(std::move(step), std::move(event.object), kind, event.resource_version);
}

// Moves the data as the reflector said, then performs what it wants next. A subscriber may end
// everything in between.
void Informer::take(Step step, ObjectPtr object, EventKind kind, std::string_view version) {
    const auto self = shared_from_this();
    switch (step.verdict) {
        case Verdict::ignore: break;
        case Verdict::collect:
            if (object) {
                shadow_.push_back(std::move(object));
            }
            break;
        case Verdict::commit: commit(step); break;
        case Verdict::apply:
            if (!object) {
                view_->store.advance(version);
            } else if (kind == EventKind::deleted) {
                deliver(view_->store.apply_remove(std::move(object)));
            } else {
                deliver(view_->store.apply_upsert(std::move(object)));
            }
            if (!wrong_.empty()) {
                wrong_ = view_->store.unreadable_text();
            }
            break;
    }
    perform(std::move(step.action));
}

void Informer::commit(const Step& step) {
    std::vector<Event> events = view_->store.replace(std::exchange(shadow_, {}),
                                                     fsm_.resource_version(),
                                                     step.reset,
                                                     std::exchange(unreadable_, {}));
    wrong_ = view_->store.unreadable_text();
    if (step.first) {
        for (Event& event : events) {
            event.initial = true;
        }
    }
    view_->synced = true;
    deliver(events);
    for (const auto& [id, subscription] : subscriptions_) {
        subscription->delivered = subscription->active;
    }
}

void Informer::deliver(const std::vector<Event>& events) {
    if (events.empty() || subscriptions_.empty()) {
        return;
    }
    // Handles come and go inside callbacks; who is gone gets nothing more, who is new gets a replay
    // of its own.
    std::vector<std::pair<std::uint64_t, std::shared_ptr<Subscription>>> receivers;
    for (const auto& [id, subscription] : subscriptions_) {
        if (subscription->active && subscription->on_event) {
            receivers.emplace_back(id, subscription);
        }
    }
    for (const Event& event : events) {
        for (const auto& [id, subscription] : receivers) {
            if (subscriptions_.contains(id)) {
                subscription->on_event(event);
            }
        }
    }
}

std::uint64_t Informer::subscribe(Subscriber on_event, StateChanged on_state) {
    const std::uint64_t id = ++sequence_;
    subscriptions_[id] =
        std::make_shared<Subscription>(Subscription{std::move(on_event), std::move(on_state)});
    loop_.post([weak = weak_from_this(), id] {
        if (const auto self = weak.lock()) {
            self->activate(id);
        }
    });
    return id;
}

void Informer::activate(std::uint64_t id) {
    const auto found = subscriptions_.find(id);
    if (found == subscriptions_.end()) {
        return;
    }
    const std::shared_ptr<Subscription> subscription = found->second;
    subscription->active = true;
    if (subscription->on_event) {
        for (const ObjectPtr& object : view_->store.watched()) {
            subscription->on_event(
                {.type = EventType::create, .new_object = object, .initial = true});
            if (!subscriptions_.contains(id)) {
                return;
            }
        }
    }
    subscription->delivered = fsm_.synced();
    if (subscription->on_state) {
        subscription->on_state(state());
    }
}

void Informer::unsubscribe(std::uint64_t id) {
    subscriptions_.erase(id);
}

bool Informer::delivered(std::uint64_t id) const {
    const auto found = subscriptions_.find(id);
    return found != subscriptions_.end() && found->second->delivered;
}

// One timer, moved only when it would come too late: deadlines move with every byte of a stream.
void Informer::server_back() {
    if (running_ && fsm_.on_server_back(loop_.now())) {
        rearm();
    }
}

void Informer::rearm() {
    const MonotonicTime deadline = fsm_.deadline();
    if (!running_ || deadline == kNever || (timer_ && timer_at_ <= deadline)) {
        return;
    }
    timer_at_ = deadline;
    timer_ = loop_.at(deadline, [weak = weak_from_this()] {
        const auto self = weak.lock();
        if (!self) {
            return;
        }
        const auto fired = std::move(self->timer_);
        Action action = self->fsm_.on_timer(self->loop_.now());
        if (self->watching_ && action.kind != Action::Kind::keep) {
            self->note_end("silent");
        }
        self->perform(std::move(action));
    });
}

void Informer::note_end(std::string_view reason) {
    watching_ = false;
    if (running_ && observer_ != nullptr) {
        observer_->watch_ended(view_->spec, reason);
    }
}

std::string Informer::reason() const {
    if (!fsm_.trouble()) {
        return !fsm_.synced()   ? view_->spec.gvk.kind + ": not listed yet"
               : wrong_.empty() ? ""
                                : view_->spec.gvk.kind + ": " + wrong_;
    }
    const Error& error = *fsm_.trouble();
    std::string text = view_->spec.gvk.kind + ": ";
    if (error.code == Code::forbidden) {
        text += kube::refusal_text(
            error,
            std::string(verb_) + " " + group_resource_ +
                (view_->spec.ns.empty() ? "" : " in namespace " + view_->spec.ns));
    } else {
        text += std::string(capstan::to_string(error.code)) + ": " + error.message;
    }
    return text;
}

WatchState Informer::state() const {
    WatchState state;
    switch (fsm_.phase()) {
        case Phase::idle:
        case Phase::syncing: state.state = SyncState::pending; break;
        case Phase::live: state.state = SyncState::live; break;
        case Phase::degraded: state.state = SyncState::degraded; break;
    }
    if (state.state == SyncState::live && !wrong_.empty()) {
        state.state = SyncState::degraded;
    }
    state.synced = fsm_.synced();
    state.reason = state.state == SyncState::live ? "" : reason();
    state.objects = view_->store.size();
    state.bytes = view_->store.bytes();
    state.resource_version = view_->store.resource_version();
    state.last_event = last_event_;
    state.last_bytes = last_bytes_;
    return state;
}

void Informer::tell_state() {
    if (!running_) {
        return;
    }
    const bool trouble = fsm_.phase() != Phase::live || !wrong_.empty();
    std::string now = std::to_string(static_cast<int>(fsm_.phase())) + (fsm_.synced() ? "+" : "-") +
                      (trouble ? reason() : "");
    if (now == told_) {
        return;
    }
    told_ = std::move(now);
    const auto self = shared_from_this();
    const WatchState present = state();
    const auto receivers = subscriptions_;
    for (const auto& [id, subscription] : receivers) {
        if (subscription->active && subscription->on_state && subscriptions_.contains(id)) {
            subscription->on_state(present);
        }
    }
}

}  // namespace capstan::cache
