#include "plugins/steward-bridge/api/forward.hpp"

#include "plugins/steward-bridge/api/answer.hpp"
#include "plugins/steward-bridge/files.hpp"
#include "plugins/steward-bridge/tls_files.hpp"

#include <algorithm>
#include <optional>

namespace capstan::steward {
namespace {

constexpr std::chrono::milliseconds kLookTimeout{5'000};
constexpr std::chrono::seconds kCallSpare{5};  // to send the answer in
// Set on what is passed on: the next one answers itself, whatever it thinks of its role.
constexpr std::string_view kForwarded = "x-capstan-forwarded";

struct Leader {
    std::string name;
    std::string base;  // URL of its steward
};

// Through any member that answers, this steward's own first.
Result<Leader> find_leader(Call& call,
                           const Configuration& configuration,
                           const HttpTls& etcd_tls,
                           bool tls) {
    CAPSTAN_TRY(const PodMap map, PodMap::load());
    std::vector<std::string> endpoints;
    if (auto local = map.url(configuration.local_endpoint)) {
        endpoints.push_back(std::move(local).value());
    }
    for (const std::string& service : configuration.service_endpoints) {
        for (std::string& url : map.urls(service)) {
            endpoints.push_back(std::move(url));
        }
    }
    Gateway gateway(call, etcd_tls);
    Error problem{Code::unavailable, "no member of the cluster has an address", {}};
    for (const std::string& endpoint : endpoints) {
        const auto status = gateway.status(endpoint, kLookTimeout);
        const auto members = status ? gateway.member_list(endpoint, kLookTimeout)
                                    : Result<std::vector<ListedMember>>(status.error());
        if (!members) {
            problem = members.error();
            continue;
        }
        for (const ListedMember& member : members.value()) {
            if (member.id == status.value().leader_id && !member.client_urls.empty()) {
                CAPSTAN_TRY(std::string base,
                            steward_url(member.client_urls.front(), configuration.api_port, tls));
                return Leader{member.name, std::move(base)};
            }
        }
        problem = {Code::unavailable, "the cluster has no leader now", {}};
    }
    return fail(std::move(problem));
}

Result<void> check_health(Call& call, const Leader& leader, const HttpTls& tls) {
    HttpRequest request;
    request.url = leader.base + "/healthz";
    request.timeout = kLookTimeout;
    request.tls = tls;
    CAPSTAN_TRY(const HttpResponse answer, call.http().send(request));
    const auto body = json::parse(answer.body);
    if (answer.status != 200 || !body || !json::View(body.value())["health"].bool_or(false)) {
        return fail(Code::unavailable,
                    request.url + ": HTTP " + std::to_string(answer.status) + ", not healthy");
    }
    return ok();
}

// A whole sentence: what is missing, and what to do.
std::string not_reached(const Error& why, const Identity& me) {
    std::string text =
        "snapshots are taken by the steward of the leading member, and this request "
        "could not be passed on to it: " +
        why.message;
    if (why.code == Code::unavailable || why.code == Code::timeout) {
        text +=
            "; a majority of the members has to run: see which does not with `kubectl get "
            "etcdmembers -n " +
            me.ns + "` (Etcd " + me.etcd + "), and ask again when one of them leads";
    }
    return text;
}

Result<HttpResponse> pass_on(Call& call,
                             Exchange& exchange,
                             const Member& member,
                             const Access& access,
                             const PeerTlsFiles& configured) {
    CAPSTAN_TRY(const Configuration configuration, read_configuration(call, member.identity()));
    CAPSTAN_TRY(const PodMap map, PodMap::load());
    const PeerTlsFiles files = steward_tls_files(configured, configuration, map, member.identity());
    const bool tls_used = !files.ca.empty();
    CAPSTAN_TRY(const Leader leader,
                find_leader(call, configuration, member.client_tls(), tls_used));
    HttpRequest request;
    if (tls_used) {
        CAPSTAN_TRY(request.tls, read_tls(files));
    }
    CAPSTAN_TRY(check_health(call, leader, request.tls));
    request.method = exchange.method();
    request.url = leader.base + exchange.path() +
                  (exchange.query().empty() ? std::string() : "?" + exchange.query());
    request.headers = {{std::string(kForwarded), member.identity().member}};
    if (const std::string token = access.cluster_token(); !token.empty()) {
        if (!may_carry_token(leader.base)) {
            return fail(Code::forbidden,
                        "the token of this cluster's stewards is not sent to " + leader.base +
                            " in clear text, where it would be refused; give the backup API TLS "
                            "(peerTls)");
        }
        request.headers.emplace_back("authorization", "Bearer " + token);
    }
    CAPSTAN_TRY(request.body, exchange.body());
    request.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
        call.deadline() - call.now() - kCallSpare);
    CAPSTAN_TRY(HttpResponse answer, call.http().send(request));
    if (answer.status == 401 || answer.status == 403) {
        return fail(Code::forbidden,
                    "the steward of the leading member \"" + leader.name +
                        "\" refuses this one; give all of them the same apiTokenFile, or client "
                        "certificates of the backup CA (peerTls)");
    }
    return answer;
}

}  // namespace

std::string api_tls_directory(const PodMap& map, const Identity& identity) {
    return map.path(identity.run_dir) + "/tls/backup";
}

PeerTlsFiles steward_tls_files(const PeerTlsFiles& configured,
                               const Configuration& configuration,
                               const PodMap& map,
                               const Identity& identity) {
    if (!configured.ca.empty() || !configuration.backup_tls) {
        return configured;
    }
    const std::string directory = api_tls_directory(map, identity);
    return {directory + "/ca.crt",
            directory + "/client.crt",
            directory + "/client.key",
            host_of(configuration.local_endpoint)};
}

Result<HttpTls> read_tls(const PeerTlsFiles& files) {
    HttpTls tls;
    CAPSTAN_TRY(tls.ca_pem, read_file(files.ca));
    if (!files.certificate.empty()) {
        CAPSTAN_TRY(tls.certificate_pem, read_file(files.certificate));
        CAPSTAN_TRY(tls.key_pem, read_file(files.key));
    }
    tls.server_name = files.server_name;
    return tls;
}

bool may_carry_token(std::string_view base) noexcept {
    constexpr std::string_view kPlain = "http://";
    if (!base.starts_with(kPlain)) {
        return base.starts_with("https://");
    }
    // An address: a name may lead anywhere.
    const std::string_view host = base.substr(kPlain.size());
    return is_loopback_peer(host) &&
           host.find_first_not_of("0123456789.:[]") == std::string_view::npos;
}

Result<std::string> steward_url(std::string_view client_url, std::uint16_t api_port, bool tls) {
    const std::size_t scheme = client_url.find("://");
    std::string_view host =
        scheme == std::string_view::npos ? std::string_view() : client_url.substr(scheme + 3);
    host = host.substr(0, std::min(host.find('/'), host.size()));
    const std::size_t bracket = host.rfind(']');
    const std::size_t colon = host.rfind(':');
    if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
        host = host.substr(0, colon);
    }
    if (host.empty()) {
        return fail(Code::invalid, "\"" + std::string(client_url) + "\" is no client URL");
    }
    return (tls ? "https://" : "http://") + std::string(host) + ":" + std::to_string(api_port);
}

void forward_to_leader(Call& call,
                       Exchange& exchange,
                       const Member& member,
                       const Access& access,
                       const PeerTlsFiles& files) {
    if (const std::string_view from = exchange.header(kForwarded); !from.empty()) {
        return refuse(exchange,
                      405,
                      "NotLeading",
                      "the steward of " + std::string(from) +
                          " takes this member for the leading one, which it is not; ask again");
    }
    const auto answer = pass_on(call, exchange, member, access, files);
    if (!answer) {
        return refuse(
            exchange, 405, "LeaderNotReached", not_reached(answer.error(), member.identity()));
    }
    const json::View type = json::View(answer.value().headers)["content-type"];
    exchange.respond(
        answer.value().status, type.string_or("application/json"), answer.value().body);
}

}  // namespace capstan::steward
