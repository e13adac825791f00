// Who leads: the decisions of leader election by a Lease (coordination.k8s.io/v1). No I/O, no
// clock.
//
// The driver performs the one step last returned: waits until `until`, or sends the request and
// gives it up at `until`. A step replaces the one before it: its request is dropped. Expiry is
// judged by the local monotonic clock alone, from the moment the record was last seen to change;
// the times in the record are for people and are never read as times. So wall clocks that differ or
// jump do not matter; clocks of different speed are borne up to lease duration / renew deadline. A
// holder once seen keeps its time when somebody else deletes, empties or shortens the Lease; only a
// release (no holder, 1 s) ends it early. What others put into the Lease (strategy,
// preferredHolder, labels) is written back as it was read. Source: client-go tools/leaderelection,
// with three differences: the one just said, a renewal counts from its sending, and a standby looks
// more often and at the very moment of expiry. Thread: [io].
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace capstan::lease {

// Longest time between two looks of a standby at a lease somebody else holds.
inline constexpr std::chrono::milliseconds kStandbyLookMax{1000};
// The fence ends this part of the lease duration early: 1.5 s of 15 s.
inline constexpr int kFenceMarginShare = 10;
// After a failure a standby waits retry period x [1, 1 + this), as client-go.
inline constexpr double kRetryJitter = 1.2;
inline constexpr std::chrono::seconds kRequestTimeoutMin{1};

struct LeaderOptions {
    std::string ns, name;  // of the Lease
    std::string identity;  // unique per start of a process
    // Requires: lease_duration > renew_deadline > 1.2 x retry_period > 0.
    std::chrono::nanoseconds lease_duration{std::chrono::seconds(15)};
    std::chrono::nanoseconds renew_deadline{std::chrono::seconds(10)};
    std::chrono::nanoseconds retry_period{std::chrono::seconds(2)};
};

struct Moment {
    MonotonicTime now;
    WallTime wall;  // written into the record, nothing else
};

enum class Role : std::uint8_t {
    standby,
    leading,
    lost,      // led, and must not write any more; final
    released,  // gave the lease back, or tried to; final
};

struct Step {
    enum class Kind : std::uint8_t { wait, get, create, update, end };
    Kind kind{Kind::wait};
    MonotonicTime until{kNever};  // wait: its end; a request: its time-out
    json::Value lease;            // create, update: the whole object
};

class LeaderFsm {
public:
    using Random = std::function<double()>;  // [0, 1)

    LeaderFsm(LeaderOptions options, Random random);

    Step start(Moment at);
    Step on_timer(Moment at);  // a wait has ended
    // The object, or why there is none: not_found, conflict or exists, any other.
    Step on_answer(Moment at, Result<json::Value> lease);
    // Gives the lease back. Requires: what may write has ended. Works on while it can, then
    // returns `end`.
    Step release(Moment at);

    Role role() const noexcept { return role_; }
    // Until when writes may be under way. Meaningful while leading.
    MonotonicTime fence_until() const noexcept { return fence_until_; }
    // As last seen; "" when nobody holds it.
    const std::string& holder() const noexcept { return holder_; }
    bool seen() const noexcept { return seen_; }  // the server has answered at least once
    // Of the last request that failed; nullopt after one that did not. Released: why the lease was
    // not given back.
    const std::optional<Error>& trouble() const noexcept { return trouble_; }
    // One sentence; "" unless lost.
    const std::string& loss() const noexcept { return loss_; }
    std::uint64_t slow_paths() const noexcept { return slow_paths_; }
    const LeaderOptions& options() const noexcept { return options_; }

private:
    enum class Doing : std::uint8_t {
        nothing,
        reading,
        creating,
        updating_fast,
        updating,
        reading_to_release,
        releasing,
    };

    std::chrono::nanoseconds margin() const noexcept {
        return options_.lease_duration / kFenceMarginShare;
    }
    void respect();
    bool stands_back(MonotonicTime now) const noexcept {
        return role_ != Role::leading && now < held_until_;
    }
    MonotonicTime give_up_at() const noexcept;
    bool is_mine() const noexcept { return holder_ == options_.identity; }
    Step attempt(Moment at);
    Step ask(Moment at, Doing what, Step::Kind kind, json::Value lease = {});
    Step wait(MonotonicTime until);
    Step end();
    Step lose(std::string why);
    Step failed(Moment at, Error error);
    Step took(Moment at, json::Value lease);
    Step read(Moment at, json::Value lease);
    Step released(std::optional<Error> error);
    Step release_answer(Moment at, Doing was, Result<json::Value> lease);
    void observe(MonotonicTime at, json::Value lease);
    std::chrono::nanoseconds look() const;
    json::Value record(Moment at) const;
    std::string where() const { return options_.ns + "/" + options_.name; }

    const LeaderOptions options_;
    const Random random_;
    Role role_{Role::standby};
    Doing doing_{Doing::nothing};
    MonotonicTime asked_at_{0};  // of the request under way

    // As last observed:
    bool seen_{false};
    json::Value lease_;  // null: none
    std::string spec_;   // its text
    std::string holder_;
    std::string renewal_;               // its renewTime
    MonotonicTime observed_at_{0};      // when spec_ last changed
    MonotonicTime seen_held_at_{0};     // last look at which somebody else held it
    std::chrono::nanoseconds term_{0};  // that one's
    MonotonicTime held_until_{0};       // until then it may write, whatever is there now

    MonotonicTime renewed_at_{0};  // sending of the last renewal that succeeded
    MonotonicTime fence_until_{0};
    MonotonicTime release_until_{kNever};
    std::uint64_t slow_paths_{0};
    std::optional<Error> trouble_;
    std::string loss_;
};

}  // namespace capstan::lease
