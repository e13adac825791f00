#include "plugins/steward-bridge/api/routes.hpp"

#include "plugins/steward-bridge/api/answer.hpp"
#include "plugins/steward-bridge/api/routes_internal.hpp"

#include <array>

namespace capstan::steward {
namespace {

using Answer = void (*)(const ApiParts&, Call&, Exchange&);
using Kind = RouteKind (*)(const Exchange&);

template <RouteKind kind>
RouteKind always(const Exchange&) {
    return kind;
}

// Without `run` reading a finished state takes it away.
RouteKind status_kind(const Exchange& exchange) {
    return exchange.query_value("run").empty() ? RouteKind::change : RouteKind::read;
}

class ApiRoute final : public Route {
public:
    ApiRoute(const ApiParts& parts, Kind kind, Answer answer, bool browser_headers)
        : parts_(parts), kind_(kind), answer_(answer), browser_headers_(browser_headers) {}

    void handle(Call& call, Exchange& exchange) override {
        if (browser_headers_ && exchange.over_tls()) {
            exchange.set_header("strict-transport-security", "max-age=31536000");
            exchange.set_header("content-security-policy", "default-src 'self'");
        }
        if (const auto no = parts_.access->check(kind_(exchange), Caller::of(exchange))) {
            return refuse(exchange, no->status, no->reason, no->message);
        }
        answer_(parts_, call, exchange);
    }

private:
    const ApiParts parts_;
    const Kind kind_;
    const Answer answer_;
    const bool browser_headers_;
};

void start_run(const ApiParts& parts, Call&, Exchange& exchange) {
    parts.member->request_run(
        {exchange.query_value("run"), exchange.query_value("mode") != "sanity"});
    exchange.respond(200, "text/plain; charset=utf-8", "");
}

void run_status(const ApiParts& parts, Call&, Exchange& exchange) {
    constexpr std::string_view kText = "text/plain; charset=utf-8";
    switch (parts.member->run_state(exchange.query_value("run"))) {
        case RunState::none: return exchange.respond(200, kText, "New");
        case RunState::progress: return exchange.respond(200, kText, "Progress");
        case RunState::successful: return exchange.respond(200, kText, "Successful");
        case RunState::failed: return exchange.respond(200, kText, "Failed");
    }
}

void etcd_config(const ApiParts& parts, Call&, Exchange& exchange) {
    const auto config = parts.member->etcd_config();
    if (!config) {
        return refuse(exchange,
                      503,
                      "NotInitialized",
                      "the member is not initialised yet; ask /initialization/start first");
    }
    exchange.respond(200, "application/x-yaml", *config);
}

void health(const ApiParts& parts, Call&, Exchange& exchange) {
    const bool healthy = parts.member->status().has_value();
    exchange.respond_json(healthy ? 200 : 503, {{"health", healthy}});
}

struct RouteRow {
    const char* name;
    Kind kind;
    Answer answer;
    bool browser_headers;
};
constexpr std::array<RouteRow, 10> kRoutes{{
    {"initialization-start", &always<RouteKind::change>, &start_run, true},
    {"initialization-status", &status_kind, &run_status, true},
    {"snapshot-full", &always<RouteKind::change>, &answer_full, true},
    {"snapshot-delta", &always<RouteKind::change>, &answer_delta, true},
    {"snapshot-latest", &always<RouteKind::read>, &answer_latest, true},
    {"config", &always<RouteKind::read>, &etcd_config, false},
    {"health", &always<RouteKind::open>, &health, true},
    {"metrics", &always<RouteKind::open>, &answer_metrics, false},
    {"defragment", &always<RouteKind::change>, &answer_defragment, true},
    {"last-defragmentation", &always<RouteKind::read>, &answer_last_defragmentation, true},
}};

Result<void> read_text(const json::View& view, std::string& out) {
    if (view.present()) {
        CAPSTAN_TRY(const std::string_view text, view.as_string());
        out = text;
    }
    return ok();
}

}  // namespace

Result<ApiConfig> ApiConfig::parse(const json::View& config) {
    ApiConfig out;
    CAPSTAN_TRY(read_text(config["apiTokenFile"], out.token_file));
    const json::View tls = config["peerTls"];
    CAPSTAN_TRY(read_text(tls["caFile"], out.peer_tls.ca));
    CAPSTAN_TRY(read_text(tls["certificateFile"], out.peer_tls.certificate));
    CAPSTAN_TRY(read_text(tls["keyFile"], out.peer_tls.key));
    if (out.peer_tls.certificate.empty() != out.peer_tls.key.empty()) {
        return fail(tls.error("certificateFile and keyFile go together"));
    }
    if (out.peer_tls.ca.empty() && !out.peer_tls.certificate.empty()) {
        return fail(tls.error("caFile is missing"));
    }
    return out;
}

void add_routes(Setup& setup, const ApiParts& parts) {
    for (const RouteRow& row : kRoutes) {
        setup.route(row.name,
                    std::make_unique<ApiRoute>(parts, row.kind, row.answer, row.browser_headers));
    }
}

}  // namespace capstan::steward
