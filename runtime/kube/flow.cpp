#include "runtime/kube/flow.hpp"

#include "capstan/error.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace capstan::kube {
namespace {

constexpr double kCutOverloaded = 0.5;
constexpr double kCutSlow = 0.9;
constexpr int kSlowFactor = 10;       // of the usual time
constexpr double kUsualDrift = 1.02;  // the usual time follows a server that became slower
constexpr int kPausesCounted = 6;

constexpr FlowLimits kMutate{};
constexpr FlowLimits kRead{};
// Lists are what costs a server most.
constexpr FlowLimits kList{8, 1, 16, std::chrono::seconds(20)};

}  // namespace

FlowLimit::FlowLimit(FlowLimits limits, Random random)
    : limits_(limits), random_(std::move(random)), limit_(limits.first) {}

bool FlowLimit::admits(MonotonicTime now) const noexcept {
    const double limit = alone_ ? 1.0 : limit_;
    return now >= paused_until_ && static_cast<double>(in_flight_) + 1 <= std::max(limit, 1.0);
}

void FlowLimit::ended(MonotonicTime now,
                      MonotonicTime sent_at,
                      FlowOutcome outcome,
                      std::chrono::milliseconds retry_after) {
    CAPSTAN_CHECK(in_flight_ > 0, "ended() without sent()");
    const bool was_full = 2 * static_cast<double>(in_flight_) >= limit_;
    --in_flight_;
    switch (outcome) {
        case FlowOutcome::good:
            if (sent_at > pause_set_) {
                alone_ = false;
                pauses_ = 0;
                failures_ = 0;
            }
            if (usual_ != kNever && now - sent_at > limits_.slow &&
                now - sent_at > kSlowFactor * usual_) {
                cut(now, sent_at, kCutSlow);
            } else {
                grow(now - sent_at, was_full);
            }
            break;
        case FlowOutcome::overloaded:
            cut(now, sent_at, kCutOverloaded);
            pause(now, sent_at, retry_after);
            break;
        case FlowOutcome::timeout: cut(now, sent_at, kCutOverloaded); break;
        case FlowOutcome::failed: note_failure(now, sent_at); break;
        case FlowOutcome::dropped: break;
    }
}

// A server that fails is not asked more than once a second; one object that always fails is no
// such server, as long as others succeed.
void FlowLimit::note_failure(MonotonicTime now, MonotonicTime sent_at) {
    if (sent_at <= pause_set_) {
        return;
    }
    failures_ = std::min(failures_ + 1, kFailuresInRow);
    if (failures_ < kFailuresInRow) {
        return;
    }
    pause_set_ = now;
    const std::chrono::duration<double, std::nano> wait = std::chrono::nanoseconds(kPauseFirst);
    const auto spread =
        std::chrono::duration_cast<std::chrono::nanoseconds>(wait * (1 + kPauseJitter * random_()));
    paused_until_ = std::max(paused_until_, now + spread);
    alone_ = true;
}

// Once for all requests that were under way together.
void FlowLimit::cut(MonotonicTime now, MonotonicTime sent_at, double factor) {
    if (sent_at > cut_at_) {
        cut_at_ = now;
        limit_ = std::max(limits_.least, limit_ * factor);
    }
}

void FlowLimit::pause(MonotonicTime now,
                      MonotonicTime sent_at,
                      std::chrono::milliseconds retry_after) {
    if (sent_at > pause_set_) {
        ++pauses_;
        pause_set_ = now;
    }
    auto wait = std::clamp(retry_after, kPauseFirst, kPauseAskedMax);
    for (int i = 1; i < std::min(pauses_, kPausesCounted); ++i) {
        wait = std::max(wait, std::min(2 * wait, kPauseMax));
    }
    const double jitter = 1 - kPauseJitter + 2 * kPauseJitter * random_();
    const std::chrono::nanoseconds whole(wait);
    const auto spread = std::chrono::nanoseconds(
        static_cast<std::int64_t>(std::llround(static_cast<double>(whole.count()) * jitter)));
    paused_until_ = std::max(paused_until_, now + spread);
    alone_ = true;
}

void FlowLimit::grow(MonotonicTime took, bool was_full) {
    usual_ = usual_ == kNever
                 ? took
                 : std::min(took,
                            MonotonicTime(static_cast<std::int64_t>(
                                static_cast<double>(usual_.count()) * kUsualDrift + 1)));
    if (was_full) {
        limit_ = std::min(limits_.most, limit_ + 1 / limit_);
    }
}

