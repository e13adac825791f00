#include "test/model/model_watcher.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace capstan::model {
namespace {

constexpr std::size_t kPageObjects = 6;

std::uint64_t number(const std::string& text) {
    std::uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

// As kube/status.cpp words it.
Error too_large_version() {
    return {Code::timeout, "too large resource version: 504 Timeout", {}};
}

}  // namespace

ModelWatcher::ModelWatcher(test::VirtualLoop& loop,
                           RandomServer& server,
                           Random& random,
                           Listener listener)
    : loop_(loop),
      server_(server),
      random_(random),
      listener_(std::move(listener)),
      fsm_({.watch_list = random() % 2 == 0},
           [&random] { return static_cast<double>(random() >> 11) * 0x1p-53; }),
      store_(loop) {
    perform(fsm_.start(loop_.now()));
}

Error ModelWatcher::random_error() {
    constexpr Code kCodes[] = {Code::unavailable,
                               Code::unavailable,
                               Code::timeout,
                               Code::forbidden,
                               Code::expired,
                               Code::not_found};
    if (pick(6) == 0) {
        return {Code::overloaded, "slow down", std::chrono::seconds(1 + pick(3))};
    }
    return {kCodes[pick(6)], "made up", {}};
}

// asked "": a consistent read; else not older than that. A lagging replica breaks both rules.
Snapshot ModelWatcher::snapshot_for(const std::string& asked) {
    if (unlucky(12)) {
        return server_.any_past();
    }
    if (!asked.empty()) {
        const Snapshot& past = server_.any_past();
        if (past.rv >= number(asked)) {
            return past;
        }
    }
    return server_.now();
}

void ModelWatcher::perform(cache::Action action) {
    if (action.new_shadow) {
        shadow_ = {};
    }
    if (action.kind != cache::Action::Kind::keep) {
        check_.clear();
    }
    switch (action.kind) {
        case cache::Action::Kind::keep:
            if (action.check) {
                check_ = std::move(action.resource_version);
            }
            return;
        case cache::Action::Kind::wait:
            call_ = {};
            shadow_ = {};
            return;
        case cache::Action::Kind::list: {
            // A continue token names the state the first page was read from.
            Snapshot snapshot;
            std::size_t next = 0;
            bool begun = false;
            if (!action.continue_token.empty()) {
                snapshot = std::move(call_.snapshot);
                next = call_.next;
                begun = true;
            }
            call_ = {};
            call_.kind = Call::Kind::list;
            call_.snapshot = std::move(snapshot);
            call_.next = next;
            call_.begun = begun;
            break;
        }
        case cache::Action::Kind::watch:
            call_ = {};
            call_.kind = Call::Kind::watch;
            break;
    }
    call_.action = std::move(action);
}

void ModelWatcher::take(cache::Step step,
                        ObjectPtr object,
                        cache::EventKind kind,
                        std::uint64_t rv) {
    switch (step.verdict) {
        case cache::Verdict::ignore: break;
        case cache::Verdict::collect:
            if (object) {
                shadow_.push_back(std::move(object));
            }
            break;
        case cache::Verdict::commit: {
            const std::string version = fsm_.resource_version();
            listener_.before_commit({step.reset, number(version)});
            listener_.on_events(store_.replace(std::exchange(shadow_, {}), version, step.reset),
                                step.first);
            break;
        }
        case cache::Verdict::apply:
            if (kind == cache::EventKind::undecodable) {
                store_.advance("");  // nothing is known of it
            } else if (!object) {
                store_.advance(std::to_string(rv));
            } else if (kind == cache::EventKind::deleted) {
                listener_.on_events(store_.apply_remove(std::move(object)), false);
            } else {
                listener_.on_events(store_.apply_upsert(std::move(object)), false);
            }
            break;
    }
    perform(std::move(step.action));
}

// Answered at the next step: the watch may come first.
void ModelWatcher::answer_check() {
    const std::string version = std::exchange(check_, {});
    if (unlucky(10)) {
        perform(fsm_.on_checked(loop_.now(), fail(random_error())));
    } else if (number(version) > server_.now().rv) {
        perform(fsm_.on_checked(loop_.now(), fail(too_large_version())));
    } else {
        perform(fsm_.on_checked(loop_.now(), !unlucky(50)));  // or another server's, it seems
    }
}

void ModelWatcher::progress() {
    if (!check_.empty() && (calm_ || pick(2) == 0)) {
        answer_check();
        return;
    }
    switch (call_.kind) {
        case Call::Kind::none: break;
        case Call::Kind::list: list_page(); break;
        case Call::Kind::watch:
            if (!call_.begun) {
                open_watch();
            } else if (call_.initial) {
                initial_event();
            } else {
                next_event();
            }
            break;
    }
}

void ModelWatcher::list_page() {
    const MonotonicTime now = loop_.now();
    if (unlucky(25)) {
        perform(fsm_.on_list_error(now, random_error()));
        return;
    }
    if (!call_.begun) {
        const std::string& asked = call_.action.resource_version;
        if (!asked.empty() && number(asked) > server_.now().rv) {
            perform(fsm_.on_list_error(now, too_large_version()));
            return;
        }
        call_.snapshot = snapshot_for(asked);
        call_.begun = true;
    }
    const std::size_t end = std::min(call_.next + kPageObjects, kNames);
    for (; call_.next < end; ++call_.next) {
        if (const ObjectPtr& object = call_.snapshot.objects[call_.next]) {
            shadow_.push_back(object);
        }
    }
    const std::uint64_t rv = call_.snapshot.rv;
    const bool more = call_.next < kNames;
    take(fsm_.on_page(now, std::to_string(rv), more ? "more" : ""),
         nullptr,
         cache::EventKind::initial_end,
         rv);
}

void ModelWatcher::open_watch() {
    const MonotonicTime now = loop_.now();
    const std::string asked = call_.action.resource_version;
    const std::uint64_t from = number(asked);
    if (unlucky(25)) {
        const bool no_streaming_lists = call_.action.send_initial_events && pick(4) == 0;
        end(fail(no_streaming_lists ? Error{Code::invalid, "sendInitialEvents", {}}
                                    : random_error()));
        return;
    }
    const bool later = !asked.empty() && from > server_.now().rv;
    if (later && (call_.action.send_initial_events || calm_ || pick(2) == 0)) {
        end(fail(too_large_version()));
        return;
    }
    if (!call_.action.send_initial_events && !server_.has_events_after(from)) {
        end(fail(Error{Code::expired, "too old resource version", {}}));
        return;
    }
    call_.begun = true;
    call_.silent = later;
    call_.initial = call_.action.send_initial_events;
    if (call_.initial) {
        call_.snapshot = snapshot_for(asked);
    } else {
        call_.event = server_.first_event_after(from);
        if (!calm_) {  // a resumed stream may show the last events again
            const std::uint64_t again = std::min(call_.event - server_.begin_of_events(), pick(4));
            call_.event -= pick(3) == 0 ? again : 0;
        }
    }
    perform(fsm_.on_watch_open(now));
}

void ModelWatcher::initial_event() {
    const MonotonicTime now = loop_.now();
    fsm_.on_watch_bytes(now);
    while (call_.next < kNames && !call_.snapshot.objects[call_.next]) {
        ++call_.next;
    }
    if (call_.next < kNames) {
        const ObjectPtr object = call_.snapshot.objects[call_.next++];
        take(fsm_.on_watch_event(now, cache::EventKind::added, object->resource_version()),
             object,
             cache::EventKind::added,
             version_of(object));
        return;
    }
    const std::uint64_t rv = call_.snapshot.rv;
    call_.initial = false;
    call_.event = server_.first_event_after(rv);
    const bool gone = !server_.has_events_after(rv);
    take(fsm_.on_watch_event(now, cache::EventKind::initial_end, std::to_string(rv)),
         nullptr,
         cache::EventKind::initial_end,
         rv);
    if (gone && call_.kind == Call::Kind::watch && call_.begun) {
        end(fail(Error{Code::expired, "too old resource version", {}}));
    }
}

void ModelWatcher::next_event() {
    const MonotonicTime now = loop_.now();
    if (call_.silent) {
        if (calm_) {
            end(ok());
        }
        return;
    }
    fsm_.on_watch_bytes(now);
    if (unlucky(200)) {
        take(fsm_.on_watch_event(now, cache::EventKind::undecodable, ""),
             nullptr,
             cache::EventKind::undecodable,
             0);
        return;
    }
    if (call_.event < server_.end_of_events()) {
        const Change* change = server_.event(call_.event++);
        if (change == nullptr) {  // a slow reader: the server has dropped what it did not read
            end(fail(Error{Code::expired, "too old resource version", {}}));
            return;
        }
        const Change event = *change;
        const auto kind = event.removed ? cache::EventKind::deleted : cache::EventKind::modified;
        take(
            fsm_.on_watch_event(now, kind, std::to_string(event.rv)), event.object, kind, event.rv);
        return;
    }
    if (!unlucky(2)) {  // else: the bookmark is lost
        const std::uint64_t rv = server_.now().rv;
        take(fsm_.on_watch_event(now, cache::EventKind::bookmark, std::to_string(rv)),
             nullptr,
             cache::EventKind::bookmark,
             rv);
    }
}

void ModelWatcher::end(const Result<void>& result) {
    perform(fsm_.on_watch_end(loop_.now(), result));
}

void ModelWatcher::break_off() {
    if (call_.kind == Call::Kind::list) {
        perform(fsm_.on_list_error(loop_.now(), random_error()));
    } else if (call_.kind == Call::Kind::watch) {
        end(pick(3) == 0 ? Result<void>(ok()) : Result<void>(fail(random_error())));
    }
}

void ModelWatcher::time_moved() {
    if (fsm_.deadline() <= loop_.now()) {
        perform(fsm_.on_timer(loop_.now()));
    }
}

bool ModelWatcher::idle() const {
    if (!check_.empty()) {
        return false;
    }
    return call_.kind == Call::Kind::none || live();
}

bool ModelWatcher::live() const {
    return call_.kind == Call::Kind::watch && call_.begun && !call_.initial && !call_.silent &&
           call_.event == server_.end_of_events();
}

}  // namespace capstan::model
