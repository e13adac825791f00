#include "runtime/control/events.hpp"

#include "runtime/control/core.hpp"

#include <algorithm>

namespace capstan::control {
namespace {

constexpr char kSeparator = '\n';
const GroupVersionKind kEventKind{"events.k8s.io", "v1", "Event"};

// Cut at a character border.
std::string cut(std::string text, std::size_t bytes_max) {
    if (text.size() > bytes_max) {
        while (bytes_max > 0 && (static_cast<unsigned char>(text[bytes_max]) & 0xC0u) == 0x80u) {
            --bytes_max;
        }
        text.resize(bytes_max);
    }
    return text;
}

}  // namespace

std::string EventRecord::object_key() const {
    return controller + kSeparator + gvk.to_string() + kSeparator + regarding.ns + kSeparator +
           regarding.name + kSeparator + uid;
}

std::string EventRecord::series_key() const {
    return object_key() + kSeparator + type + kSeparator + reason + kSeparator + action +
           kSeparator + note;
}

std::shared_ptr<EventRecorder> EventRecorder::make(Core& core) {
    return std::make_shared<EventRecorder>(Private{}, core);
}

void EventRecorder::record(EventRecord record) {
    core_.parts.loop.post([self = weak_from_this(), record = std::move(record)]() mutable {
        if (const auto recorder = self.lock(); recorder != nullptr && !recorder->shut_) {
            recorder->take(std::move(record));
        }
    });
}

void EventRecorder::shut_down() {
    shut_ = true;
    timer_.reset();
    waiting_.clear();
    flying_.clear();
}

bool EventRecorder::allowed(const std::string& object, MonotonicTime now) {
    auto [found, fresh] = buckets_.try_emplace(object);
    Bucket& bucket = found->second;
    if (!fresh) {
        using Seconds = std::chrono::duration<double>;
        const double refill = Seconds(now - bucket.filled) / Seconds(kEventRefill);
        bucket.tokens = std::min(static_cast<double>(kEventBurst), bucket.tokens + refill);
    }
    bucket.filled = now;
    if (bucket.tokens < 1.0) {
        return false;
    }
    bucket.tokens -= 1.0;
    return true;
}

void EventRecorder::forget_old(MonotonicTime now) {
    std::erase_if(series_, [now](const auto& entry) {
        return entry.second.seen + kSeriesWindow < now &&
               entry.second.written == entry.second.count;
    });
    std::erase_if(buckets_, [now](const auto& entry) {
        return entry.second.filled + kEventRefill * kEventBurst < now;
    });
}

void EventRecorder::take(EventRecord record) {
    const MonotonicTime now = core_.now();
    const std::string key = record.series_key();
    auto found = series_.find(key);
    if (found != series_.end() && found->second.seen + kSeriesWindow >= now) {
        Series& series = found->second;
        ++series.count;
        series.last = core_.parts.loop.wall_now();
        series.seen = now;
        core_.metrics.recorded_events.with({"merged"}).add();
        arm(series.sent + kSeriesEvery);
        return;
    }
    if (series_.size() >= kEventSeriesMax || buckets_.size() >= kEventSeriesMax) {
        forget_old(now);
    }
    if (waiting_.size() >= kEventsWaiting || series_.size() >= kEventSeriesMax ||
        buckets_.size() >= kEventSeriesMax || !allowed(record.object_key(), now)) {
        core_.metrics.recorded_events.with({"dropped"}).add();
        return;
    }
    Series series;
    series.first = series.last = core_.parts.loop.wall_now();
    series.seen = now;
    series.ns = record.regarding.ns.empty() ? "default" : record.regarding.ns;
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string suffix;
    for (std::uint64_t value = core_.random(), i = 0; i < 16; ++i, value >>= 4) {
        suffix += kDigits[value & 15u];
    }
    series.name = cut(record.regarding.name, 230) + "." + suffix;
    series.record = std::move(record);
    series_[key] = std::move(series);
    waiting_.push_back(key);
    pump();
}

void EventRecorder::pump() {
    while (!waiting_.empty() && flying_.size() < kEventsInFlight) {
        const std::string key = std::move(waiting_.front());
        waiting_.pop_front();
        if (series_.contains(key)) {
            send(key);
        }
    }
}

void EventRecorder::send(const std::string& key) {
    Series& s = series_.at(key);
    const EventRecord& r = s.record;
    s.sent = core_.now();
    s.written = s.count;
    const std::uint64_t id = ++next_call_;
    const auto done = [self = weak_from_this(), id, key](const Result<kube::ObjectPtr>& result) {
        const auto recorder = self.lock();
        if (recorder == nullptr || recorder->shut_) {
            return;
        }
        const auto found = recorder->series_.find(key);
        if (found != recorder->series_.end()) {
            found->second.created = found->second.created || result.has_value();
        }
        recorder->core_.metrics.recorded_events.with({result ? "sent" : "failed"}).add();
        if (!result) {
            recorder->core_.parts.log.debug("event was not recorded",
                                            {{"error", result.error().message}});
        }
        recorder->flying_.erase(id);
        recorder->pump();
    };
    if (s.created) {
        const json::Value series = {{"count", s.count},
                                    {"lastObservedTime", to_rfc3339_micro(s.last)}};
        const json::Value patch = {{"series", series}};
        kube::PatchOptions options;
        options.field_manager = "capstan";
        flying_[id] =
            core_.parts.client.patch(kEventKind, {s.ns, s.name}, json::dump(patch), options, done);
        return;
    }
    json::Value regarding = {
        {"apiVersion", r.gvk.api_version()}, {"kind", r.gvk.kind}, {"name", r.regarding.name}};
    if (!r.regarding.ns.empty()) {
        regarding.set("namespace", r.regarding.ns);
    }
    if (!r.uid.empty()) {
        regarding.set("uid", r.uid);
    }
    json::Value event = {
        {"apiVersion", "events.k8s.io/v1"},
        {"kind", "Event"},
        {"metadata", {{"name", s.name}, {"namespace", s.ns}}},
        {"eventTime", to_rfc3339_micro(s.first)},
        {"reportingController", r.controller},
        {"reportingInstance", core_.options.identity},
        {"action", r.action},
        {"reason", cut(r.reason, kEventReasonBytesMax)},
        {"regarding", std::move(regarding)},
        {"note", cut(r.note, kEventNoteBytesMax)},
        {"type", r.type},
    };
    if (s.count > 1) {
        event.set("series", {{"count", s.count}, {"lastObservedTime", to_rfc3339_micro(s.last)}});
    }
    kube::WriteOptions options;
    options.field_manager = "capstan";
    flying_[id] = core_.parts.client.create(kEventKind, s.ns, json::dump(event), options, done);
}

void EventRecorder::arm(MonotonicTime when) {
    if (timer_ != nullptr) {
        return;
    }
    timer_ = core_.parts.loop.at(when, [this] {
        timer_.reset();
        flush_series();
    });
}

void EventRecorder::flush_series() {
    const MonotonicTime now = core_.now();
    MonotonicTime next = kNever;
    for (auto& [key, series] : series_) {
        if (series.written == series.count) {
            continue;
        }
        if (series.sent + kSeriesEvery > now) {
            next = std::min(next, series.sent + kSeriesEvery);
        } else if (waiting_.size() < kEventsWaiting &&
                   std::find(waiting_.begin(), waiting_.end(), key) == waiting_.end()) {
            waiting_.push_back(key);
        }
    }
    forget_old(now);
    pump();
    if (next != kNever) {
        arm(next);
    }
}

}  // namespace capstan::control