struct Flow::State : std::enable_shared_from_this<Flow::State> {
    struct Waiter {
        std::function<void()> go;
        bool sent{false};
        bool over{false};
        MonotonicTime sent_at{0};
    };
    struct Lane {
        FlowLimit limit;
        std::deque<std::shared_ptr<Waiter>> queue;
        std::unique_ptr<net::Timer> timer;
        MonotonicTime timer_at{kNever};
    };

    State(net::Loop& l, const FlowLimit::Random& random)
        : loop(l),
          lanes{Lane{FlowLimit(kMutate, random), {}, nullptr},
                Lane{FlowLimit(kRead, random), {}, nullptr},
                Lane{FlowLimit(kList, random), {}, nullptr}} {}

    void send_next(std::size_t which) {
        Lane& lane = lanes[which];
        while (!closed && !lane.queue.empty()) {
            if (lane.queue.front()->over) {
                lane.queue.pop_front();
                continue;
            }
            if (!lane.limit.admits(loop.now())) {
                break;
            }
            const std::shared_ptr<Waiter> next = std::move(lane.queue.front());
            lane.queue.pop_front();
            lane.limit.sent();
            next->sent = true;
            next->sent_at = loop.now();
            const auto go = std::exchange(next->go, nullptr);
            go();
        }
        wait_for_pause(which);
    }
    void wait_for_pause(std::size_t which) {
        Lane& lane = lanes[which];
        const MonotonicTime until = lane.limit.paused_until();
        if (closed || lane.queue.empty() || until <= loop.now() ||
            (lane.timer && lane.timer_at == until)) {
            return;
        }
        lane.timer_at = until;
        lane.timer = loop.at(until, [weak = weak_from_this(), which] {
            if (const auto state = weak.lock()) {
                const auto fired = std::move(state->lanes[which].timer);
                state->send_next(which);
            }
        });
    }
    void end(std::size_t which,
             Waiter& waiter,
             FlowOutcome outcome,
             std::chrono::milliseconds retry_after) {
        if (std::exchange(waiter.over, true)) {
            return;
        }
        const auto go = std::exchange(waiter.go, nullptr);  // its captures die late
        if (waiter.sent) {
            lanes[which].limit.ended(loop.now(), waiter.sent_at, outcome, retry_after);
        }
        // Posted: whoever gives a place back is in the middle of something.
        if (!closed && !lanes[which].queue.empty()) {
            loop.post([weak = weak_from_this(), which] {
                if (const auto state = weak.lock()) {
                    state->send_next(which);
                }
            });
        }
    }

    net::Loop& loop;
    std::array<Lane, kFlowClasses> lanes;
    bool closed{false};

    class Ticket final : public FlowTicket {
    public:
        Ticket(std::shared_ptr<State> state, std::size_t which, std::shared_ptr<Waiter> waiter)
            : state_(std::move(state)), which_(which), waiter_(std::move(waiter)) {}
        ~Ticket() override { state_->end(which_, *waiter_, FlowOutcome::dropped, {}); }
        Ticket(const Ticket&) = delete;
        Ticket& operator=(const Ticket&) = delete;
        void ended(FlowOutcome outcome, std::chrono::milliseconds retry_after) override {
            state_->end(which_, *waiter_, outcome, retry_after);
        }

    private:
        const std::shared_ptr<State> state_;  // shared: tickets may outlive the flow
        const std::size_t which_;
        const std::shared_ptr<Waiter> waiter_;  // shared with the queue
    };
};

Flow::Flow(net::Loop& loop, FlowLimit::Random random)
    : state_(std::make_shared<State>(loop, random)) {}

Flow::~Flow() {
    state_->closed = true;
    for (auto& lane : state_->lanes) {
        lane.timer.reset();
        lane.queue.clear();
    }
}

void Flow::enter(FlowClass which, std::unique_ptr<FlowTicket>& place, std::function<void()> go) {
    const auto index = static_cast<std::size_t>(which);
    auto waiter = std::make_shared<State::Waiter>();
    waiter->go = std::move(go);
    place = std::make_unique<State::Ticket>(state_, index, waiter);
    state_->lanes[index].queue.push_back(std::move(waiter));
    state_->send_next(index);
}

const FlowLimit& Flow::limit(FlowClass which) const noexcept {
    return state_->lanes[static_cast<std::size_t>(which)].limit;
}

}  // namespace capstan::kube
