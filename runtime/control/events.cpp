#include "runtime/control/events.hpp"

#include "runtime/control/core.hpp"

#include <algorithm>
#include <utility>

namespace capstan::control {
namespace {

constexpr std::size_t kEventNameBytesMax = 230;  // with the suffix below the API's 253
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
    return object_key() + kSeparator + type + kSeparator + reason + kSeparator + action;
}

std::shared_ptr<EventRecorder> EventRecorder::make(Core& core) {
    return std::make_shared<EventRecorder>(Private{}, core);
}

EventRecorder::EventRecorder(Private, Core& core)
    : core_(core), dropped_(core.metrics.recorded_events.with({"dropped"})) {}

void EventRecorder::record(EventRecord record) {
    {
        const std::lock_guard lock(inbox_mutex_);
        if (inbox_.size() >= kEventsInbox) {
            dropped_.add();
            return;
        }
        inbox_.push_back(std::move(record));
        if (std::exchange(woken_, true)) {
            return;
        }
    }
    wake();
}

void EventRecorder::wake() {
    core_.parts.loop.post([self = weak_from_this()] {
        if (const auto recorder = self.lock(); recorder != nullptr && !recorder->shut_) {
            recorder->take_some();
        }
    });
}

void EventRecorder::take_some() {
    std::deque<EventRecord> some;
    bool more = false;
    {
        const std::lock_guard lock(inbox_mutex_);
        while (!inbox_.empty() && some.size() < kEventsPerTurn) {
            some.push_back(std::move(inbox_.front()));
            inbox_.pop_front();
        }
        more = woken_ = !inbox_.empty();
    }
    for (EventRecord& record : some) {
        take(std::move(record));
    }
    if (more) {
        wake();
    }
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
        const Series& series = entry.second;
        const bool told = series.given_up || (series.created && series.written == series.count);
        return series.seen + kSeriesWindow < now && told && series.sending == 0 && !series.waiting;
    });
    std::erase_if(buckets_, [now](const auto& entry) {
        return entry.second.filled + kEventRefill * kEventBurst < now;
    });
}

MonotonicTime EventRecorder::due(const Series& s) const {
    if (s.given_up || s.waiting || s.sending != 0 || (s.created && s.written == s.count)) {
        return kNever;
    }
    const bool first_repeat = s.written <= 1;
    const MonotonicTime wanted = !s.created || first_repeat
                                     ? MonotonicTime{0}
                                     : std::min(s.sent + kSeriesEvery, s.seen + kSeriesWindow);
    return std::max(wanted, s.not_before);
}

// What the server refused is tried anew with a later event.
bool EventRecorder::over(const Series& s, MonotonicTime now) const {
    return (s.given_up ? s.sent : s.seen) + kSeriesWindow < now;
}

void EventRecorder::take(EventRecord record) {
    const MonotonicTime now = core_.now();
    const std::string key = record.series_key();
    auto found = series_.find(key);
    if (found == series_.end() || over(found->second, now)) {
        begin(key, std::move(record), now);
        return;
    }
    Series& series = found->second;
    ++series.count;
    series.last = core_.parts.loop.wall_now();
    series.seen = now;
    core_.metrics.recorded_events.with({"merged"}).add();
    if (due(series) <= now) {
        offer(key, series);
        pump();
    } else {
        arm(due(series));
    }
}

// A first event. Of a series that has ended and whose last count is still to be written, the count
// is lost.
void EventRecorder::begin(const std::string& key, EventRecord record, MonotonicTime now) {
    if (series_.size() >= kEventSeriesMax || buckets_.size() >= kEventSeriesMax) {
        forget_old(now);
    }
    const auto old = series_.find(key);
    const bool busy = old != series_.end() && (old->second.waiting || old->second.sending != 0);
    if (busy || waiting_.size() >= kEventsWaiting || series_.size() >= kEventSeriesMax ||
        buckets_.size() >= kEventSeriesMax || !allowed(record.object_key(), now)) {
        dropped_.add();
        return;
    }
    Series series;
    series.first = series.last = core_.parts.loop.wall_now();
    series.seen = now;
    series.ns = record.regarding.ns.empty() ? "default" : record.regarding.ns;
    series.record = std::move(record);
    name_anew(series);
    offer(key, series_[key] = std::move(series));
    pump();
}

void EventRecorder::name_anew(Series& series) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string suffix;
    for (std::uint64_t value = core_.random(), i = 0; i < 16; ++i, value >>= 4) {
        suffix += kDigits[value & 15u];
    }
    series.name = cut(series.record.regarding.name, kEventNameBytesMax) + "." + suffix;
}

