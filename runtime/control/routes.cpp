#include "runtime/control/routes.hpp"

#include "runtime/control/host_tables.hpp"
#include "runtime/control/unit.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace capstan::control {
namespace {

void answer(net::ServerExchange& exchange, int status, std::string_view text, bool retry) {
    net::Headers headers{{"Content-Type", "text/plain; charset=utf-8"}};
    if (retry) {
        headers.emplace_back("Retry-After", "1");
    }
    exchange.respond(status, std::move(headers), std::string(text) + "\n");
}

}  // namespace

std::string describe_request(const net::ServerExchange& exchange) {
    json::Value headers = json::object();
    for (const auto& [name, value] : exchange.headers()) {
        std::string lower = name;
        std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
            return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        });
        headers.set(lower, value);
    }
    json::Value organizations = json::list();
    for (const std::string& organization : exchange.certificate_organizations()) {
        organizations.push_back(organization);
    }
    const std::string& target = exchange.target();
    const std::size_t question = std::min(target.find('?'), target.size());
    return json::dump({{"method", exchange.method()},
                       {"target", target},
                       {"path", target.substr(0, question)},
                       {"query", target.substr(std::min(question + 1, target.size()))},
                       {"headers", std::move(headers)},
                       {"remote", exchange.remote()},
                       {"tls", exchange.over_tls()},
                       {"certificate", exchange.certified()},
                       {"commonName", exchange.certificate_common_name()},
                       {"organizations", std::move(organizations)}});
}

RoutePool::RoutePool(Unit& unit)
    : unit_(unit),
      quick_signal_(unit.core()->parts.threads.make_signal()),
      long_signal_(unit.core()->parts.threads.make_signal()) {}

const plugin::RouteSpec* RoutePool::match(std::string_view path,
                                          std::string_view method,
                                          bool* method_wrong) const {
    const plugin::RouteSpec* best = nullptr;
    for (const plugin::RouteSpec& route : unit_.manifest().routes) {
        const bool fits = route.path.empty() ? path.starts_with(route.prefix) : path == route.path;
        if (!fits) {
            continue;
        }
        if (!route.methods.empty() &&
            std::find(route.methods.begin(), route.methods.end(), method) == route.methods.end()) {
            *method_wrong = true;
            continue;
        }
        // An exact path before a prefix, a longer prefix before a shorter one.
        if (best == nullptr ||
            (best->path.empty() &&
             (!route.path.empty() || route.prefix.size() > best->prefix.size()))) {
            best = &route;
        }
    }
    return best;
}

void RoutePool::serve(const plugin::RouteSpec& route,
                      std::shared_ptr<net::ServerExchange> exchange) {
    // shared between the handle, the loop and the handler's thread
    auto state = std::make_shared<ExchangeState>();
    state->request_json = describe_request(*exchange);
    state->exchange = std::move(exchange);
    bool busy = false;
    bool start_quick = false;
    bool start_long = false;
    {
        const std::lock_guard lock(mutex_);
        busy = stopping_ || (route.runs_long ? long_busy_ >= kLongThreadsMax
                                             : quick_.size() >= kQuickWaitingMax);
        if (!busy && route.runs_long) {
            ++long_busy_;
            long_.push_back({&route, state});
            start_long = long_workers_.size() < long_busy_;
        } else if (!busy) {
            quick_.push_back({&route, state});
            start_quick = quick_wanted();
        }
    }
    if (busy) {
        answer(*state->exchange, 503, "too many requests of this kind are being answered", true);
        return;
    }
    if (start_quick || start_long) {
        start_thread(start_long);
    }
    (route.runs_long ? long_signal_ : quick_signal_)->notify();
}

bool RoutePool::quick_wanted() {
    const bool wanted = !stopping_ && quick_alive_ < quick_max();
    quick_alive_ += wanted ? 1 : 0;
    return wanted;
}

void RoutePool::start_thread(bool long_class) {
    auto thread =
        unit_.core()->parts.threads.start(unit_.short_name() + (long_class ? "/long" : "/quick"),
                                          [this, long_class, unit = unit_.shared_from_this()] {
                                              work(long_class);
                                              unit->thread_ended();
                                          });
    std::vector<Worker> ended;  // joined without the lock
    const std::lock_guard lock(mutex_);
    if (!thread) {
        unit_.log().error("no thread for a request", {{"error", thread.error().message}});
        quick_alive_ -= long_class ? 0 : 1;
        return;
    }
    std::vector<Worker>& workers = long_class ? long_workers_ : quick_workers_;
    const auto gone = std::stable_partition(
        workers.begin(), workers.end(), [](const Worker& w) { return !w.thread->ended(); });
    ended.assign(std::make_move_iterator(gone), std::make_move_iterator(workers.end()));
    workers.erase(gone, workers.end());
    workers.push_back({std::move(thread).value()});
}

