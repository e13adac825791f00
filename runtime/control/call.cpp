#include "runtime/control/call.hpp"

#include "runtime/control/unit.hpp"

#include "capstan/json.hpp"
#include "capstan/plugin.hpp"

#include <algorithm>

namespace capstan::control {
namespace {

thread_local std::string last_report_json;
thread_local CallState* current = nullptr;

std::int64_t usual_status(Code code) {
    switch (code) {
        case Code::invalid: return 422;
        case Code::not_found: return 404;
        case Code::conflict:
        case Code::exists: return 409;
        case Code::expired: return 410;
        case Code::forbidden: return 403;
        case Code::overloaded: return 429;
        case Code::unavailable: return 503;
        default: return 0;
    }
}

}  // namespace

Handles& handles() {
    // leaked on purpose, see the header
    static Handles* const instance = std::make_unique<Handles>().release();
    return *instance;
}

CallState* current_call() noexcept {
    return current;
}
CurrentCall::CurrentCall(CallState& call) noexcept {
    current = &call;
}
CurrentCall::~CurrentCall() {
    current = nullptr;
}

CallState::CallState(std::shared_ptr<Core> c, std::shared_ptr<Unit> u, CallKind k)
    : core(std::move(c)), unit(std::move(u)), kind(k) {}

bool CallState::begin() {
    handle = static_cast<capstan_call*>(handles().calls.insert(shared_from_this()));
    return handle != nullptr;
}

std::size_t CallState::end() {
    handles().calls.take(handle);
    stage_at_end_ = stage_.load();
    if (stage_at_end_ == Stage::running) {
        const capstan_rc rc = check();  // the supervisor may not have come round yet
        if (rc == CAPSTAN_E_FENCED) {
            stage_at_end_ = Stage::fenced;
        } else if (rc == CAPSTAN_E_DEADLINE) {
            stage_at_end_ = Stage::timed_out;
        }
    }
    move_to(Stage::ended);
    std::vector<const void*> left;
    std::map<const void*, std::function<void()>> held;
    std::size_t leaked = 0;
    {
        const std::lock_guard lock(objects_mutex_);
        left.swap(objects_);
        held.swap(held_);
    }
    for (const auto& [handle_of, release] : held) {
        release();
    }
    for (const void* object : left) {
        leaked += handles().objects.take(object) != nullptr ? 1 : 0;
    }
    return leaked;
}

bool CallState::fenced() const noexcept {
    return stage_.load() >= Stage::fenced || core->now() >= fence_at;
}

capstan_rc CallState::check() const noexcept {
    const Stage stage = stage_.load();
    const MonotonicTime now = core->now();
    if (stage >= Stage::fenced || now >= fence_at) {
        return CAPSTAN_E_FENCED;
    }
    if (stage == Stage::cancelled) {
        return CAPSTAN_E_CANCELLED;
    }
    return stage == Stage::timed_out || now >= deadline ? CAPSTAN_E_DEADLINE : CAPSTAN_OK;
}

bool CallState::move_to(Stage to) noexcept {
    Stage from = stage_.load();
    do {
        if (from >= to) {
            return false;
        }
    } while (!stage_.compare_exchange_weak(from, to));
    const std::lock_guard lock(waiters_mutex_);
    for (Signal* signal : waiters_) {
        signal->notify();
    }
    return true;
}

MonotonicTime CallState::next_change() const noexcept {
    return core->now() < deadline ? deadline : fence_at;
}

void CallState::add_waiter(Signal& signal) {
    const std::lock_guard lock(waiters_mutex_);
    waiters_.push_back(&signal);
}

void CallState::remove_waiter(Signal& signal) {
    const std::lock_guard lock(waiters_mutex_);
    const auto found = std::find(waiters_.begin(), waiters_.end(), &signal);
    if (found != waiters_.end()) {
        waiters_.erase(found);
    }
}

capstan_rc CallState::wait(Signal& signal,
                           const std::function<bool()>& ready,
                           MonotonicTime until) {
    add_waiter(signal);
    capstan_rc rc = CAPSTAN_OK;
    while (!ready()) {
        rc = check();
        if (rc != CAPSTAN_OK) {
            break;
        }
        if (core->now() >= until) {
            rc = CAPSTAN_E_DEADLINE;
            break;
        }
        signal.wait_until(std::min(until, next_change()));
    }
    remove_waiter(signal);
    return rc;
}

const capstan_obj* CallState::hand_out(kube::ObjectPtr object,
                                       const GroupVersionKind& gvk,
                                       bool live) {
    auto reference = std::make_shared<ObjectRef>();
    reference->object = std::move(object);
    reference->gvk = gvk;
    reference->live = live;
    reference->call = weak_from_this();
    void* made = handles().objects.insert(std::move(reference));
    const void* evicted = nullptr;
    if (made != nullptr) {
        const std::lock_guard lock(objects_mutex_);
        objects_.push_back(made);
        if (objects_.size() > kHeldObjectsMax) {
            evicted = objects_.front();
            objects_.erase(objects_.begin());
        }
    }
    if (evicted != nullptr) {
        handles().objects.take(evicted);
        core->metrics.leaked_objects.with({unit->manifest().id}).add();
    }
    return static_cast<const capstan_obj*>(made);
}

void CallState::given_back(const void* object) {
    const std::lock_guard lock(objects_mutex_);
    const auto found = std::find(objects_.rbegin(), objects_.rend(), object);
    if (found != objects_.rend()) {
        objects_.erase(std::next(found).base());
    }
}

void CallState::hold(const void* held_handle, std::function<void()> release) {
    const std::lock_guard lock(objects_mutex_);
    held_.emplace(held_handle, std::move(release));
}

void CallState::let_go(const void* held_handle) {
    const std::lock_guard lock(objects_mutex_);
    held_.erase(held_handle);
}

void CallState::note_own_write(const GroupVersionKind& gvk, const kube::ObjectPtr& object) {
    core->parts.cache.note_write(gvk, object);
    if (kind != CallKind::reconcile) {
        return;
    }
    OwnWrite write{gvk, object->key(), std::string(object->resource_version())};
    const std::lock_guard lock(mutex);
    for (OwnWrite& known : own_writes) {
        if (known.gvk == write.gvk && known.key == write.key) {
            known.resource_version = std::move(write.resource_version);
            return;
        }
    }
    if (own_writes.size() >= kOwnWritesMax) {
        own_writes.erase(own_writes.begin());
    }
    own_writes.push_back(std::move(write));
}

capstan_rc report(const Error& error) noexcept {
    json::Value detail = {{"code", to_string(error.code)}, {"message", error.message}};
    if (const auto status = usual_status(error.code); status != 0) {
        detail.set("httpStatus", status);
    }
    if (error.retry_after.count() > 0) {
        detail.set("retryAfterNs", std::chrono::nanoseconds(error.retry_after).count());
    }
    last_report_json = json::dump(detail);
    return rc_of(error.code);
}

capstan_rc report(capstan_rc rc, std::string_view message) noexcept {
    last_report_json = json::dump({{"code", to_string(code_of(rc))}, {"message", message}});
    return rc;
}

void clear_report() noexcept {
    last_report_json.clear();
}

capstan_str last_report() noexcept {
    if (last_report_json.empty()) {
        last_report_json = "{}";
    }
    return {last_report_json.data(), last_report_json.size()};
}

std::shared_ptr<CallState> enter(capstan_call* handle,
                                 capstan_rc* rc,
                                 bool even_when_cancelled) noexcept {
    clear_report();
    auto call = handles().calls.find(handle);
    if (call == nullptr) {
        *rc = report(CAPSTAN_E_FENCED, "this call has ended");
        return nullptr;
    }
    *rc = call->check();
    if (*rc == CAPSTAN_OK || (even_when_cancelled && *rc != CAPSTAN_E_FENCED)) {
        *rc = CAPSTAN_OK;
        return call;
    }
    report(*rc,
           *rc == CAPSTAN_E_FENCED      ? "the call was fenced"
           : *rc == CAPSTAN_E_CANCELLED ? "the call was cancelled"
                                        : "the call's deadline has passed");
    return nullptr;
}

}  // namespace capstan::control
