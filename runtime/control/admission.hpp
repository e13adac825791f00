// Threads that answer a plugin's admission webhooks. Internal to runtime/control.
//
// Every question is answered by its deadline: by the handler, or, when it is late, waits too long
// or never returns, by the loop. A thread in a handler that is late is replaced, up to
// kAdmissionStuckMax. A handler that panics fails its review and nothing else: what a user writes
// into an object must not stop a plugin. Thread: as tagged.
#pragma once

#include "runtime/control/call.hpp"
#include "runtime/control/core.hpp"

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace capstan::control {

// One question on its way.
struct AdmissionState {
    const plugin::WebhookSpec* webhook{nullptr};
    kube::AdmissionQuestion question;
    // Loop only; null: answered.
    kube::AdmissionDone done;
    std::unique_ptr<net::Timer> limit;
    // Guarded by the pool's mutex.
    bool running{false}, late{false};
    // Guarded by the call's mutex: what the plugin said.
    std::optional<kube::AdmissionAnswer> answer;
};

class AdmissionPool {
public:
    explicit AdmissionPool(Unit& unit);

    // [io]
    void ask(const plugin::WebhookSpec& webhook,
             kube::AdmissionQuestion question,
             kube::AdmissionDone done);
    void stop();  // what waits is answered "unavailable" [any]
    bool ended() const;
    void abandon();
    void join();

private:
    using StatePtr = std::shared_ptr<AdmissionState>;
    void work();
    void review(const StatePtr& state);
    Result<kube::AdmissionAnswer> run(const StatePtr& state);
    void on_limit(const StatePtr& state);
    void start_thread();  // when one is needed and allowed [io]

    Unit& unit_;
    std::unique_ptr<Signal> signal_;
    mutable std::mutex mutex_;  // guards what follows
    std::deque<StatePtr> waiting_;
    std::vector<std::unique_ptr<Thread>> threads_;
    std::size_t busy_{0}, stuck_{0};  // threads in a handler; of these, late ones
    bool stopping_{false};
};

}  // namespace capstan::control
