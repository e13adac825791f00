// The reflector's streams: opening them, what events and ends mean, when silence ends one.
#include "runtime/cache/reflector_fsm.hpp"
#include "runtime/kube/object.hpp"
#include "runtime/kube/status.hpp"

#include <algorithm>

namespace capstan::cache {

Action ReflectorFsm::begin_watch(MonotonicTime now) {
    const auto spread = options_.watch_timeout_max - options_.watch_timeout_min;
    Action action;
    action.kind = Action::Kind::watch;
    action.resource_version = resume_version_;
    action.timeout =
        options_.watch_timeout_min + std::chrono::seconds(static_cast<std::int64_t>(
                                         random_() * static_cast<double>(spread.count() + 1)));
    state_ = State::opening;
    opened_ = now;
    last_bytes_ = now;
    last_bookmark_ = kNever;
    any_event_ = false;
    hard_deadline_ = now + action.timeout + options_.watch_grace;
    arm();
    return action;
}

// When silence or length ends the present stream.
void ReflectorFsm::arm() {
    if (state_ == State::streaming) {
        deadline_ = std::max<MonotonicTime>(opened_ + options_.initial_end_min,
                                            last_bytes_ + options_.initial_end_quiet);
        return;
    }
    deadline_ = hard_deadline_;
    if (state_ == State::watching && bookmark_gaps_ >= kCadenceBookmarks) {
        deadline_ = std::min<MonotonicTime>(
            deadline_, last_bytes_ + std::max<MonotonicTime>(3 * cadence_, kIdleMin));
    }
}

Action ReflectorFsm::on_watch_open(MonotonicTime now) {
    Action action;
    if (state_ == State::opening) {
        state_ = State::watching;
        opened_ = now;
        last_bytes_ = now;
        settle(now, action);
        arm();
        action.check = doubtful_ && !last_version_.empty();
        action.resource_version = action.check ? last_version_ : "";
    }
    return action;
}

Action ReflectorFsm::on_checked(MonotonicTime now, const Result<bool>& known) {
    if (state_ != State::watching) {
        return {};
    }
    const bool ahead = !known && kube::is_too_large_resource_version(known.error());
    if (!known && !ahead) {
        const Code code = known.error().code;
        // No answer: asked again when the stream is opened again.
        doubtful_ = code == Code::unavailable || code == Code::timeout || code == Code::overloaded;
        return {};
    }
    doubtful_ = false;
    if (known && known.value()) {
        return {};
    }
    // Behind us, it may be a replica that lags: then the snapshot says so, as always.
    consistent_only_ = true;
    other_data_ = known.has_value();
    Action action = begin_snapshot(now, "older");
    action.log.push_back({LogLevel::warn,
                          "the API server does not have what it showed before, listing again",
                          known ? "" : text_of(known.error())});
    return action;
}

void ReflectorFsm::on_watch_bytes(MonotonicTime now) {
    last_bytes_ = now;
    if (state_ == State::streaming || state_ == State::watching) {
        arm();
    }
}

// Objects that one transaction wrote share a version, and a stream may break between two of them:
// all up to a version is known only when something newer has come, or a bookmark.
void ReflectorFsm::advance(std::string_view resource_version, bool bookmark) {
    const auto order = kube::compare_resource_versions(resource_version, last_version_);
    if (order ? *order > 0 : !resource_version.empty()) {
        resume_version_ = bookmark ? std::string(resource_version) : last_version_;
        last_version_ = resource_version;
        stuck_ = 0;
    }
}

void ReflectorFsm::note_bookmark(MonotonicTime now) {
    if (last_bookmark_ != kNever) {
        cadence_ = std::max(cadence_, now - last_bookmark_);
        ++bookmark_gaps_;
    }
    last_bookmark_ = now;
    arm();
}

Step ReflectorFsm::on_watch_event(MonotonicTime now,
                                  EventKind kind,
                                  std::string_view resource_version) {
    Step step;
    if (state_ != State::streaming && state_ != State::watching) {
        return step;
    }
    any_event_ = true;
    if (state_ == State::watching) {
        const bool bookmark = kind == EventKind::bookmark || kind == EventKind::initial_end;
        advance(resource_version, bookmark);
        if (bookmark) {
            note_bookmark(now);
        }
        step.verdict = Verdict::apply;
        return step;
    }
    switch (kind) {
        case EventKind::added:
        case EventKind::modified:
        case EventKind::undecodable: step.verdict = Verdict::collect; break;
        case EventKind::initial_end:
            step = commit(now, resource_version);
            if (step.verdict == Verdict::commit) {
                state_ = State::watching;
                arm();
            }
            break;
        case EventKind::deleted:  // only after the end bookmark: this server does something else
            step.action =
                fall_back_to_list(now,
                                  LogLevel::warn,
                                  "streaming list sent a deletion before its end, listing instead");
            break;
        case EventKind::bookmark: break;
    }
    return step;
}

Action ReflectorFsm::on_watch_end(MonotonicTime now, const Result<void>& result) {
    switch (state_) {
        case State::streaming: return stream_failed(now, result);
        case State::opening:
        case State::watching: return result ? watch_ended(now) : watch_failed(now, result.error());
        default: return {};
    }
}

Action ReflectorFsm::stream_failed(MonotonicTime now, const Result<void>& result) {
    if (result) {
        return fall_back_to_list(
            now, LogLevel::warn, "streaming list ended before its end bookmark, listing instead");
    }
    const Error& error = result.error();
    if (whole_list_ && (any_event_ || error.code == Code::invalid)) {
        return fall_back_to_stream(now, LogLevel::info, error);
    }
    if (error.code == Code::invalid) {
        return fall_back_to_list(
            now, LogLevel::debug, "server has no streaming lists, listing instead");
    }
    if (auto action = ask_consistent(now, error)) {
        return std::move(*action);
    }
    return back_off(now, Next::snapshot, reason_, error, "streaming list failed");
}

// A clean end: resumed at once, unless the server ends every watch at once.
Action ReflectorFsm::watch_ended(MonotonicTime now) {
    if (state_ == State::watching && (any_event_ || now - opened_ >= kShortWatch)) {
        return begin_watch(now);
    }
    const Error error{Code::unavailable, "the server ended the watch at once", {}};
    return back_off(now, Next::watch, reason_, error, "watch was very short");
}

Action ReflectorFsm::watch_failed(MonotonicTime now, const Error& error) {
    if (kube::is_too_large_resource_version(error)) {  // some servers say so; see on_checked()
        consistent_only_ = true;
        return back_off(now, Next::snapshot, "older", error, "watch failed, listing again");
    }
    switch (error.code) {
        case Code::expired:
            if (failures_ == 0 || unreachable_ ||
                (fine_since_ != kNever && now - fine_since_ >= options_.backoff_reset)) {
                failures_ = 1;  // the next one in a row waits
                unreachable_ = false;
                fine_since_ = kNever;
                Action action = begin_snapshot(now, "expired");
                action.log.push_back(
                    {LogLevel::info, "watch expired, listing again", text_of(error)});
                return action;
            }
            // Again: a replica may serve a state whose events are gone, as often as it is asked.
            consistent_only_ = true;
            return back_off(now, Next::snapshot, "expired", error, "watch expired, listing again");
        case Code::overloaded:
        case Code::unavailable:
        case Code::timeout:
        case Code::forbidden:
            doubtful_ = doubtful_ || error.code == Code::unavailable || error.code == Code::timeout;
            if (++stuck_ < kWatchFailuresMax || error.code == Code::forbidden) {
                return back_off(now, Next::watch, reason_, error, "watch failed");
            }
            stuck_ = 0;
            return back_off(
                now, Next::snapshot, "error", error, "watch keeps failing, listing again");
        case Code::not_found:
            consistent_only_ = true;
            return back_off(now, Next::snapshot, "error", error, "kind is not served");
        default:
            return back_off(now, Next::snapshot, "error", error, "watch failed, listing again");
    }
}

}  // namespace capstan::cache
