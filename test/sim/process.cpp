#include "test/sim/process.hpp"

#include <utility>

namespace capstan::test {

struct StoppableLoop::State {
    explicit State(VirtualLoop& l) : loop(l) {}
    VirtualLoop& loop;
    bool stopped{false};
    std::deque<std::function<void()>> held;
    std::vector<std::function<void()>> wakes;

    void arrive(std::function<void()> task) {
        if (stopped || !held.empty()) {
            held.push_back(std::move(task));
        } else {
            task();
        }
    }
    // One at a time, so that others come between, as on a real loop.
    static void drain(const std::shared_ptr<State>& self) {
        if (self->stopped || self->held.empty()) {
            return;
        }
        self->loop.post([self] {
            if (self->stopped || self->held.empty()) {
                return;
            }
            const auto task = std::move(self->held.front());
            self->held.pop_front();
            task();
            drain(self);
        });
    }
};

namespace {

class HeldTimer final : public net::Timer {
public:
    HeldTimer(std::unique_ptr<net::Timer> timer, std::shared_ptr<bool> alive)
        : timer_(std::move(timer)), alive_(std::move(alive)) {}
    ~HeldTimer() override { *alive_ = false; }
    HeldTimer(const HeldTimer&) = delete;
    HeldTimer& operator=(const HeldTimer&) = delete;

private:
    std::unique_ptr<net::Timer> timer_;
    std::shared_ptr<bool> alive_;
};

}  // namespace

StoppableLoop::StoppableLoop(VirtualLoop& loop) : state_(std::make_shared<State>(loop)) {}

MonotonicTime StoppableLoop::now() const noexcept {
    return state_->loop.now();
}

WallTime StoppableLoop::wall_now() const noexcept {
    return state_->loop.wall_now();
}

bool StoppableLoop::is_loop_thread() const noexcept {
    return state_->loop.is_loop_thread();
}

void StoppableLoop::post(std::function<void()> task) {
    state_->loop.post(
        [state = state_, task = std::move(task)]() mutable { state->arrive(std::move(task)); });
}

std::unique_ptr<net::Timer> StoppableLoop::at(MonotonicTime when, std::function<void()> task) {
    auto alive = std::make_shared<bool>(true);
    auto due = [state = state_, alive, task = std::move(task)] {
        state->arrive([alive, task] {
            if (std::exchange(*alive, false)) {
                task();
            }
        });
    };
    return std::make_unique<HeldTimer>(state_->loop.at(when, std::move(due)), std::move(alive));
}

void StoppableLoop::arrive(std::function<void()> task) {
    state_->arrive(std::move(task));
}

void StoppableLoop::stop() {
    state_->stopped = true;
}

void StoppableLoop::go_on() {
    state_->stopped = false;
    State::drain(state_);
    for (const auto& wake : std::exchange(state_->wakes, {})) {
        wake();
    }
}

bool StoppableLoop::stopped() const {
    return state_->stopped;
}

void StoppableLoop::when_it_goes_on(std::function<void()> wake) {
    state_->wakes.push_back(std::move(wake));
}

class StoppableThreads::HeldSignal final : public control::Signal {
public:
    HeldSignal(StoppableThreads& threads, std::unique_ptr<control::Signal> inner)
        : threads_(threads), inner_(std::move(inner)) {}
    bool wait_until(MonotonicTime until) override {
        const bool noticed = inner_->wait_until(until);
        threads_.stay();
        return noticed;
    }
    void notify() noexcept override { inner_->notify(); }

private:
    StoppableThreads& threads_;
    const std::unique_ptr<control::Signal> inner_;
};

Result<std::unique_ptr<control::Thread>> StoppableThreads::start(std::string name,
                                                                 std::function<void()> body) {
    return baton_.start(std::move(name), [this, body = std::move(body)] {
        stay();
        body();
    });
}

std::unique_ptr<control::Signal> StoppableThreads::make_signal() {
    return std::make_unique<HeldSignal>(*this, baton_.make_signal());
}

void StoppableThreads::yield_point() noexcept {
    baton_.yield_point();
    stay();
}

void StoppableThreads::stay() noexcept {
    while (loop_.stopped()) {
        // shared with the wake, which may come after this thread has seen it
        const std::shared_ptr<control::Signal> signal = baton_.make_signal();
        loop_.when_it_goes_on([signal] { signal->notify(); });
        signal->wait_until(kNever);
    }
}

namespace {

class HeldExchange final : public net::HttpStream {
public:
    HeldExchange(std::unique_ptr<net::HttpExchange> inner,
                 net::HttpStream* stream,
                 std::shared_ptr<bool> alive)
        : inner_(std::move(inner)), stream_(stream), alive_(std::move(alive)) {}
    ~HeldExchange() override { *alive_ = false; }
    HeldExchange(const HeldExchange&) = delete;
    HeldExchange& operator=(const HeldExchange&) = delete;
    void read() override { stream_->read(); }
    void write(std::string bytes, bool last, std::function<void(Result<void>)> done) override {
        stream_->write(std::move(bytes), last, std::move(done));
    }

private:
    std::unique_ptr<net::HttpExchange> inner_;
    net::HttpStream* const stream_;  // inner_, or nullptr for a unary one
    std::shared_ptr<bool> alive_;
};

}  // namespace

std::unique_ptr<net::HttpExchange> StoppableTransport::send(
    net::HttpRequest request, std::function<void(Result<net::HttpResponse>)> done) {
    auto alive = std::make_shared<bool>(true);
    auto arrived = [this, alive, done = std::move(done)](Result<net::HttpResponse> result) {
        loop_.arrive([alive, done, result = std::move(result)] {
            if (*alive) {
                done(result);
            }
        });
    };
    auto inner = inner_.send(std::move(request), std::move(arrived));
    return std::make_unique<HeldExchange>(std::move(inner), nullptr, std::move(alive));
}

std::unique_ptr<net::HttpStream> StoppableTransport::stream(net::HttpRequest request,
                                                            net::StreamOptions options,
                                                            net::StreamHandler handler) {
    auto alive = std::make_shared<bool>(true);
    net::StreamHandler held;
    held.on_head = [this, alive, f = handler.on_head](int status, const net::Headers& headers) {
        loop_.arrive([alive, f, status, headers] {
            if (*alive && f) {
                f(status, headers);
            }
        });
    };
    held.on_data = [this, alive, f = handler.on_data](std::string_view bytes) {
        loop_.arrive([alive, f, text = std::string(bytes)] {
            if (*alive && f) {
                f(text);
            }
        });
    };
    held.on_end = [this, alive, f = handler.on_end](Result<void> result) {
        loop_.arrive([alive, f, result = std::move(result)] {
            if (*alive && f) {
                f(result);
            }
        });
    };
    auto inner = inner_.stream(std::move(request), options, std::move(held));
    net::HttpStream* const raw = inner.get();
    return std::make_unique<HeldExchange>(std::move(inner), raw, std::move(alive));
}

}  // namespace capstan::test
