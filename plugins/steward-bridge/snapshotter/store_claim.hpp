// Keeps a prefix for one Etcd: held while its steward stores, asked for when it is another's.
//
// Who finds another Etcd there asks, by a word in the object; a steward that stores looks at it
// every kOwnerLook and wipes the question away. So whether somebody lives is told without clocks,
// and nothing is written while nobody asks. Who stays silent is succeeded: a namesake soon, as an
// Etcd created again has another uid; a stranger late. Errors: conflict (another's: says whose, and
// the remedy); those of the store. Thread: one.
#pragma once

#include "plugins/steward-bridge/snapshot/owner.hpp"
#include "plugins/steward-bridge/store/store.hpp"
#include "plugins/steward-bridge/store/transport.hpp"

#include "capstan/clock.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace capstan::steward {

inline constexpr std::chrono::seconds kOwnerLook{20};
inline constexpr std::chrono::minutes kNamesakePatience{2};
inline constexpr std::chrono::hours kStrangerPatience{24};
// After an answer; each question leaves two versions where the bucket keeps them.
inline constexpr std::chrono::minutes kAskAgain{10};

class StoreClaim {
public:
    struct Parts {
        ObjectStore& store;
        Pace& pace;
        std::string prefix;   // of the store, without the layout
        PrefixOwner me;       // `since` and `asks` are not looked at
        std::string process;  // tells who asks from everybody else
    };
    explicit StoreClaim(Parts parts) : parts_(std::move(parts)), key_(owner_key(parts_.prefix)) {}

    // A time above those of all that is stored; asked when the prefix is taken over.
    using After = std::function<Result<WallTime>()>;
    // What was created before the time it gives is of another Etcd.
    Result<WallTime> acquire(MonotonicTime now, const After& after);
    // Looks, at most every kOwnerLook, and answers who asks.
    Result<void> keep(MonotonicTime now);
    Result<void> still_ours();  // looks now
    // The last of these found another Etcd.
    bool refused() const noexcept { return refused_; }
    bool held() const noexcept { return held_; }  // acquired, and not lost since

private:
    struct Seen {
        PrefixOwner owner;
        std::string etag;
    };
    Result<std::optional<Seen>> read();
    Result<void> write_anew();
    PrefixOwner mine() const;
    Result<void> adopt(const Seen& seen);
    Result<WallTime> succeed(const Seen& seen, MonotonicTime now, const After& after);
    Error conflict(const PrefixOwner& other, std::string_view state) const;

    const Parts parts_;
    const std::string key_;
    WallTime since_{};
    std::string etag_;
    MonotonicTime next_look_{};
    std::string asked_etag_;  // of the question of ours
    MonotonicTime asked_at_{};
    bool refused_{false}, held_{false};
};

}  // namespace capstan::steward
