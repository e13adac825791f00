#include "runtime/net/io_loop_impl.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <utility>

namespace capstan::net {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Each handle shares its state with the pending operation, so that destroying the
// handle silences it at once.
class AsioTimer final : public Timer {
public:
    struct State {
        State(asio::io_context& context, std::function<void()> t)
            : timer(context), task(std::move(t)) {}
        asio::steady_timer timer;
        std::function<void()> task;
    };

    explicit AsioTimer(std::shared_ptr<State> state) : state_(std::move(state)) {}
    ~AsioTimer() override {
        state_->task = nullptr;
        state_->timer.cancel();
    }
    AsioTimer(const AsioTimer&) = delete;
    AsioTimer& operator=(const AsioTimer&) = delete;

private:
    std::shared_ptr<State> state_;
};

class SignalWatch final : public Watch {
public:
    struct State : std::enable_shared_from_this<State> {
        State(asio::io_context& context, std::function<void()> f)
            : signals(context), fired(std::move(f)) {}
        void wait() {
            signals.async_wait([self = shared_from_this()](const error_code& error, int) {
                if (error || !self->fired) {
                    return;
                }
                const auto call = self->fired;  // the call may destroy the watch
                call();
                if (self->fired) {
                    self->wait();
                }
            });
        }
        asio::signal_set signals;
        std::function<void()> fired;
    };

    explicit SignalWatch(std::shared_ptr<State> state) : state_(std::move(state)) {}
    ~SignalWatch() override {
        state_->fired = nullptr;
        error_code ignored;
        state_->signals.cancel(ignored);
    }
    SignalWatch(const SignalWatch&) = delete;
    SignalWatch& operator=(const SignalWatch&) = delete;

private:
    std::shared_ptr<State> state_;
};

class ReadableWatch final : public Watch {
public:
    struct State : std::enable_shared_from_this<State> {
        State(asio::io_context& context, std::function<void()> r)
            : descriptor(context), ready(std::move(r)) {}
        void wait() {
            descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                  [self = shared_from_this()](const error_code& error) {
                                      if (error || !self->ready) {
                                          return;
                                      }
                                      // the call may destroy the watch
                                      const auto call = self->ready;
                                      call();
                                      if (self->ready) {
                                          self->wait();
                                      }
                                  });
        }
        asio::posix::stream_descriptor descriptor;
        std::function<void()> ready;
    };

    explicit ReadableWatch(std::shared_ptr<State> state) : state_(std::move(state)) {}
    ~ReadableWatch() override {
        state_->ready = nullptr;
        state_->descriptor.release();  // cancels; the descriptor stays open, it is borrowed
    }
    ReadableWatch(const ReadableWatch&) = delete;
    ReadableWatch& operator=(const ReadableWatch&) = delete;

private:
    std::shared_ptr<State> state_;
};

}  // namespace

IoLoopImpl::IoLoopImpl() : work_(asio::make_work_guard(context_)) {}
IoLoopImpl::~IoLoopImpl() = default;

MonotonicTime IoLoopImpl::now() const noexcept {
    return std::chrono::steady_clock::now().time_since_epoch();
}

WallTime IoLoopImpl::wall_now() const noexcept {
    return std::chrono::time_point_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now());
}

void IoLoopImpl::post(std::function<void()> task) {
    asio::post(context_, std::move(task));
}

std::unique_ptr<Timer> IoLoopImpl::at(MonotonicTime when, std::function<void()> task) {
    auto state = std::make_shared<AsioTimer::State>(context_, std::move(task));
    if (when != kNever) {
        state->timer.expires_at(asio::steady_timer::time_point(when));
        state->timer.async_wait([state](const error_code& error) {
            if (error || !state->task) {
                return;
            }
            const auto call = std::exchange(state->task, nullptr);
            call();
        });
    }
    return std::make_unique<AsioTimer>(std::move(state));
}

bool IoLoopImpl::is_loop_thread() const noexcept {
    return thread_.load() == std::this_thread::get_id();
}

void IoLoopImpl::run() {
    thread_.store(std::this_thread::get_id());
    while (!stopping_.load()) {
        context_.run_one();
    }
    const MonotonicTime end = now() + kDrainMax;
    while (context_.poll_one() > 0 && now() < end) {
    }
    stopping_.store(false);
    thread_.store(std::thread::id());
}

bool IoLoopImpl::run_until(std::function<bool()> done, std::chrono::nanoseconds limit) {
    thread_.store(std::this_thread::get_id());
    const auto end = std::chrono::steady_clock::now() + limit;
    bool reached = done();
    while (!reached && !stopping_.load() && std::chrono::steady_clock::now() < end) {
        context_.run_one_until(end);
        reached = done();
    }
    stopping_.store(false);
    thread_.store(std::thread::id());
    return reached;
}

void IoLoopImpl::stop() noexcept {
    stopping_.store(true);
    asio::post(context_, [] {});  // wakes run_one
}

Result<std::unique_ptr<Watch>> IoLoopImpl::on_signal(int signal, std::function<void()> fired) {
    auto state = std::make_shared<SignalWatch::State>(context_, std::move(fired));
    error_code error;
    state->signals.add(signal, error);
    if (error) {
        return fail(Code::invalid,
                    "watch signal " + std::to_string(signal) + ": " + error.message());
    }
    state->wait();
    return std::unique_ptr<Watch>(std::make_unique<SignalWatch>(std::move(state)));
}

Result<std::unique_ptr<Watch>> IoLoopImpl::on_readable(int fd, std::function<void()> ready) {
    auto state = std::make_shared<ReadableWatch::State>(context_, std::move(ready));
    error_code error;
    state->descriptor.assign(fd, error);
    if (error) {
        return fail(Code::invalid,
                    "watch descriptor " + std::to_string(fd) + ": " + error.message());
    }
    state->wait();
    return std::unique_ptr<Watch>(std::make_unique<ReadableWatch>(std::move(state)));
}

std::unique_ptr<IoLoop> make_loop() {
    return std::make_unique<IoLoopImpl>();
}

asio::io_context& context_of(IoLoop& loop) noexcept {
    auto* impl = dynamic_cast<IoLoopImpl*>(&loop);
    CAPSTAN_CHECK(impl != nullptr, "the loop must come from make_loop()");
    return impl->context();
}

}  // namespace capstan::net