void EventRecorder::offer(const std::string& key, Series& series) {
    if (waiting_.size() >= kEventsWaiting) {
        arm(core_.now() + kEventFlushPause);
        return;
    }
    series.waiting = true;
    waiting_.push_back(key);
}

void EventRecorder::pump() {
    while (!waiting_.empty() && flying_.size() < kEventsInFlight) {
        const std::string key = std::move(waiting_.front());
        waiting_.pop_front();
        series_.at(key).waiting = false;
        send(key);
    }
}

json::Value EventRecorder::event_of(const Series& s) const {
    const EventRecord& r = s.record;
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
        {"reportingInstance", cut(core_.options.identity, kEventReasonBytesMax)},
        {"action", cut(r.action, kEventReasonBytesMax)},
        {"reason", cut(r.reason, kEventReasonBytesMax)},
        {"regarding", std::move(regarding)},
        {"note", cut(r.note, kEventNoteBytesMax)},
        {"type", r.type},
    };
    if (s.count > 1) {
        event.set("series", {{"count", s.count}, {"lastObservedTime", to_rfc3339_micro(s.last)}});
    }
    return event;
}

void EventRecorder::send(const std::string& key) {
    Series& s = series_.at(key);
    s.sent = core_.now();
    s.sending = s.count;
    const std::uint64_t id = ++next_call_;
    const auto done = [self = weak_from_this(), id, key](const Result<kube::ObjectPtr>& result) {
        if (const auto recorder = self.lock(); recorder != nullptr && !recorder->shut_) {
            recorder->answered(key, result);
            recorder->flying_.erase(id);
            recorder->pump();
        }
    };
    if (!s.created) {
        kube::WriteOptions options;
        options.field_manager = "capstan";
        flying_[id] =
            core_.parts.client.create(kEventKind, s.ns, json::dump(event_of(s)), options, done);
        return;
    }
    const json::Value series = {{"count", s.count}, {"lastObservedTime", to_rfc3339_micro(s.last)}};
    const json::Value patch = {{"series", series}};
    kube::PatchOptions options;
    options.field_manager = "capstan";
    flying_[id] =
        core_.parts.client.patch(kEventKind, {s.ns, s.name}, json::dump(patch), options, done);
}

void EventRecorder::answered(const std::string& key, const Result<kube::ObjectPtr>& result) {
    Series& s = series_.at(key);
    const std::int64_t said = std::exchange(s.sending, 0);
    // The name is ours alone: that it exists means that an earlier try has arrived.
    if (result || (!s.created && result.error().code == Code::exists)) {
        s.created = true;
        s.written = result ? said : 1;
        s.tries = 0;
        core_.metrics.recorded_events.with({"sent"}).add();
    } else {
        failed(s, result.error());
    }
    if (const MonotonicTime next = due(s); next <= core_.now()) {
        offer(key, s);
    } else {
        arm(next);
    }
}

void EventRecorder::failed(Series& s, const Error& error) {
    if (++s.tries >= kEventTries) {
        give_up(s, error);
        return;
    }
    switch (error.code) {
        case Code::not_found:
            if (!s.created) {
                give_up(s, error);  // the namespace is gone
                return;
            }
            s.created = false;  // the server has let it expire
            s.written = 0;
            name_anew(s);
            return;
        case Code::invalid:
        case Code::forbidden:
        case Code::too_large: give_up(s, error); return;
        default: break;
    }
    const double factor = 1.0 + kEventRetryJitter * (2.0 * core_.random_unit() - 1.0);
    const auto pause = std::chrono::duration_cast<std::chrono::nanoseconds>(
        factor * std::chrono::duration<double>(kEventRetryPause));
    s.not_before = core_.now() + std::max<std::chrono::nanoseconds>(pause, error.retry_after);
}

void EventRecorder::give_up(Series& s, const Error& error) {
    s.given_up = true;
    core_.metrics.recorded_events.with({"failed"}).add();
    core_.parts.log.warn("event was not recorded",
                         {{"reason", s.record.reason},
                          {"namespace", s.ns},
                          {"name", s.record.regarding.name},
                          {"error", error.message}});
}

void EventRecorder::arm(MonotonicTime when) {
    if (when == kNever || (timer_ != nullptr && timer_at_ <= when)) {
        return;
    }
    timer_at_ = when;
    timer_ = core_.parts.loop.at(when, [this] {
        timer_.reset();
        flush_series();
    });
}

void EventRecorder::flush_series() {
    const MonotonicTime now = core_.now();
    MonotonicTime next = kNever;
    for (auto& [key, series] : series_) {
        if (const MonotonicTime when = due(series); when <= now) {
            offer(key, series);
        } else {
            next = std::min(next, when);
        }
    }
    forget_old(now);
    pump();
    arm(next);
}

}  // namespace capstan::control
