#include "runtime/local/apiserver/watch_hub.hpp"

#include <algorithm>

namespace capstan::local {

struct WatchHub::Watch {
    WatchOptions options;
    WatchSink sink;
    std::uint64_t seen{0};  // versions up to this are delivered or do not concern it
    std::uint64_t said{0};  // last version sent, in an event or a bookmark
    MonotonicTime next_bookmark{kNever};
    bool last_bookmark_sent{false};
    bool closed{false};
};

class WatchHub::Handle : public WatchHandle {
public:
    explicit Handle(std::shared_ptr<Watch> watch) : watch_(std::move(watch)) {}
    ~Handle() override { watch_->closed = true; }  // reaped by the hub, which may be gone by then

private:
    std::shared_ptr<Watch> watch_;
};

namespace {

constexpr std::chrono::nanoseconds kBookmarkEvery = std::chrono::seconds(60);

MonotonicTime last_bookmark_at(MonotonicTime deadline) {
    return deadline == kNever ? kNever : deadline - kBookmarkBeforeEnd;
}

}  // namespace

bool Selection::key_matches(std::string_view key) const {
    return ns.empty() || (key.size() > ns.size() && key.starts_with(ns) && key[ns.size()] == '/');
}

bool Selection::matches(std::string_view key, const json::Value& object) const {
    return key_matches(key) && labels.matches(object) && fields.matches(object);
}

WatchHub::~WatchHub() {
    for (const auto& watch : watches_) {
        end(*watch);
    }
}

void WatchHub::publish(const std::vector<Change>& changes) {
    const MonotonicTime now = clock_.now();
    for (const Change& change : changes) {
        std::deque<HistoryEvent>& events = history_[change.resource];
        events.push_back({change, now});
        while (events.size() > limits_.events_max) {
            oldest_[change.resource] = events.front().change.revision;
            events.pop_front();
        }
        // By index: a sink may open no watch, but may close its own.
        for (std::size_t i = 0; i < watches_.size(); ++i) {
            Watch& watch = *watches_[i];
            if (!watch.closed && watch.options.kind->storage == change.resource) {
                feed(watch, change);
            }
        }
    }
    reap();
}

void WatchHub::feed(Watch& watch, const Change& change) const {
    if (change.revision <= watch.seen) {
        return;
    }
    watch.seen = change.revision;
    const Selection& selection = watch.options.selection;
    if (!selection.key_matches(change.key)) {
        return;
    }
    const bool plain = selection.everything();
    const bool was =
        change.before && (plain || selection.matches(change.key, change.before->value));
    const bool is = change.after && (plain || selection.matches(change.key, change.after->value));
    if (!was && !is) {
        return;
    }
    std::string line;
    if (is) {
        line = event_line(was ? "MODIFIED" : "ADDED", *change.after, watch.options);
    } else if (change.tombstone) {
        line = event_line("DELETED", *change.tombstone, watch.options);
    } else {
        // It left the selection: the last state that matched, with the version of the change.
        json::Value last = change.before->value;
        last["metadata"].set("resourceVersion", std::to_string(change.revision));
        line = event_line("DELETED", *make_stored(std::move(last), change.revision), watch.options);
    }
    watch.said = change.revision;
    watch.sink.on_lines(line);
}

std::string WatchHub::event_line(std::string_view type,
                                 const Stored& object,
                                 const WatchOptions& options) const {
    std::string line = "{\"type\":\"";
    line += type;
    line += "\",\"object\":";
    line += render_object(object, *options.kind, {options.as, options.include, clock_.wall_now()});
    line += "}\n";
    return line;
}

std::string WatchHub::bookmark_line(const WatchOptions& options,
                                    std::uint64_t revision,
                                    bool initial_end) const {
    json::Value metadata = {{"resourceVersion", std::to_string(revision)},
                            {"creationTimestamp", nullptr}};
    if (initial_end) {
        metadata.set("annotations", {{"k8s.io/initial-events-end", "true"}});
    }
    const bool partial = options.as == Representation::metadata;
    json::Value object = {
        {"kind", partial ? "PartialObjectMetadata" : options.kind->gvk.kind},
        {"apiVersion", partial ? "meta.k8s.io/v1" : options.kind->gvk.api_version()},
        {"metadata", metadata},
    };
    if (options.as == Representation::table) {
        // kubectl reads the version from the one row's object.
        object = {{"kind", "Table"},
                  {"apiVersion", "meta.k8s.io/v1"},
                  {"metadata", {{"resourceVersion", std::to_string(revision)}}},
                  {"columnDefinitions", nullptr},
                  {"rows",
                   json::list({{{"cells", json::list()},
                                {"object",
                                 {{"kind", "PartialObjectMetadata"},
                                  {"apiVersion", "meta.k8s.io/v1"},
                                  {"metadata", metadata}}}}})}};
    }
    return json::dump(json::Value{{"type", "BOOKMARK"}, {"object", std::move(object)}}) + "\n";
}

std::uint64_t WatchHub::oldest(std::string_view storage) const {
    const auto found = oldest_.find(storage);
    return found == oldest_.end() ? floor_ : std::max(floor_, found->second);
}

std::map<std::string, StoredPtr, std::less<>> WatchHub::undo(std::string_view storage,
                                                             std::uint64_t revision) const {
    std::map<std::string, StoredPtr, std::less<>> states;
    const auto found = history_.find(storage);
    if (found == history_.end()) {
        return states;
    }
    for (const HistoryEvent& event : found->second) {
        if (event.change.revision > revision) {
            // the first change after it knows the state
            states.emplace(event.change.key, event.change.before);
        }
    }
    return states;
}

std::unique_ptr<WatchHandle> WatchHub::add(WatchOptions options,
                                           WatchSink sink,
                                           std::uint64_t from) {
    auto watch = std::make_shared<Watch>();
    watch->options = std::move(options);
    watch->sink = std::move(sink);
    watch->seen = from;
    watch->said = from;
    if (watch->options.bookmarks) {
        watch->next_bookmark = clock_.now() + kBookmarkEvery;
    }
    watches_.push_back(watch);
    auto handle = std::make_unique<Handle>(watch);
    const auto found = history_.find(watch->options.kind->storage);
    if (found != history_.end()) {
        for (const HistoryEvent& event : found->second) {
            if (!watch->closed) {
                feed(*watch, event.change);
            }
        }
    }
    return handle;
}

void WatchHub::end(Watch& watch) {
    if (!watch.closed) {
        watch.closed = true;
        if (watch.sink.on_end) {
            watch.sink.on_end();
        }
    }
}

void WatchHub::end_all(std::string_view storage) {
    for (std::size_t i = 0; i < watches_.size(); ++i) {
        if (watches_[i]->options.kind->storage == storage) {
            end(*watches_[i]);
        }
    }
    reap();
}

void WatchHub::reap() {
    std::erase_if(watches_, [](const std::shared_ptr<Watch>& watch) { return watch->closed; });
}

void WatchHub::tick(std::uint64_t revision) {
    const MonotonicTime now = clock_.now();
    for (std::size_t i = 0; i < watches_.size(); ++i) {
        Watch& watch = *watches_[i];
        if (watch.closed) {
            continue;
        }
        const bool at_end =
            !watch.last_bookmark_sent && now >= last_bookmark_at(watch.options.deadline);
        if (watch.options.bookmarks && (now >= watch.next_bookmark || at_end)) {
            watch.next_bookmark = now + kBookmarkEvery;
            watch.last_bookmark_sent = watch.last_bookmark_sent || at_end;
            if (revision > watch.said) {
                watch.said = revision;
                watch.seen = std::max(watch.seen, revision);
                watch.sink.on_lines(bookmark_line(watch.options, revision, false));
            }
        }
        if (!watch.closed && now >= watch.options.deadline) {
            end(watch);
        }
    }
    reap();
    for (auto& [storage, events] : history_) {
        while (!events.empty() && now - events.front().at > limits_.age_max) {
            oldest_[storage] = events.front().change.revision;
            events.pop_front();
        }
    }
}

MonotonicTime WatchHub::next_tick() const {
    MonotonicTime next = kNever;
    for (const auto& watch : watches_) {
        next = std::min(next, watch->options.deadline);
        if (watch->options.bookmarks) {
            next = std::min(next, watch->next_bookmark);
            if (!watch->last_bookmark_sent) {
                next = std::min(next, last_bookmark_at(watch->options.deadline));
            }
        }
    }
    for (const auto& [storage, events] : history_) {
        if (!events.empty()) {
            // In steps of a tenth of the age: nobody wakes up for each single event.
            next = std::min(next, events.front().at + limits_.age_max + limits_.age_max / 10);
        }
    }
    return next;
}

void WatchHub::compact(std::uint64_t revision) {
    floor_ = std::max(floor_, revision);
    history_.clear();
}

}  // namespace capstan::local
