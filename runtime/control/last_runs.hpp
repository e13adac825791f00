// What became of the last runs of a controller's keys, for the debug page: the newest
// kLastRunsMax keys. Internal to runtime/control. Thread: the owner locks.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/object_ref.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace capstan::control {

inline constexpr std::size_t kLastRunsMax = 512;         // per controller, ~200 bytes each
inline constexpr std::size_t kLastErrorBytesMax = 1024;  // longer ones are cut

struct LastRun {
    std::string_view result;  // static: "success", "error", "requeue", "requeue_after", "parked"
    std::string error;        // empty: none
    MonotonicTime at{0};
    std::chrono::nanoseconds took{0};
};

class LastRuns {
public:
    void note(const ObjectKey& key, LastRun run) {
        run.error.resize(std::min(run.error.size(), kLastErrorBytesMax));
        const auto found = places_.find(key);
        if (found != places_.end()) {
            found->second->second = std::move(run);
            runs_.splice(runs_.end(), runs_, found->second);
            return;
        }
        if (runs_.size() >= kLastRunsMax) {
            places_.erase(runs_.front().first);
            runs_.pop_front();
        }
        places_.emplace(key, runs_.insert(runs_.end(), {key, std::move(run)}));
    }
    // nullptr: not among the newest. Valid until the next note().
    const LastRun* find(const ObjectKey& key) const {
        const auto found = places_.find(key);
        return found == places_.end() ? nullptr : &found->second->second;
    }

private:
    std::list<std::pair<ObjectKey, LastRun>> runs_;  // oldest first
    std::unordered_map<ObjectKey, std::list<std::pair<ObjectKey, LastRun>>::iterator> places_;
};

}  // namespace capstan::control
