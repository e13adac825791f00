#include "runtime/control/routes.hpp"

#include "runtime/control/host_tables.hpp"
#include "runtime/control/unit.hpp"

#include <algorithm>

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
            start_quick = quick_workers_.size() < kQuickThreads;
        }
    }
    if (busy) {
        answer(*state->exchange, 503, "too many requests of this kind are being answered", true);
        return;
    }
    if (start_quick || start_long) {
        auto thread = unit_.core()->parts.threads.start(
            unit_.short_name() + (start_long ? "/long" : "/quick"),
            [this, start_long, unit = unit_.shared_from_this()] {
                work(start_long);
                unit->thread_ended();
            });
        const std::lock_guard lock(mutex_);
        if (thread) {
            (start_long ? long_workers_ : quick_workers_).push_back({std::move(thread).value()});
        } else {
            unit_.log().error("no thread for a request", {{"error", thread.error().message}});
        }
    }
    (route.runs_long ? long_signal_ : quick_signal_)->notify();
}

void RoutePool::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
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
    {
        const CurrentCall current(*call);
        unit_.plugin().http_server->handle(live.ctl, call->handle, str(job.route->name), exchange);
    }
    handles().exchanges.take(exchange);
    unit_.end(call);
    core->parts.loop.post([e = job.exchange] {
        if (!e->head_sent && e->exchange != nullptr) {
            answer(*e->exchange, 500, "the plugin gave no answer", false);
        } else if (!e->ended && e->exchange != nullptr) {
            e->exchange->end();
        }
        e->exchange.reset();
    });
}

// ---- capstan.http-server/1

namespace {

std::shared_ptr<ExchangeState> find(capstan_exchange* handle,
                                    std::shared_ptr<CallState>* call,
                                    capstan_rc* rc) {
    clear_report();
    auto state = handles().exchanges.find(handle);
    *call = state == nullptr ? nullptr : state->call.lock();
    if (*call == nullptr) {
        *rc = report(CAPSTAN_E_FENCED, "this request has ended");
        return nullptr;
    }
    *rc = (*call)->check();
    if (*rc != CAPSTAN_OK) {
        report(*rc, "the call may not go on");
        return nullptr;
    }
    return state;
}

capstan_str request_json(capstan_exchange* handle) noexcept {
    const auto state = handles().exchanges.find(handle);
    return state == nullptr ? capstan_str{nullptr, 0} : str(state->request_json);
}

capstan_rc read(capstan_exchange* handle,
                char* buffer,
                std::uint64_t cap,
                std::uint64_t* n) noexcept {
    *n = 0;
    std::shared_ptr<CallState> call;
    capstan_rc rc = CAPSTAN_OK;
    const auto state = find(handle, &call, &rc);
    if (state == nullptr) {
        return rc;
    }
    auto bytes = await_on_loop<std::string, int>(
        *call, call->deadline, [state, cap](std::function<void(Result<std::string>)> done) {
            state->exchange->read(
                static_cast<std::size_t>(std::min<std::uint64_t>(cap, 1024 * 1024)),
                std::move(done));
            return 0;
        });
    if (!bytes) {
        return report(bytes.error());
    }
    std::copy(bytes.value().begin(), bytes.value().end(), buffer);
    *n = bytes.value().size();
    return CAPSTAN_OK;
}

capstan_rc respond(capstan_exchange* handle,
                   std::int32_t status,
                   capstan_str headers_json) noexcept {
    std::shared_ptr<CallState> call;
    capstan_rc rc = CAPSTAN_OK;
    const auto state = find(handle, &call, &rc);
    if (state == nullptr) {
        return rc;
    }
    if (state->head_sent || status < 100 || status > 599) {
        return report(CAPSTAN_E_INVALID, "the head was sent before, or the status is none");
    }
    net::Headers headers;
    if (headers_json.len > 0) {
        const auto tree = json::parse(view(headers_json));
        if (!tree) {
            return report(tree.error());
        }
        for (const json::Member& header : json::View(tree.value()).object()) {
            const std::string* value = header.value.if_string();
            if (value == nullptr || value->find_first_of("\r\n") != std::string::npos ||
                header.key.find_first_of("\r\n: ") != std::string::npos) {
                return report(CAPSTAN_E_INVALID, "header " + header.key + " is no header");
            }
            headers.emplace_back(header.key, *value);
        }
    }
    state->head_sent = true;
    call->core->parts.loop.post([state, status, h = std::move(headers)]() mutable {
        state->exchange->start(status, std::move(h));
    });
    return CAPSTAN_OK;
}

capstan_rc write(capstan_exchange* handle, capstan_str bytes) noexcept {
    std::shared_ptr<CallState> call;
    capstan_rc rc = CAPSTAN_OK;
    const auto state = find(handle, &call, &rc);
    if (state == nullptr) {
        return rc;
    }
    if (!state->head_sent || state->ended) {
        return report(CAPSTAN_E_INVALID, "the body comes after the head and before the end");
    }
    if (bytes.len == 0) {
        return CAPSTAN_OK;
    }
    auto wrote = await_on_loop<bool, int>(
        *call, call->deadline, [state, b = text(bytes)](std::function<void(Result<bool>)> done) {
            state->exchange->write(b, [done](const Result<void>& result) {
                if (result) {
                    done(true);
                } else {
                    done(fail(result.error()));
                }
            });
            return 0;
        });
    return wrote ? CAPSTAN_OK : report(wrote.error());
}

capstan_rc end(capstan_exchange* handle) noexcept {
    std::shared_ptr<CallState> call;
    capstan_rc rc = CAPSTAN_OK;
    const auto state = find(handle, &call, &rc);
    if (state == nullptr) {
        return rc;
    }
    if (!state->head_sent || state->ended) {
        return report(CAPSTAN_E_INVALID, "there is nothing to end");
    }
    state->ended = true;
    call->core->parts.loop.post([state] { state->exchange->end(); });
    return CAPSTAN_OK;
}

}  // namespace

const capstan_ext_http_server kHttpServerTable{
    {sizeof(capstan_ext_http_server), CAPSTAN_ABI}, &request_json, &read, &respond, &write, &end};

}  // namespace capstan::control
