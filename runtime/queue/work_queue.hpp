// Work queue: which key is reconciled next, and when.
//
// Holds keys, never objects, and never blocks: a caller takes what is due and asks next_due() how
// long to wait. A key is in one place only: ready, delayed, in flight or parked; adding a key that
// is in flight earns it exactly one more run.
//
// Order: priority first, with aging: one level is worth kAgingPeriod of waiting, so a low key is
// passed by normal ones for at most that long. Within a level first come, first served.
//
// Two kinds of delay, which events treat differently:
//  - a scheduled requeue (Finish::after, AddOptions::delay) is cut short by any earlier
//    add; the last Finish wins;
//  - an error back-off (Finish::failed: 5 ms doubled per failure in a row, to 1000 s, +-20 %) is
//    kept from events that come too soon: up to kFreeFailures failures an event runs the key at
//    once; beyond it, not before failed_at + a sixteenth of the back-off, at least 1 s and at most
//    60 s, and never before a floor the server gave. So a storm of events makes a failing key run
//    at most once a second, and a repaired object waits at most a minute.
// A parked key waits for an event of its object; periodic wake-ups do not run it.
// Source: client-go util/workqueue (dirty and processing sets), controller-runtime
// priorityqueue (merge rules).
// Thread: none of its own; the owner locks around every call. Time is handed
// in and never goes back.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "capstan/object_ref.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace capstan::queue {

inline constexpr std::size_t kKeysMax = 100'000;  // about 30 MiB
inline constexpr std::chrono::milliseconds kBackoffFirst{5};
inline constexpr std::chrono::seconds kBackoffMax{1000};
inline constexpr double kBackoffJitter = 0.2;  // of the delay, to both sides
inline constexpr std::uint32_t kFreeFailures = 3;
inline constexpr std::chrono::seconds kEventFloorMin{1};
inline constexpr std::chrono::seconds kEventFloorMax{60};
inline constexpr std::chrono::seconds kAgingPeriod{30};
inline constexpr std::chrono::hours kDelayMax{24};  // longer delays are cut to this
inline constexpr int kPriorityLow = -1;             // first lists and periodic wake-ups
inline constexpr int kPriorityNormal = 0;
inline constexpr int kPriorityMax = 8;  // clamped to both sides

// Why a key is queued; bits, they add up until it is taken.
enum class Reason : std::uint16_t {
    create = 1,
    update = 2,
    remove = 4,
    initial = 8,    // part of a first list
    external = 16,  // periodic, configuration, gates: does not wake a parked key
    plugin = 32,    // capstan.queue/1
    requeue = 64,   // the reconcile asked for it
    backoff = 128,  // the last run failed
    forced = 256,   // not suppressible: deletion with a finalizer, first event after a restart
};
std::string describe_reasons(std::uint16_t bits);  // "create,update"

struct AddOptions {
    Reason reason{Reason::update};
    int priority{kPriorityNormal};
    std::chrono::nanoseconds delay{0};  // 0: due now
};

// One key taken; in flight until done().
struct Item {
    ObjectKey key;
    std::uint32_t failures{0};  // in a row, before this run
    std::uint16_t reasons{0};   // Reason bits
    int priority{0};
    MonotonicTime due{0};  // when it became due
};

// What follows a run.
struct Finish {
    enum class Kind : std::uint8_t { forget, after, failed, parked, put_back };
    Kind kind{Kind::forget};
    std::chrono::nanoseconds delay{0};

    // failures 0
    static Finish forget() noexcept { return {}; }
    // failures 0, then again
    static Finish after(std::chrono::nanoseconds d) noexcept { return {Kind::after, d}; }
    static Finish failed(std::chrono::nanoseconds floor = {}) noexcept {
        return {Kind::failed, floor};
    }
    // failures 0
    static Finish parked() noexcept { return {Kind::parked, {}}; }
    // The key was not run after all: as it was, due again after `d`; adds do not bring it forward.
    static Finish put_back(std::chrono::nanoseconds d) noexcept { return {Kind::put_back, d}; }
};

// For the workqueue_* series; called inside the queue's functions, so under the
// owner's lock. Must be brief.
class Observer {
public:
    virtual ~Observer() = default;
    // workqueue_adds_total: a key became queued
    virtual void added() = 0;
    // workqueue_retries_total: a key was queued with a delay
    virtual void retried() = 0;
    virtual void depth(std::size_t ready) = 0;                // workqueue_depth
    virtual void taken(std::chrono::nanoseconds waited) = 0;  // workqueue_queue_duration_seconds
    virtual void finished(std::chrono::nanoseconds ran) = 0;  // workqueue_work_duration_seconds
};

struct Options {
    std::function<double()> random;  // [0, 1); required
    Observer* observer{nullptr};     // borrowed; may be nullptr
    std::size_t keys_max{kKeysMax};
};

class WorkQueue {
public:
    explicit WorkQueue(Options options);
    ~WorkQueue();
    WorkQueue(const WorkQueue&) = delete;
    WorkQueue& operator=(const WorkQueue&) = delete;

    // Schedules `key`. A waiting key keeps the earlier due time and the higher priority.
    // Errors: overloaded (keys_max reached, nothing added; an overflow is noted),
    // cancelled (after shut_down).
    Result<void> add(MonotonicTime now, const ObjectKey& key, const AddOptions& options = {});

    std::optional<Item> try_take(MonotonicTime now);  // nullopt: nothing is due, or shut down
    // When try_take would give a key: `now` or earlier means at once, kNever means not
    // before the next add or done.
    MonotonicTime next_due() const noexcept;
    // requires: key in flight
    void done(MonotonicTime now, const ObjectKey& key, const Finish& finish);

    void shut_down() noexcept;  // nothing is given out or added any more; done() stays allowed
    // True once after an add failed for lack of room and at least half of what parked keys leave is
    // free again: the owner adds all it knows.
    bool take_overflow() noexcept;

    struct Counts {
        std::size_t ready{0}, delayed{0}, in_flight{0}, parked{0};
    };
    Counts counts() const noexcept;
    // workqueue_unfinished_work_seconds (sum) and workqueue_longest_running_processor_seconds.
    struct Running {
        std::chrono::nanoseconds total{0}, longest{0};
    };
    Running running(MonotonicTime now) const;

    // How long the longest waiting ready key has been due; 0: none is. Quick, but for keys of
    // mixed priorities that became due within a few minutes of each other.
    std::chrono::nanoseconds oldest_ready(MonotonicTime now) const;

    // State of one key for a debug page and tests: "ready", "delayed", "backoff",
    // "in_flight", "parked", "" absent.
    struct Look {
        std::string state;
        std::uint32_t failures{0};
        MonotonicTime due{0};
        bool again{false};  // in flight and to be run once more
        bool held{false};   // put back: nothing brings it forward
        int priority{0};
        std::uint16_t reasons{0};  // Reason bits
        MonotonicTime taken{0};    // in flight: since
    };
    Look look(const ObjectKey& key) const;
    // At most `keys_max` keys, those first that a reader looks for: in flight, backing off, parked,
    // ready in their order, delayed. Walks over every key when keys are parked.
    std::vector<std::pair<ObjectKey, Look>> looks(std::size_t keys_max) const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace capstan::queue
