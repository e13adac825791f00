#include "runtime/control/runtime.hpp"

#include "runtime/control/core.hpp"
#include "runtime/control/debug_parts.hpp"
#include "runtime/control/events.hpp"
#include "runtime/control/unit.hpp"

#include <algorithm>

namespace capstan::control {
namespace {

// past the stop deadline: for the plugin's own stop to return
constexpr std::chrono::seconds kSupervisorSlack{1};

}  // namespace

struct Runtime::State : std::enable_shared_from_this<Runtime::State> {
    State(Parts parts, RuntimeOptions options)
        : core(std::make_shared<Core>(std::move(parts), std::move(options))) {}

    std::shared_ptr<Core> core;  // shared with threads of plugins that do not return
    std::vector<std::shared_ptr<Unit>> units;
    bool started{false};
    bool stopped{false};
    // While stopping:
    std::size_t awaited{0};
    std::vector<std::string> stopped_ids;
    StopReport report;
    std::unique_ptr<net::Timer> limit;
    std::function<void(StopReport)> done;

    std::shared_ptr<Unit> find(const std::string& id) const {
        const auto found = std::find_if(
            units.begin(), units.end(), [&id](const auto& u) { return u->manifest().id == id; });
        return found == units.end() ? nullptr : *found;
    }
    void unit_stopped(const std::string& id, const std::vector<std::string>& left) {
        stopped_ids.push_back(id);
        report.left.insert(report.left.end(), left.begin(), left.end());
        if (--awaited == 0) {
            finish();
        }
    }
    void finish() {
        limit.reset();
        if (!done) {
            return;
        }
        for (const auto& unit : units) {
            unit->drop_watches();
            if (std::find(stopped_ids.begin(), stopped_ids.end(), unit->manifest().id) ==
                stopped_ids.end()) {
                report.left.push_back(unit->manifest().id + ": its stop did not return");
                unit->abandon();
            } else {
                unit->join();
            }
        }
        core->events->shut_down();
        core->http.clear();
        for (const std::string& what : report.left) {
            core->parts.log.error("did not stop in time", {{"what", what}});
        }
        stopped = true;
        auto call = std::exchange(done, nullptr);
        call(report);
    }
};

Runtime::Runtime(Parts parts, RuntimeOptions options)
    : state_(std::make_shared<State>(std::move(parts), std::move(options))) {
    state_->core->parts.metrics.before_render([weak = std::weak_ptr<State>(state_)] {
        if (const auto state = weak.lock()) {
            for (const auto& unit : state->units) {
                for (const auto& controller : unit->controllers()) {
                    controller->refresh_metrics();
                }
            }
        }
    });
}

Runtime::~Runtime() {
    CAPSTAN_CHECK(!state_->started || state_->stopped, "stop() has not reported");
    for (const auto& unit : state_->units) {
        unit->drop_watches();
    }
}

const capstan_host* Runtime::host_for(const plugin::Manifest& manifest) {
    auto unit = state_->find(manifest.id);
    if (unit == nullptr) {
        unit = std::make_shared<Unit>(state_->core, manifest);
        state_->units.push_back(unit);
    }
    return unit->host();
}

Result<void> Runtime::add(Plugin plugin) {
    State& s = *state_;
    CAPSTAN_CHECK(!s.started, plugin.manifest.id);
    const std::string id = plugin.manifest.id;
    host_for(plugin.manifest);
    const auto unit = s.find(id);
    if (unit->attached()) {
        return fail(Code::invalid, id + " is loaded twice");
    }
    if (s.units.size() > kPluginsMax) {
        return fail(Code::invalid, "more than " + std::to_string(kPluginsMax) + " plugins");
    }
    for (const auto& other : s.units) {
        if (other != unit && other->short_name() == unit->short_name()) {
            unit->set_short_name(id);  // "etcd" is taken
        }
    }
    for (const plugin::WebhookSpec& webhook : plugin.manifest.webhooks) {
        for (const auto& other : s.units) {
            const auto& taken = other->manifest().webhooks;
            const bool same = other != unit && other->attached() &&
                              std::any_of(taken.begin(), taken.end(), [&](const auto& w) {
                                  return w.path == webhook.path;
                              });
            if (same) {
                return fail(Code::invalid,
                            id + ": its webhook " + webhook.name + " has the path " + webhook.path +
                                " that " + other->manifest().id +
                                " has already; give one of them a \"path\" of its own");
            }
        }
    }
    return unit->attach(std::move(plugin));
}

void Runtime::start() {
    state_->started = true;
    std::erase_if(state_->units, [](const auto& unit) { return !unit->attached(); });
    for (const auto& unit : state_->units) {
        unit->start();
    }
}

void Runtime::lead() {
    state_->core->leading.store(true);
    for (const auto& unit : state_->units) {
        unit->lead();
    }
}

void Runtime::stop(std::chrono::nanoseconds grace, std::function<void(StopReport)> done) {
    State& s = *state_;
    CAPSTAN_CHECK(!s.done, "stop() was called twice");
    const MonotonicTime deadline = s.core->now() + grace;
    s.done = std::move(done);
    s.awaited = s.started ? s.units.size() : 0;
    if (s.awaited == 0) {
        s.core->parts.loop.post([state = state_] { state->finish(); });
        return;
    }
    s.limit =
        s.core->parts.loop.at(deadline + kSupervisorSlack, [weak = std::weak_ptr<State>(state_)] {
            if (const auto state = weak.lock()) {
                state->awaited = 0;
                state->finish();
            }
        });
    for (const auto& unit : s.units) {
        const auto stopped = [weak = std::weak_ptr<State>(state_),
                              id = unit->manifest().id](const std::vector<std::string>& left) {
            if (const auto state = weak.lock(); state != nullptr && state->awaited > 0) {
                state->unit_stopped(id, left);
            }
        };
        unit->stop(deadline, stopped);
    }
}

net::ServerHandler Runtime::routes() {
    return [weak = std::weak_ptr<State>(state_)](std::shared_ptr<net::ServerExchange> exchange) {
        const auto state = weak.lock();
        const std::string path = exchange->target().substr(0, exchange->target().find('?'));
        bool method_wrong = false;
        for (const auto& unit :
             state == nullptr ? std::vector<std::shared_ptr<Unit>>() : state->units) {
            if (unit->routes() == nullptr) {
                continue;
            }
            if (const plugin::RouteSpec* route =
                    unit->routes()->match(path, exchange->method(), &method_wrong)) {
                unit->routes()->serve(*route, std::move(exchange));
                return;
            }
        }
        exchange->respond(method_wrong ? 405 : 404,
                          {{"Content-Type", "text/plain; charset=utf-8"}},
                          method_wrong ? "method not allowed\n" : "not found\n");
    };
}

std::vector<WebhookEndpoint> Runtime::webhooks() {
    std::vector<WebhookEndpoint> endpoints;
    for (const auto& unit : state_->units) {
        if (!unit->attached()) {
            continue;
        }
        for (const plugin::WebhookSpec& webhook : unit->manifest().webhooks) {
            const auto handler = [weak = std::weak_ptr<Unit>(unit), &webhook](
                                     kube::AdmissionQuestion question, kube::AdmissionDone done) {
                if (const auto u = weak.lock()) {
                    u->admission()->ask(webhook, std::move(question), std::move(done));
                } else {
                    done(fail(Code::unavailable, "the runtime has ended"));
                }
            };
            endpoints.push_back({unit->manifest().id, webhook.path, handler});
        }
    }
    return endpoints;
}

PluginPhase Runtime::phase(const std::string& plugin_id) const {
    const auto unit = state_->find(plugin_id);
    return unit == nullptr ? PluginPhase::stopped : unit->phase();
}

Runtime::KeyLook Runtime::look(const std::string& plugin_id,
                               const std::string& controller,
                               const ObjectKey& key) const {
    const auto unit = state_->find(plugin_id);
    const Controller* found = unit == nullptr ? nullptr : unit->controller(controller);
    if (found == nullptr) {
        return {};
    }
    const auto look = found->look(key);
    return {look.state, look.failures};
}

json::Value Runtime::debug() const {
    const Core& core = *state_->core;
    json::Value plugins = json::list();
    for (const auto& unit : state_->units) {
        plugins.push_back(unit->debug());
    }
    json::Value caches = json::list();
    for (const auto& [spec, state] : core.parts.cache.states()) {
        caches.push_back(debug_of(spec, state, core.now()));
    }
    return {{"plugins", std::move(plugins)}, {"caches", std::move(caches)}};
}

bool Runtime::idle() const {
    return std::all_of(state_->units.begin(), state_->units.end(), [](const auto& unit) {
        return std::all_of(unit->controllers().begin(),
                           unit->controllers().end(),
                           [](const auto& c) { return c->idle(); });
    });
}

}  // namespace capstan::control
