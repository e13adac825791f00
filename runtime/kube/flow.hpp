// How many requests may be under way to one API server, and since when none may be sent.
//
// There is no rate of our own: the server's fairness decides, and we obey its answers. For each
// class of requests a limit grows slowly while answers are quick and is halved when the server is
// overloaded (additive increase, multiplicative decrease); 429, and 503 with Retry-After, pause the
// whole class for the time asked for, ±20 %, but at most kPauseAskedMax; longer when it goes on.
// The request itself waits its whole Retry-After (unary_call.cpp): what one object is told must not
// stop all others. After kFailuresInRow failures with no good answer between them each further one
// pauses the class a second. After a pause one request tries alone.
// Time is handed in. Thread: [io].
#pragma once

#include "capstan/clock.hpp"
#include "runtime/net/loop.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>

namespace capstan::kube {

enum class FlowClass : std::uint8_t { mutate, read, list };  // a watch lists until its head comes
inline constexpr std::size_t kFlowClasses = 3;

inline constexpr std::chrono::milliseconds kPauseFirst{1'000};     // when the server says nothing
inline constexpr std::chrono::milliseconds kPauseAskedMax{5'000};  // of a first one
inline constexpr std::chrono::milliseconds kPauseMax{30'000};      // of the last of many in a row
inline constexpr int kFailuresInRow = 10;
inline constexpr double kPauseJitter = 0.2;

struct FlowLimits {
    double first{16};
    double least{1};
    double most{32};
    // an answer slower than this and than ten usual ones is a sign of trouble
    std::chrono::nanoseconds slow{std::chrono::seconds(2)};
};

enum class FlowOutcome : std::uint8_t { good, overloaded, timeout, failed, dropped };

// One class: the decisions, no queue.
class FlowLimit {
public:
    using Random = std::function<double()>;  // [0, 1)
    FlowLimit(FlowLimits limits, Random random);

    bool admits(MonotonicTime now) const noexcept;
    MonotonicTime paused_until() const noexcept { return paused_until_; }
    std::size_t in_flight() const noexcept { return in_flight_; }
    double limit() const noexcept { return limit_; }

    void sent() noexcept { ++in_flight_; }
    // `sent_at`: of that request. `retry_after`: 0 when the server did not say.
    void ended(MonotonicTime now,
               MonotonicTime sent_at,
               FlowOutcome outcome,
               std::chrono::milliseconds retry_after);

private:
    void cut(MonotonicTime now, MonotonicTime sent_at, double factor);
    void note_failure(MonotonicTime now, MonotonicTime sent_at);
    void pause(MonotonicTime now, MonotonicTime sent_at, std::chrono::milliseconds retry_after);
    void grow(MonotonicTime took, bool was_full);

    const FlowLimits limits_;
    const Random random_;
    double limit_;
    std::size_t in_flight_{0};
    MonotonicTime paused_until_{0};
    MonotonicTime pause_set_{-1};  // requests sent before are old news
    MonotonicTime cut_at_{-1};
    bool alone_{false};  // after a pause, until an answer is good
    int pauses_{0};      // in a row
    int failures_{0};    // in a row
    MonotonicTime usual_{kNever};
};

// The place of one request: waits until it may be sent, is under way until ended. Destroying it
// gives the place back.
class FlowTicket {
public:
    virtual ~FlowTicket() = default;
    // Once, when the answer is here. Errors of the transport are `failed`.
    virtual void ended(FlowOutcome outcome, std::chrono::milliseconds retry_after) = 0;
};

class Flow {
public:
    Flow(net::Loop& loop, FlowLimit::Random random);
    ~Flow();  // no `go` is called after this; tickets may live on
    Flow(const Flow&) = delete;
    Flow& operator=(const Flow&) = delete;

    // `go` runs when the request may be sent, inside the call only if that is now; `*place` is set
    // before. In the order of asking.
    void enter(FlowClass which, std::unique_ptr<FlowTicket>& place, std::function<void()> go);
    const FlowLimit& limit(FlowClass which) const noexcept;

private:
    struct State;
    std::shared_ptr<State> state_;  // shared with tickets
};

}  // namespace capstan::kube
