// Recent changes per resource, and the watches that follow them.
//
// History is bounded by events and age; whatever fell out makes older versions "expired". A
// watch has a position (the last version it has seen) and is fed inside publish() and
// tick(). Thread: the server's.
#pragma once

#include "runtime/local/apiserver/api_types.hpp"
#include "runtime/local/apiserver/render.hpp"
#include "runtime/local/apiserver/selectors.hpp"
#include "runtime/local/apiserver/store.hpp"

#include "capstan/clock.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace capstan::local {

// a last bookmark this long before a watch's deadline
inline constexpr std::chrono::seconds kBookmarkBeforeEnd{2};

// Which objects of a resource a list or a watch wants.
struct Selection {
    std::string ns;  // empty: all namespaces
    LabelSelector labels;
    FieldSelector fields;

    bool key_matches(std::string_view key) const;
    bool matches(std::string_view key, const json::Value& object) const;
    bool everything() const noexcept { return labels.empty() && fields.empty(); }
};

struct WatchOptions {
    KindPtr kind;
    Selection selection;
    Representation as{Representation::full};
    IncludeObject include{IncludeObject::metadata};
    bool bookmarks{false};
    MonotonicTime deadline{kNever};
};

struct HistoryEvent {
    Change change;
    MonotonicTime at{0};
};

class WatchHub {
public:
    struct Limits {
        std::size_t events_max{4096};
        std::chrono::nanoseconds age_max{std::chrono::seconds(300)};
    };
    WatchHub(const Clock& clock, Limits limits) : clock_(clock), limits_(limits) {}
    ~WatchHub();  // ends every watch

    // `floor`: the version the process started with; nothing before it is known.
    void set_floor(std::uint64_t revision) { floor_ = revision; }

    void publish(const std::vector<Change>& changes);
    void tick(std::uint64_t revision);  // bookmarks, deadlines, ageing
    MonotonicTime next_tick() const;
    void compact(std::uint64_t revision);

    // Oldest version of `storage` a watch or an exact list can start from.
    std::uint64_t oldest(std::string_view storage) const;
    // State of each key changed after `revision`, as it was then (null: absent).
    // Requires revision >= oldest.
    std::map<std::string, StoredPtr, std::less<>> undo(std::string_view storage,
                                                       std::uint64_t revision) const;

    // Registers a watch at position `from`; events after it that are in history are sent at once.
    // `bookmark_from`: bookmarks say versions above it. Requires from >= oldest.
    std::unique_ptr<WatchHandle> add(WatchOptions options, WatchSink sink, std::uint64_t from);
    std::size_t watches() const noexcept { return watches_.size(); }

    // Ends the watches of a resource that is no longer served.
    void end_all(std::string_view storage);

    std::string event_line(std::string_view type,
                           const Stored& object,
                           const WatchOptions& options) const;
    std::string bookmark_line(const WatchOptions& options,
                              std::uint64_t revision,
                              bool initial_end) const;

private:
    struct Watch;
    class Handle;
    void feed(Watch& watch, const Change& change) const;
    void end(Watch& watch);
    void reap();

    const Clock& clock_;
    Limits limits_;
    std::uint64_t floor_{0};
    std::map<std::string, std::deque<HistoryEvent>, std::less<>> history_;
    std::map<std::string, std::uint64_t, std::less<>> oldest_;
    // shared: the handle marks it closed from inside a sink
    std::vector<std::shared_ptr<Watch>> watches_;
};

}  // namespace capstan::local
