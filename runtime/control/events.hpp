// Kubernetes Events (events.k8s.io/v1) on behalf of plugins: merged into series, limited per
// object, never blocking.
//
// As client-go's events recorder does: the first event of an object, type, reason, action and
// controller is created; the second within kSeriesWindow patches its series at once, later ones are
// counted here and written every kSeriesEvery and when the series has ended, kSeriesWindow after
// its last event. A series keeps the note of its first event (the API does not let it change). An
// object's events pass a bucket of kEventBurst that refills one per kEventRefill. What cannot be
// sent at once waits, at most kEventsWaiting; beyond it new events are dropped and counted. So are
// those of a caller that is faster than the loop, on the caller's thread: at most kEventsInbox are
// on their way to the loop, which takes kEventsPerTurn of them at a time. A request that fails for
// a reason that may pass is repeated, kEventTries times in all.
// Thread: record() any; the rest on the loop.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/kube/client.hpp"
#include "runtime/obs/metrics.hpp"

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace capstan::control {

struct Core;

inline constexpr std::chrono::minutes kSeriesWindow{6};
inline constexpr std::chrono::minutes kSeriesEvery{30};
inline constexpr std::size_t kEventBurst = 25;
inline constexpr std::chrono::seconds kEventRefill{300};
inline constexpr std::size_t kEventsWaiting = 1000;
inline constexpr std::size_t kEventsInbox = 1000;
inline constexpr std::size_t kEventsPerTurn = 100;
inline constexpr std::size_t kEventsInFlight = 4;
inline constexpr int kEventTries = 12;
inline constexpr std::chrono::seconds kEventRetryPause{10};
inline constexpr double kEventRetryJitter = 0.25;           // of the pause, to both sides
inline constexpr std::chrono::seconds kEventFlushPause{1};  // when the queue is full
// remembered; beyond it the oldest is forgotten
inline constexpr std::size_t kEventSeriesMax = 4096;
inline constexpr std::size_t kEventNoteBytesMax = 1024;  // the API's limit
inline constexpr std::size_t kEventReasonBytesMax = 128;

struct EventRecord {
    GroupVersionKind gvk;
    ObjectKey regarding;
    std::string uid, type, reason, action, note;
    std::string controller;  // reportingController: the plugin's id
    std::string series_key() const;
    std::string object_key() const;
};

class EventRecorder : public std::enable_shared_from_this<EventRecorder> {
    struct Private {};  // make() only: it lives in a shared_ptr

public:
    EventRecorder(Private, Core& core);
    static std::shared_ptr<EventRecorder> make(Core& core);
    void record(EventRecord record);
    void shut_down();  // drops what waits and flies [io]

private:
    struct Series {
        EventRecord record;
        std::string ns, name;  // of the Event object
        WallTime first{}, last{};
        std::int64_t count{1};
        std::int64_t written{0};  // what the server knows
        std::int64_t sending{0};  // what the request under way says; 0: none is
        MonotonicTime seen{0}, sent{0};
        MonotonicTime not_before{0};  // of the next try
        int tries{0};                 // that failed since the last success
        bool created{false};
        bool waiting{false};   // in waiting_
        bool given_up{false};  // nothing more is sent of it
    };
    struct Bucket {
        double tokens{static_cast<double>(kEventBurst)};
        MonotonicTime filled{0};
    };
    void wake();
    void take_some();
    void take(EventRecord record);
    bool allowed(const std::string& object, MonotonicTime now);
    void forget_old(MonotonicTime now);
    // When `series` is to be sent; kNever: the server knows all of it, or is being told.
    MonotonicTime due(const Series& series) const;
    void name_anew(Series& series);
    void begin(const std::string& key, EventRecord record, MonotonicTime now);
    void offer(const std::string& key, Series& series);
    void pump();
    void send(const std::string& key);
    json::Value event_of(const Series& series) const;
    void answered(const std::string& key, const Result<kube::ObjectPtr>& result);
    bool over(const Series& series, MonotonicTime now) const;
    void failed(Series& series, const Error& error);
    void give_up(Series& series, const Error& error);
    void arm(MonotonicTime when);
    void flush_series();

    Core& core_;
    obs::Counter& dropped_;

    std::mutex inbox_mutex_;  // guards what follows
    std::deque<EventRecord> inbox_;
    bool woken_{false};  // take_some() is posted

    // The loop's:
    std::map<std::string, Series> series_;
    std::map<std::string, Bucket> buckets_;
    std::deque<std::string> waiting_;  // series keys
    std::map<std::uint64_t, kube::CallHandle> flying_;
    std::uint64_t next_call_{0};
    std::unique_ptr<net::Timer> timer_;
    MonotonicTime timer_at_{kNever};
    bool shut_{false};
};

}  // namespace capstan::control
