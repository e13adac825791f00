// One member of a cluster at a time: the turn to stop answering for a while.
//
// An annotation on one Lease that every member of the cluster may patch, that of its first member
// by name:
//
//     capstan.dev/defragmenting: "main-1 2026-01-01T00:17:00Z"
//
// taken and given back with the Lease's resourceVersion as precondition, so two members never both
// have it. One that is not given back ends by its time, which is later than what it was taken for
// can last. Thread: the caller's, in its Call.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "capstan/object_ref.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace capstan {
class Call;
}

namespace capstan::steward {

inline constexpr std::string_view kTurnAnnotation = "capstan.dev/defragmenting";
inline constexpr int kTurnTriesMax = 5;  // the Lease is written every few seconds by its owner

struct TurnHolder {
    std::string member;
    WallTime until{};

    std::string text() const;
    // nullopt: nobody, or a text that is no holder
    static std::optional<TurnHolder> parse(std::string_view text);
};

// Errors: conflict (another member has it: who, until when; retry_after), or the API's.
Result<void> take_turn(Call& call,
                       const ObjectKey& lease,
                       const std::string& member,
                       std::chrono::nanoseconds at_most);
// Of another member: nothing happens.
Result<void> give_turn_back(Call& call, const ObjectKey& lease, const std::string& member);

}  // namespace capstan::steward
