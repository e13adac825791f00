// Kubernetes Events (events.k8s.io/v1) on behalf of plugins: merged into series, limited per
// object, never blocking.
//
// The first event of a kind for an object is created; equal ones within kSeriesWindow raise the
// count of its series, written at most every kSeriesEvery. An object's events pass a bucket of
// kEventBurst that refills one per kEventRefill. What cannot be sent at once waits, at most
// kEventsWaiting; beyond it events are dropped and counted. A failed request is not repeated:
// Events are a courtesy. Thread: record() any; the rest on the loop.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/kube/client.hpp"

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>

namespace capstan::control {

struct Core;

inline constexpr std::chrono::minutes kSeriesWindow{6};
inline constexpr std::chrono::seconds kSeriesEvery{30};
inline constexpr std::size_t kEventBurst = 25;
inline constexpr std::chrono::seconds kEventRefill{300};
inline constexpr std::size_t kEventsWaiting = 256;
inline constexpr std::size_t kEventsInFlight = 4;
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
    EventRecorder(Private, Core& core) : core_(core) {}
    static std::shared_ptr<EventRecorder> make(Core& core);
    void record(EventRecord record);
    void shut_down();  // drops what waits and flies [io]

private:
    struct Series {
        EventRecord record;
        std::string ns, name;  // of the Event object
        WallTime first{}, last{};
        std::int64_t count{1}, written{0};
        MonotonicTime seen{0}, sent{0};
        bool created{false};
    };
    struct Bucket {
        double tokens{static_cast<double>(kEventBurst)};
        MonotonicTime filled{0};
    };
    void take(EventRecord record);
    bool allowed(const std::string& object, MonotonicTime now);
    void forget_old(MonotonicTime now);
    void pump();
    void send(const std::string& key);
    void arm(MonotonicTime when);
    void flush_series();

    Core& core_;
    std::map<std::string, Series> series_;
    std::map<std::string, Bucket> buckets_;
    std::deque<std::string> waiting_;  // series keys
    std::map<std::uint64_t, kube::CallHandle> flying_;
    std::uint64_t next_call_{0};
    std::unique_ptr<net::Timer> timer_;
    bool shut_{false};
};

}  // namespace capstan::control
