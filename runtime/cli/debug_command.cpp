#include "runtime/cli/debug_command.hpp"

#include "runtime/kube/kubeconfig.hpp"
#include "runtime/net/http_client.hpp"
#include "runtime/net/io_loop.hpp"

#include <cstdio>
#include <optional>

namespace capstan::cli {
namespace {

constexpr std::chrono::seconds kAnswerMax{10};
constexpr std::size_t kPageBytesMax = 16u * 1024 * 1024;

int complain(const std::string& address, const std::string& what, int code) {
    std::fprintf(stderr, "capstan debug: %s: %s\n", address.c_str(), what.c_str());
    return code;
}

std::string remedy_for(const DebugOptions& options, const std::string& why) {
    const bool secure = options.address.starts_with("https://");
    if (secure && why.find("certificate") != std::string::npos) {
        return "--ca-file with the CA of the listener's certificate";
    }
    if (secure && why.find("wrong version number") != std::string::npos) {
        return "that listener speaks no TLS: write http://";
    }
    if (!secure && why.find("closed by the peer") != std::string::npos) {
        return "if that listener has a certificate, write https://";
    }
    return "name the address of the ops listener (its log line \"serving health and metrics\")";
}

Result<net::HttpRequest> request_for(const DebugOptions& options) {
    net::HttpRequest request;
    request.target = options.as_json ? "/debug?format=json" : "/debug";
    request.body_bytes_max = kPageBytesMax;
    if (!options.token_file.empty()) {
        CAPSTAN_TRY(std::string token, kube::read_small_file(options.token_file));
        token.erase(token.find_last_not_of(" \r\n\t") + 1);
        request.headers.emplace_back("Authorization", "Bearer " + token);
    }
    return request;
}

}  // namespace

int run_debug(const DebugOptions& options) {
    const auto loop = net::make_loop();
    net::HttpClientOptions client;
    client.endpoint = options.address.find("://") == std::string::npos ? "http://" + options.address
                                                                       : options.address;
    if (!options.ca_file.empty()) {
        auto ca = kube::read_small_file(options.ca_file);
        if (!ca) {
            return complain(options.ca_file, ca.error().message, 2);
        }
        client.tls.ca_pem = std::move(ca).value();
    }
    const auto http = net::make_http_client(*loop, std::move(client));
    auto request = request_for(options);
    if (!http || !request) {
        return complain(options.address, (http ? request.error() : http.error()).message, 2);
    }
    request.value().deadline = loop->now() + kAnswerMax;
    std::optional<Result<net::HttpResponse>> answer;
    const auto exchange = http.value()->send(
        std::move(request).value(),
        [&answer](Result<net::HttpResponse> result) { answer = std::move(result); });
    loop->run_until([&answer] { return answer.has_value(); }, 2 * kAnswerMax);
    if (!answer || !*answer) {
        const std::string why = answer ? answer->error().message : "no answer";
        return complain(options.address, why + "; remedy: " + remedy_for(options, why), 4);
    }
    const net::HttpResponse& page = answer->value();
    if (page.status == 404) {
        return complain(options.address,
                        "there is no page /debug (HTTP 404): this is not the ops listener of a "
                        "running operator; its log line \"serving health and metrics\" names it",
                        1);
    }
    if (page.status != 200) {
        std::string text = "HTTP " + std::to_string(page.status) + ": " + page.body;
        text.erase(text.find_last_not_of(" \r\n") + 1);
        if (page.status == 401) {
            text += "; remedy: --token-file with a token that the API server knows";
        }
        return complain(options.address, text, 1);
    }
    std::fputs(page.body.c_str(), stdout);
    return 0;
}

}  // namespace capstan::cli
