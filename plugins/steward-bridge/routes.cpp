#include "plugins/steward-bridge/routes.hpp"

#include <functional>
#include <memory>

namespace capstan::steward {
namespace {

class FunctionRoute final : public Route {
public:
    using Function = void (*)(Member&, Exchange&);
    FunctionRoute(Member& member, bool guarded, Function function) noexcept
        : member_(member), guarded_(guarded), function_(function) {}
    void handle(Call&, Exchange& exchange) override {
        if (guarded_ && !member_.authorized(exchange.header("authorization"))) {
            exchange.respond(
                401,
                "text/plain",
                "a bearer token is needed; it is in the file \"token\" of the run directory\n");
            return;
        }
        function_(member_, exchange);
    }

private:
    Member& member_;
    bool guarded_;
    Function function_;
};

void start_run(Member& member, Exchange& exchange) {
    member.request_run({exchange.query_value("run"), exchange.query_value("mode") != "sanity"});
    exchange.respond(200, "text/plain", "");
}

void run_status(Member& member, Exchange& exchange) {
    switch (member.run_state(exchange.query_value("run"))) {
        case RunState::none: return exchange.respond(200, "text/plain", "New");
        case RunState::progress: return exchange.respond(200, "text/plain", "Progress");
        case RunState::successful: return exchange.respond(200, "text/plain", "Successful");
        case RunState::failed: return exchange.respond(200, "text/plain", "Failed");
    }
}

void etcd_config(Member& member, Exchange& exchange) {
    const auto config = member.etcd_config();
    if (!config) {
        exchange.respond(503, "text/plain", "the member is not initialised yet\n");
        return;
    }
    exchange.respond(200, "application/x-yaml", *config);
}

void health(Member& member, Exchange& exchange) {
    const bool healthy = member.status().has_value();
    exchange.respond_json(healthy ? 200 : 503, {{"health", healthy}});
}

}  // namespace

void add_routes(Setup& setup, Member& member) {
    setup.route("initialization-start", std::make_unique<FunctionRoute>(member, true, &start_run));
    setup.route("initialization-status",
                std::make_unique<FunctionRoute>(member, true, &run_status));
    setup.route("config", std::make_unique<FunctionRoute>(member, true, &etcd_config));
    setup.route("health", std::make_unique<FunctionRoute>(member, false, &health));
}

}  // namespace capstan::steward
