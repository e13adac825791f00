#include "runtime/cli/ops_server.hpp"

#include "runtime/cli/debug_text.hpp"

namespace capstan::cli {
namespace {

using Exchange = std::shared_ptr<net::ServerExchange>;

void answer(net::ServerExchange& exchange,
            int status,
            std::string body,
            std::string_view type = "text/plain; charset=utf-8") {
    net::Headers headers{{"content-type", std::string(type)},
                         {"x-content-type-options", "nosniff"}};
    if (status == 401) {
        headers.emplace_back("www-authenticate", "Bearer");
    } else if (status == 429) {
        headers.emplace_back("retry-after", "1");
    }
    exchange.respond(status, std::move(headers), std::move(body));
}

// "/readyz/check" -> "check"; "" for the path alone; false when `path` is not below `base`.
bool check_of(std::string_view path, std::string_view base, std::string_view& check) {
    if (path == base) {
        check = {};
        return true;
    }
    if (path.size() > base.size() + 1 && path.substr(0, base.size()) == base &&
        path[base.size()] == '/') {
        check = path.substr(base.size() + 1);
        return true;
    }
    return false;
}

bool answer_probe(net::ServerExchange& exchange,
                  const obs::Health& health,
                  std::string_view path,
                  std::string_view query) {
    std::string_view check;
    for (const auto& [base, probe] :
         {std::pair<std::string_view, obs::Probe>{"/healthz", obs::Probe::healthz},
          {"/livez", obs::Probe::healthz},
          {"/readyz", obs::Probe::readyz}}) {
        if (check_of(path, base, check)) {
            auto said = health.render(probe, check, query);
            answer(exchange, said.status, std::move(said.body));
            return true;
        }
    }
    return false;
}

void serve_metrics(net::ServerExchange& exchange, const obs::Metrics& metrics) {
    const auto form = obs::accepted_exposition(net::find_header(exchange.headers(), "accept"));
    answer(exchange, 200, metrics.render(form), obs::content_type(form));
}

void serve_debug(net::ServerExchange& exchange, const OpsParts& parts, std::string_view query) {
    const json::Value page = parts.debug();
    const std::string_view accept = net::find_header(exchange.headers(), "accept");
    if (query.find("format=json") != std::string_view::npos ||
        accept.find("application/json") != std::string_view::npos) {
        answer(exchange, 200, json::dump_pretty(page) + "\n", "application/json");
    } else {
        answer(exchange, 200, debug_text(page));
    }
}

void serve(const Exchange& exchange,
           const OpsParts& parts,
           std::string_view path,
           std::string_view query) {
    if (path == "/metrics") {
        serve_metrics(*exchange, parts.metrics);
    } else {
        serve_debug(*exchange, parts, query);
    }
}

void serve_if_allowed(const Exchange& exchange,
                      const OpsParts& parts,
                      std::string_view path,
                      std::string_view query) {
    parts.auth->check(net::find_header(exchange->headers(), "authorization"),
                      exchange->method(),
                      path,
                      [exchange, parts, path = std::string(path), query = std::string(query)](
                          int status, const std::string& text) {
                          if (status == 200) {
                              serve(exchange, parts, path, query);
                          } else {
                              answer(*exchange, status, text + "\n");
                          }
                      });
}

}  // namespace

bool is_loopback(std::string_view address) noexcept {
    return address.starts_with("127.") || address == "::1" || address == "localhost";
}

net::ServerHandler ops_handler(OpsParts parts) {
    return [parts = std::move(parts)](const Exchange& exchange) {
        const std::string_view target = exchange->target();
        const std::size_t question = std::min(target.find('?'), target.size());
        const std::string_view path = target.substr(0, question);
        const std::string_view query = target.substr(std::min(question + 1, target.size()));
        if (exchange->method() != "GET" && exchange->method() != "HEAD") {
            exchange->respond(
                405, {{"content-type", "text/plain"}, {"allow", "GET, HEAD"}}, "use GET\n");
            return;
        }
        if (answer_probe(*exchange, parts.health, path, query)) {
            return;
        }
        const bool debug = path == "/debug" && parts.debug != nullptr;
        if (path != "/metrics" && !debug) {
            answer(*exchange, 404, "not found; there are /healthz, /readyz, /metrics and /debug\n");
        } else if (parts.auth != nullptr) {
            serve_if_allowed(exchange, parts, path, query);
        } else if (debug && !parts.debug_open) {
            answer(*exchange,
                   403,
                   "/debug is served on a loopback address, or with "
                   "listeners.ops.authentication: kubernetes\n");
        } else {
            serve(exchange, parts, path, query);
        }
    };
}

}  // namespace capstan::cli
