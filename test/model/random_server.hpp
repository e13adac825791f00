// The API server of the model: a few objects, one counter of versions, a log that is compacted, and
// states of the past that a lagging replica still serves.
//
// Its lies: one kind, one namespace; writes are instant and never conflict. Thread: owning thread.
#pragma once

#include "runtime/kube/object.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <string>

namespace capstan::model {

using kube::ObjectPtr;
using Random = std::mt19937_64;

inline constexpr std::size_t kNames = 16;
inline constexpr std::size_t kPastMax = 6;
inline constexpr std::size_t kPastEvery = 24;  // writes between two states that are kept

inline std::uint64_t version_of(const ObjectPtr& object) {
    std::uint64_t version = 0;
    for (const char c : object->resource_version()) {
        version = version * 10 + static_cast<std::uint64_t>(c - '0');
    }
    return version;
}

struct Change {
    bool removed{false};
    ObjectPtr object;  // removed: the last state, with the version of the removal
    std::uint64_t rv{0};
};

struct Snapshot {
    std::uint64_t rv{1};
    std::array<ObjectPtr, kNames> objects;  // nullptr: not there
};

class RandomServer {
public:
    explicit RandomServer(Random& random);  // borrowed; outlives *this

    static const ObjectKey& key(std::size_t index);
    static std::size_t index_of(std::string_view name);  // requires: one of ours

    // Creates, changes or deletes one object. Returns the change.
    const Change& write(std::size_t index);
    // The data is set back to an older state, as by a restored backup. Until the client has noticed
    // nothing is written: a version is not given twice. False: there is no state older than `rv`.
    bool set_back(std::uint64_t rv);
    void noticed() { frozen_ = false; }
    bool frozen() const { return frozen_; }
    void compact() { compacted_ = now_.rv; }  // events up to now are gone

    const Snapshot& now() const { return now_; }
    // A state the server had, at most the present one.
    const Snapshot& any_past();
    bool has_events_after(std::uint64_t rv) const { return rv >= compacted_; }
    // Events are numbered from the beginning of time.
    std::uint64_t first_event_after(std::uint64_t rv) const;
    std::uint64_t end_of_events() const { return log_begin_ + log_.size(); }
    std::uint64_t begin_of_events() const { return log_begin_; }
    // nullptr: no longer there
    const Change* event(std::uint64_t number) const;

private:
    ObjectPtr fresh(std::size_t index, const std::string& uid);

    Random& random_;
    Snapshot now_;
    std::deque<Snapshot> past_;
    std::deque<Change> log_;
    std::uint64_t log_begin_{0};
    std::uint64_t compacted_{0};
    std::uint64_t uids_{0};
    std::size_t writes_{0};
    bool frozen_{false};
};

}  // namespace capstan::model
