#include "runtime/control/threads.hpp"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>

namespace capstan::control {
namespace {

class RealSignal final : public Signal {
public:
    bool wait_until(MonotonicTime until) override {
        std::unique_lock lock(mutex_);
        const auto noticed = [this] { return noticed_; };
        if (until == kNever) {
            changed_.wait(lock, noticed);
        } else {
            // MonotonicTime is CLOCK_MONOTONIC, which is steady_clock here.
            changed_.wait_until(lock, std::chrono::steady_clock::time_point(until), noticed);
        }
        return std::exchange(noticed_, false);
    }
    void notify() noexcept override {
        {
            const std::lock_guard lock(mutex_);
            noticed_ = true;
        }
        changed_.notify_one();
    }

private:
    std::mutex mutex_;  // guards noticed_
    std::condition_variable changed_;
    bool noticed_{false};
};

struct Start {
    std::string name;
    std::function<void()> body;
    std::shared_ptr<std::atomic<bool>> ended;  // shared: outlives an abandoned handle
};

void* run(void* argument) {
    const std::unique_ptr<Start> start(static_cast<Start*>(argument));
    pthread_setname_np(pthread_self(), start->name.substr(0, 15).c_str());
    start->body();
    start->body = nullptr;
    start->ended->store(true);
    return nullptr;
}

class RealThread final : public Thread {
public:
    RealThread(pthread_t id, std::shared_ptr<std::atomic<bool>> ended)
        : id_(id), ended_(std::move(ended)) {}
    ~RealThread() override {
        if (!abandoned_) {
            pthread_join(id_, nullptr);
        }
    }
    bool ended() const noexcept override { return ended_->load(); }
    void abandon() noexcept override {
        if (!abandoned_) {
            abandoned_ = true;
            pthread_detach(id_);
        }
    }

private:
    const pthread_t id_;
    const std::shared_ptr<std::atomic<bool>> ended_;
    bool abandoned_{false};
};

class RealThreads final : public Threads {
public:
    Result<std::unique_ptr<Thread>> start(std::string name, std::function<void()> body) override {
        auto ended = std::make_shared<std::atomic<bool>>(false);
        auto start = std::make_unique<Start>(Start{std::move(name), std::move(body), ended});
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, kStackBytes);
        pthread_t id{};
        const int failure = pthread_create(&id, &attributes, &run, start.get());
        pthread_attr_destroy(&attributes);
        if (failure != 0) {
            return fail(Code::unavailable,
                        "cannot start thread " + start->name + ": " + std::strerror(failure));
        }
        static_cast<void>(start.release());  // run() owns it
        return std::unique_ptr<Thread>(std::make_unique<RealThread>(id, std::move(ended)));
    }
    std::unique_ptr<Signal> make_signal() override { return std::make_unique<RealSignal>(); }
    void yield_point() noexcept override {}
};

}  // namespace

std::unique_ptr<Threads> make_threads() {
    return std::make_unique<RealThreads>();
}

}  // namespace capstan::control
