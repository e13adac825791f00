#include "runtime/control/admission.hpp"

#include "runtime/control/host_tables.hpp"
#include "runtime/control/unit.hpp"

#include <algorithm>

namespace capstan::control {
namespace {

// On the loop; the first result holds. Timer and callback die here, on their thread.
void finish(AdmissionState& state, Result<kube::AdmissionAnswer> result) {
    state.limit.reset();
    if (const auto done = std::exchange(state.done, nullptr)) {
        done(std::move(result));
    }
}

}  // namespace

AdmissionPool::AdmissionPool(Unit& unit)
    : unit_(unit), signal_(unit.core()->parts.threads.make_signal()) {}

void AdmissionPool::ask(const plugin::WebhookSpec& webhook,
                        kube::AdmissionQuestion question,
                        kube::AdmissionDone done) {
    // shared by the queue, the handler's thread and the loop
    auto state = std::make_shared<AdmissionState>();
    state->webhook = &webhook;
    state->question = std::move(question);
    state->done = std::move(done);
    if (unit_.live().ctl == nullptr) {
        return finish(*state, fail(Code::unavailable, "the plugin is not running"));
    }
    {
        const std::lock_guard lock(mutex_);
        if (stopping_ || waiting_.size() >= kAdmissionWaitingMax) {
            return finish(*state, fail(Code::overloaded, "too many reviews wait for this plugin"));
        }
        waiting_.push_back(state);
    }
    net::Loop& loop = unit_.core()->parts.loop;
    state->limit = loop.at(state->question.deadline,
                           [this, state, unit = unit_.shared_from_this()] { on_limit(state); });
    start_thread();
    signal_->notify();
}

void AdmissionPool::on_limit(const StatePtr& state) {
    {
        const std::lock_guard lock(mutex_);
        state->late = true;
        stuck_ += state->running ? 1 : 0;
        std::erase(waiting_, state);
    }
    // Posted: it is the timer that runs this.
    unit_.core()->parts.loop.post(
        [state] { finish(*state, fail(Code::timeout, "the webhook did not answer in time")); });
    start_thread();
}

void AdmissionPool::start_thread() {
    {
        const std::lock_guard lock(mutex_);
        const std::size_t idle = threads_.size() - busy_;
        const std::size_t allowed = kAdmissionThreads + std::min(stuck_, kAdmissionStuckMax);
        if (stopping_ || waiting_.size() <= idle || threads_.size() >= allowed) {
            return;
        }
    }
    auto thread = unit_.core()->parts.threads.start(unit_.short_name() + "/webhook",
                                                    [this, unit = unit_.shared_from_this()] {
                                                        work();
                                                        unit->thread_ended();
                                                    });
    if (!thread) {
        unit_.log().error("no thread for a webhook", {{"error", thread.error().message}});
        return;
    }
    const std::lock_guard lock(mutex_);
    threads_.push_back(std::move(thread).value());
}

void AdmissionPool::stop() {
    std::deque<StatePtr> left;
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        left.swap(waiting_);
    }
    unit_.core()->parts.loop.post([left = std::move(left)] {
        for (const StatePtr& state : left) {
            finish(*state, fail(Code::unavailable, "the plugin is stopping"));
        }
    });
    signal_->notify();
}

bool AdmissionPool::ended() const {
    const std::lock_guard lock(mutex_);
    return std::all_of(
        threads_.begin(), threads_.end(), [](const auto& thread) { return thread->ended(); });
}

void AdmissionPool::abandon() {
    const std::lock_guard lock(mutex_);
    for (const auto& thread : threads_) {
        if (!thread->ended()) {
            thread->abandon();
        }
    }
}

void AdmissionPool::join() {
    const std::lock_guard lock(mutex_);
    threads_.clear();
}

void AdmissionPool::work() {
    for (;;) {
        StatePtr state;
        bool more = false;
        {
            const std::lock_guard lock(mutex_);
            if (stopping_) {
                break;
            }
            if (!waiting_.empty()) {
                state = std::move(waiting_.front());
                waiting_.pop_front();
                state->running = true;
                ++busy_;
                more = !waiting_.empty();
            }
        }
        if (more) {
            signal_->notify();
        }
        if (state == nullptr) {
            signal_->wait_until(kNever);
            continue;
        }
        review(state);
    }
    signal_->notify();  // the next one ends too
}

void AdmissionPool::review(const StatePtr& state) {
    auto result = run(state);
    {
        const std::lock_guard lock(mutex_);
        state->running = false;
        --busy_;
        stuck_ -= state->late ? 1 : 0;
    }
    // The state goes with it: its timer ends on the loop.
    unit_.core()->parts.loop.post(
        [state, r = std::make_shared<Result<kube::AdmissionAnswer>>(std::move(result))] {
            finish(*state, std::move(*r));
        });
}

Result<kube::AdmissionAnswer> AdmissionPool::run(const StatePtr& state) {
    const std::shared_ptr<Core>& core = unit_.core();
    const plugin::WebhookSpec& webhook = *state->webhook;
    const Unit::Live live = unit_.live();
    auto call = std::make_shared<CallState>(core, unit_.shared_from_this(), CallKind::admission);
    call->instance = live.generation;
    call->ctl = live.ctl;
    call->what = "webhook " + unit_.short_name() + "/" + webhook.name;
    call->log = unit_.log().with({{"webhook", webhook.name}});
    call->deadline = state->question.deadline;
    call->fence_at = call->deadline + core->options.call_grace;
    call->admission = state;
    call->reads_only = webhook.side_effects == "None" || state->question.dry_run;
    if (live.ctl == nullptr || !unit_.begin(call)) {
        return fail(Code::unavailable, "the plugin is not running");
    }
    const std::string request = json::dump(state->question.request);
    const capstan_admission_request asked{{sizeof(capstan_admission_request), CAPSTAN_ABI},
                                          str(webhook.name),
                                          str(request),
                                          ns_of(call->deadline)};
    capstan_rc rc = CAPSTAN_OK;
    {
        const CurrentCall current(*call);
        rc = unit_.plugin().webhook->review(live.ctl, call->handle, &asked);
    }
    unit_.end(call);
    if (rc == CAPSTAN_E_PANIC) {
        core->metrics.webhook_panics.add();
        return fail(Code::internal, "the webhook's handler panicked");
    }
    using Stage = CallState::Stage;
    const Stage stage = call->stage_at_end();
    const std::lock_guard lock(call->mutex);
    if (!state->answer && (stage == Stage::timed_out || stage == Stage::fenced)) {
        return fail(Code::timeout, "the webhook did not answer in time");
    }
    if (rc != CAPSTAN_OK) {
        call->log.warn("webhook failed", {{"code", rc}});
        return fail(Code::internal, "the webhook failed with code " + std::to_string(rc));
    }
    if (!state->answer) {
        call->log.warn("webhook gave no answer");
        return fail(Code::internal, "the webhook gave no answer");
    }
    return std::move(*state->answer);
}

}  // namespace capstan::control
