// One call in progress: a reconcile, a service run or a request. The capability behind
// a capstan_call handle.
//
// The handle stays valid from begin to end; afterwards every host function answers E_FENCED.
// Deadlines need nobody's help: each host function looks at the clock. Internal to runtime/control.
// Thread: any, unless tagged.
#pragma once

#include "capstan/capstan.h"
#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/control/core.hpp"
#include "runtime/control/handles.hpp"
#include "runtime/control/threads.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::control {

class Unit;
class Controller;
struct AdmissionState;
struct CommandState;

enum class CallKind : std::uint8_t { reconcile, service, route, admission, command };

// An object a plugin holds.
struct ObjectRef {
    kube::ObjectPtr object;
    GroupVersionKind gvk;
    bool live{false};      // from a live get: may be deleted by it
    bool borrowed{false};  // shown to a visitor: not the plugin's to release
    std::weak_ptr<CallState> call;
};

struct CallResult {
    capstan_rc rc{CAPSTAN_OK};
    std::int32_t retry{CAPSTAN_RETRY_NONE};
    std::chrono::nanoseconds after{0};
    std::string message;
    bool explicit_result{false};  // reconcile_done was called
};

struct CallState : std::enable_shared_from_this<CallState> {
    enum class Stage : std::uint8_t { running, timed_out, cancelled, fenced, ended };

    CallState(std::shared_ptr<Core> c, std::shared_ptr<Unit> u, CallKind k);

    // Makes the handle. False: kHandlesMax.
    bool begin();
    // The handle is stale from here on; what it held is released. Returns how many objects the
    // plugin had not released.
    std::size_t end();

    // Whether host functions may go on: CAPSTAN_OK, E_DEADLINE, E_CANCELLED or E_FENCED.
    capstan_rc check() const noexcept;
    bool fenced() const noexcept;
    // Later stages only; wakes every wait. True when this call changed it.
    bool move_to(Stage to) noexcept;
    Stage stage() const noexcept { return stage_.load(); }
    // after end(), by the thread that called it
    Stage stage_at_end() const noexcept { return stage_at_end_; }
    // When check() changes by itself; kNever.
    MonotonicTime next_change() const noexcept;

    // Blocks until `ready` (asked at each notice), the time, or the end of
    // the call's right to wait.
    capstan_rc wait(Signal& signal, const std::function<bool()>& ready, MonotonicTime until);

    void add_waiter(Signal& signal);
    void remove_waiter(Signal& signal);

    // A reference for the plugin; nullptr: no handle left.
    const capstan_obj* hand_out(kube::ObjectPtr object, const GroupVersionKind& gvk, bool live);
    void given_back(const void* handle);
    // Something else the plugin holds; `release` runs when the call ends before let_go.
    void hold(const void* handle, std::function<void()> release);
    void let_go(const void* handle);
    void note_own_write(const GroupVersionKind& gvk, const kube::ObjectPtr& object);

    const std::shared_ptr<Core> core;
    const std::shared_ptr<Unit> unit;
    const CallKind kind;
    // Set before begin(), constant afterwards.
    Controller* controller{nullptr};  // reconcile only; lives as long as the unit
    std::uint64_t instance{0};
    capstan_ctl* ctl{nullptr};
    // shared with the loop, which answers the API server; admission only
    std::shared_ptr<AdmissionState> admission;
    // shared with its CommandHost; command only
    std::shared_ptr<CommandState> command;
    bool reads_only{false};  // a webhook without side effects: writes and events are denied
    ObjectKey key;
    std::string what;  // "etcd/etcd ns/name", "service etcd/member"
    std::string id;    // reconcileID
    obs::Log log;      // with what is above on each line
    MonotonicTime deadline{kNever};
    MonotonicTime fence_at{kNever};
    capstan_call* handle{nullptr};

    // Guarded by mutex:
    std::mutex mutex;
    std::optional<CallResult> result;
    Signal* done_signal{nullptr};  // worker that waits for reconcile_done after PENDING
    std::vector<OwnWrite> own_writes;
    // Supervisor's only: plugin's cancel was called, the fence was reported.
    bool cancel_told{false};
    bool fence_told{false};

private:
    std::atomic<Stage> stage_{Stage::running};
    Stage stage_at_end_{Stage::running};
    std::mutex waiters_mutex_;  // guards waiters_
    std::vector<Signal*> waiters_;
    std::mutex objects_mutex_;  // guards what follows
    std::map<const void*, std::function<void()>> held_;
    std::vector<const void*> objects_;
};

// The call this thread is working for, for host functions that are given none (log).
CallState* current_call() noexcept;
class CurrentCall {
public:
    explicit CurrentCall(CallState& call) noexcept;
    ~CurrentCall();
    CurrentCall(const CurrentCall&) = delete;
    CurrentCall& operator=(const CurrentCall&) = delete;
};

// Detail of the last failed host function on this thread, as capstan.call/1
// last_error_json gives it.
capstan_rc report(const Error& error) noexcept;
capstan_rc report(capstan_rc rc, std::string_view message) noexcept;
void clear_report() noexcept;
capstan_str last_report() noexcept;

// The call behind a handle when host functions may go on with it; else nullptr, and
// *rc is what to return.
std::shared_ptr<CallState> enter(capstan_call* handle,
                                 capstan_rc* rc,
                                 bool even_when_cancelled = false) noexcept;

// How much later than the request's own deadline its wait ends: the request knows whether it was
// sent at all.
inline constexpr std::chrono::milliseconds kAnswerGrace{50};

// Runs something asynchronous on the loop and waits for its result on this (worker) thread. `begin`
// runs on the loop; what it returns is destroyed there when the wait was given up.
template <class T, class Handle>
Result<T> await_on_loop(CallState& call,
                        MonotonicTime until,
                        std::function<Handle(std::function<void(Result<T>)>)> begin) {
    struct Operation {
        std::mutex mutex;
        std::optional<Result<T>> result;  // guarded
        bool dropped{false};              // guarded: nobody waits
        std::unique_ptr<Signal> signal;
        Handle handle{};  // loop only
    };
    auto operation = std::make_shared<Operation>();  // shared by this thread and the loop
    operation->signal = call.core->parts.threads.make_signal();
    call.core->parts.loop.post([operation, begin = std::move(begin)] {
        {
            const std::lock_guard lock(operation->mutex);
            if (operation->dropped) {
                return;
            }
        }
        operation->handle = begin([operation](Result<T> result) {
            const auto self = operation;  // dropping the handle below destroys this closure
            {
                const std::lock_guard lock(self->mutex);
                self->result.emplace(std::move(result));
            }
            self->handle = Handle{};
            self->signal->notify();
        });
    });
    const auto ready = [&operation] {
        const std::lock_guard lock(operation->mutex);
        return operation->result.has_value();
    };
    const MonotonicTime end = until < kNever - kAnswerGrace ? until + kAnswerGrace : kNever;
    const capstan_rc rc = call.wait(*operation->signal, ready, end);
    const std::lock_guard lock(operation->mutex);
    if (operation->result) {
        return std::move(*operation->result);
    }
    operation->dropped = true;
    call.core->parts.loop.post([operation] { operation->handle = Handle{}; });
    switch (rc) {
        case CAPSTAN_E_CANCELLED: return fail(Code::cancelled, "the call was cancelled");
        case CAPSTAN_E_FENCED: return fail(Code::fenced, "the call was fenced");
        default:
            return fail(Code::timeout, "the deadline passed; whether it took effect is unknown");
    }
}

}  // namespace capstan::control
