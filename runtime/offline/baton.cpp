#include "runtime/offline/baton.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace capstan::offline {
namespace {

// Not sem_t: ThreadSanitizer does not know sem_clockwait and would see no order in a hand-over.
class Semaphore {
public:
    void post() {
        {
            const std::lock_guard lock(mutex_);
            ++count_;
        }
        changed_.notify_one();
    }
    void wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return count_ > 0; });
        --count_;
    }
    bool wait_for(std::chrono::seconds limit) {
        std::unique_lock lock(mutex_);
        const auto until = std::chrono::steady_clock::now() + limit;
        if (!changed_.wait_until(lock, until, [this] { return count_ > 0; })) {
            return false;
        }
        --count_;
        return true;
    }

private:
    std::mutex mutex_;  // guards count_
    std::condition_variable changed_;
    int count_{0};
};

thread_local void* this_actor = nullptr;

}  // namespace

struct Baton::Actor {
    std::string name;
    std::function<void()> body;
    std::thread thread;
    Semaphore go, back;
    // Everything below is touched only by whoever holds the baton.
    const bool* wakes{nullptr};  // what it waits for; nullptr: it can run
    MonotonicTime until{kNever};
    bool ended{false};
};

class Baton::SimSignal final : public control::Signal {
public:
    explicit SimSignal(Baton& baton) : baton_(baton) {}
    bool wait_until(MonotonicTime until) override {
        auto* actor = static_cast<Actor*>(this_actor);
        CAPSTAN_CHECK(actor != nullptr, "only threads of the baton may wait");
        actor->wakes = &noticed_;
        actor->until = until;
        do {
            baton_.pause(*actor);
        } while (!noticed_ && baton_.loop_.now() < until);
        actor->wakes = nullptr;
        return std::exchange(noticed_, false);
    }
    void notify() noexcept override { noticed_ = true; }

private:
    Baton& baton_;
    bool noticed_{false};
};

class Baton::SimThread final : public control::Thread {
public:
    explicit SimThread(std::shared_ptr<Actor> actor) : actor_(std::move(actor)) {}
    ~SimThread() override {
        CAPSTAN_CHECK(actor_->ended || abandoned_, "thread " + actor_->name + " is still running");
    }
    bool ended() const noexcept override { return actor_->ended; }
    void abandon() noexcept override { abandoned_ = true; }

private:
    const std::shared_ptr<Actor> actor_;
    bool abandoned_{false};
};

Baton::Baton(VirtualLoop& loop,
             std::uint64_t seed,
             std::function<void(const std::string& name)> on_stall)
    : loop_(loop), random_(seed), on_stall_(std::move(on_stall)) {}

Baton::~Baton() {
    CAPSTAN_CHECK(living() == 0, describe());
    for (auto& actor : actors_) {
        actor->thread.join();
    }
}

Result<std::unique_ptr<control::Thread>> Baton::start(std::string name,
                                                      std::function<void()> body) {
    auto actor = std::make_shared<Actor>();
    actor->name = std::move(name);
    actor->body = std::move(body);
    actor->thread = std::thread([a = actor.get()] {
        this_actor = a;
        a->go.wait();
        a->body();
        a->body = nullptr;
        a->ended = true;
        a->back.post();
    });
    actors_.push_back(actor);
    return std::unique_ptr<control::Thread>(std::make_unique<SimThread>(std::move(actor)));
}

std::unique_ptr<control::Signal> Baton::make_signal() {
    return std::make_unique<SimSignal>(*this);
}

void Baton::yield_point() noexcept {
    if (auto* actor = static_cast<Actor*>(this_actor); actor != nullptr) {
        pause(*actor);
    }
}

void Baton::pause(Actor& actor) {
    actor.back.post();
    actor.go.wait();
}

void Baton::switch_to(Actor& actor) {
    running_ = &actor;
    actor.go.post();
    if (!actor.back.wait_for(kStallMax)) {
        if (on_stall_) {
            on_stall_(actor.name);
        }
        std::fprintf(stderr,
                     "baton: \"%s\" does not come back; it blocks outside a Signal, or holds a "
                     "mutex while waiting\n%s",
                     actor.name.c_str(),
                     describe().c_str());
        std::abort();
    }
    running_ = nullptr;
}

bool Baton::step() {
    runnable_.clear();
    const auto now = loop_.now();
    for (std::size_t i = 0; i < actors_.size();) {
        Actor& a = *actors_[i];
        if (a.ended) {
            a.thread.join();
            actors_.erase(actors_.begin() + static_cast<std::ptrdiff_t>(i));
            continue;
        }
        if (a.wakes == nullptr || *a.wakes || a.until <= now) {
            runnable_.push_back(&a);
        }
        ++i;
    }
    // Index 0 is the loop; whether it has something to do shows only when it is asked.
    const auto choice = static_cast<std::size_t>(random_() % (runnable_.size() + 1));
    std::uint64_t taken = choice;
    if (choice == 0) {
        if (!loop_.step()) {
            if (runnable_.empty()) {
                return false;
            }
            const auto other = static_cast<std::size_t>(random_() % runnable_.size());
            taken = other + 1;
            switch_to(*runnable_[other]);
        }
    } else {
        switch_to(*runnable_[choice - 1]);
    }
    ++steps_;
    trace_ = (trace_ ^ (taken + 257 * runnable_.size() + static_cast<std::uint64_t>(now.count()))) *
             1099511628211ull;
    return true;
}

bool Baton::advance(MonotonicTime limit) {
    MonotonicTime next = loop_.next_timer();
    for (const auto& a : actors_) {
        if (!a->ended && a->wakes != nullptr) {
            next = std::min(next, a->until);
        }
    }
    if (next == kNever || next > limit) {
        return false;
    }
    loop_.move_to(std::max(next, loop_.now()));
    return true;
}

bool Baton::run_until(const std::function<bool()>& done,
                      MonotonicTime limit,
                      std::uint64_t steps_max) {
    for (std::uint64_t i = 0; i < steps_max; ++i) {
        if (done()) {
            return true;
        }
        if (!step() && !advance(limit)) {
            if (limit != kNever && loop_.now() < limit) {
                loop_.move_to(limit);
            }
            return done();
        }
    }
    return false;
}

void Baton::run_for(std::chrono::nanoseconds duration) {
    run_until([] { return false; }, loop_.now() + duration);
}

std::size_t Baton::living() const noexcept {
    return static_cast<std::size_t>(
        std::count_if(actors_.begin(), actors_.end(), [](const auto& a) { return !a->ended; }));
}

std::string Baton::describe() const {
    std::string text;
    for (const auto& a : actors_) {
        if (!a->ended) {
            const char* state = a->wakes == nullptr ? ": runnable\n" : ": waiting\n";
            text += "  " + a->name + (a.get() == running_ ? ": running\n" : state);
        }
    }
    return text;
}

}  // namespace capstan::offline
