#include "runtime/local/apiserver/tick_timer.hpp"

namespace capstan::local {

TickTimer::TickTimer(net::Loop& loop, ApiServer& server) : loop_(loop), server_(server) {
    server_.set_wake([this] { arm(); });
    arm();
}

TickTimer::~TickTimer() {
    server_.set_wake(nullptr);
}

void TickTimer::arm() {
    const MonotonicTime next = server_.next_tick();
    if (next == timer_at_) {
        return;
    }
    timer_at_ = next;
    timer_.reset();
    if (next != kNever) {
        timer_ = loop_.at(next, [this] {
            timer_at_ = kNever;
            server_.tick();
            arm();
        });
    }
}

}  // namespace capstan::local
