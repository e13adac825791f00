#include "runtime/cli/ops_server.hpp"

namespace capstan::cli {
namespace {

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

}  // namespace

net::ServerHandler ops_handler(const obs::Health& health, const obs::Metrics& metrics) {
    return [&health, &metrics](const std::shared_ptr<net::ServerExchange>& exchange) {
        const std::string_view target = exchange->target();
        const std::size_t question = std::min(target.find('?'), target.size());
        const std::string_view path = target.substr(0, question);
        const std::string_view query = target.substr(std::min(question + 1, target.size()));
        if (exchange->method() != "GET" && exchange->method() != "HEAD") {
            exchange->respond(
                405, {{"content-type", "text/plain"}, {"allow", "GET, HEAD"}}, "use GET\n");
            return;
        }
        if (path == "/metrics") {
            exchange->respond(
                200, {{"content-type", std::string(obs::Metrics::kContentType)}}, metrics.render());
            return;
        }
        std::string_view check;
        for (const auto& [base, probe] :
             {std::pair<std::string_view, obs::Probe>{"/healthz", obs::Probe::healthz},
              {"/livez", obs::Probe::healthz},
              {"/readyz", obs::Probe::readyz}}) {
            if (check_of(path, base, check)) {
                auto answer = health.render(probe, check, query);
                exchange->respond(answer.status,
                                  {{"content-type", "text/plain; charset=utf-8"}},
                                  std::move(answer.body));
                return;
            }
        }
        exchange->respond(404,
                          {{"content-type", "text/plain"}},
                          "not found; there are /healthz, /readyz and /metrics\n");
    };
}

}  // namespace capstan::cli