// Long ones have time enough, and more of them are refused.
void RoutePool::replace_worker(const CallState& stuck) {
    {
        const std::lock_guard lock(mutex_);
        if (!quick_calls_.contains(&stuck)) {
            return;  // a long one, or it has just returned
        }
        stuck_.insert(&stuck);
        if (!quick_wanted()) {
            return;
        }
    }
    start_thread(false);
}

void RoutePool::stop() {
    std::deque<Job> left;
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        left.swap(quick_);
        std::move(long_.begin(), long_.end(), std::back_inserter(left));
        long_.clear();
    }
    unit_.core()->parts.loop.post([left = std::move(left)] {
        for (const Job& job : left) {
            answer(*job.exchange->exchange, 503, "the plugin is stopping", true);
            job.exchange->exchange.reset();
        }
    });
    quick_signal_->notify();
    long_signal_->notify();
}

bool RoutePool::ended() const {
    const std::lock_guard lock(mutex_);
    const auto gone = [](const Worker& w) { return w.thread->ended(); };
    return std::all_of(quick_workers_.begin(), quick_workers_.end(), gone) &&
           std::all_of(long_workers_.begin(), long_workers_.end(), gone);
}

void RoutePool::abandon() {
    const std::lock_guard lock(mutex_);
    for (auto* list : {&quick_workers_, &long_workers_}) {
        for (Worker& worker : *list) {
            if (!worker.thread->ended()) {
                worker.thread->abandon();
            }
        }
    }
}

void RoutePool::join() {
    const std::lock_guard lock(mutex_);
    quick_workers_.clear();
    long_workers_.clear();
}

void RoutePool::work(bool long_class) {
    std::deque<Job>& jobs = long_class ? long_ : quick_;
    Signal& signal = long_class ? *long_signal_ : *quick_signal_;
    for (;;) {
        std::optional<Job> job;
        bool more = false;
        {
            const std::lock_guard lock(mutex_);
            if (stopping_) {
                break;
            }
            if (!jobs.empty()) {
                job = std::move(jobs.front());
                jobs.pop_front();
                more = !jobs.empty();
            }
        }
        if (more) {
            signal.notify();
        }
        if (!job) {
            signal.wait_until(kNever);
            continue;
        }
        handle(*job);
        const std::lock_guard lock(mutex_);
        long_busy_ -= long_class ? 1 : 0;
        if (!long_class && quick_alive_ > quick_max()) {
            break;  // another one has taken its place
        }
    }
    {
        const std::lock_guard lock(mutex_);
        quick_alive_ -= long_class ? 0 : 1;
    }
    signal.notify();  // the next one ends too
}

void RoutePool::handle(const Job& job) {
    const std::shared_ptr<Core>& core = unit_.core();
    const Unit::Live live = unit_.live();
    auto call = std::make_shared<CallState>(core, unit_.shared_from_this(), CallKind::route);
    call->instance = live.generation;
    call->ctl = live.ctl;
    call->what = "route " + unit_.short_name() + "/" + job.route->name;
    call->log = unit_.log().with({{"route", job.route->name}});
    call->deadline = core->now() + (job.route->runs_long ? std::chrono::nanoseconds(kLongDeadline)
                                                         : kQuickDeadline);
    call->fence_at = call->deadline + core->options.call_grace;
    job.exchange->call = call;
    auto* exchange = static_cast<capstan_exchange*>(handles().exchanges.insert(job.exchange));
    if (live.ctl == nullptr || exchange == nullptr || !unit_.begin(call)) {
        handles().exchanges.take(exchange);
        core->parts.loop.post([e = job.exchange] {
            answer(*e->exchange, 503, "the plugin is not running", true);
            e->exchange.reset();
        });
        return;
    }
    const bool quick = !job.route->runs_long;
    if (quick) {
        const std::lock_guard lock(mutex_);
        quick_calls_.insert(call.get());
    }
    {
        const CurrentCall current(*call);
        unit_.plugin().http_server->handle(live.ctl, call->handle, str(job.route->name), exchange);
    }
    handles().exchanges.take(exchange);
    unit_.end(call);
    if (quick) {
        const std::lock_guard lock(mutex_);
        quick_calls_.erase(call.get());
        stuck_.erase(call.get());
    }
    core->parts.loop.post([e = job.exchange] {
        if (!e->head_sent && e->exchange != nullptr) {
            answer(*e->exchange, 500, "the plugin gave no answer", false);
        } else if (!e->ended && e->exchange != nullptr) {
            e->exchange->end();
        }
        e->exchange.reset();
    });
}

}  // namespace capstan::control
