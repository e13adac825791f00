// Blocking calls of the resource commands to an API server, on a loop of their own. Thread: main.
#pragma once

#include "capstan/json.hpp"
#include "runtime/cli/connection.hpp"
#include "runtime/cli/resource_command.hpp"
#include "runtime/kube/connection.hpp"
#include "runtime/kube/status.hpp"
#include "runtime/net/http_client.hpp"
#include "runtime/net/io_loop.hpp"
#include "runtime/net/url.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace capstan::cli {

inline constexpr std::chrono::seconds kAnswerMax{30};

inline std::string kubeconfig_path(const std::string& given) {
    if (!given.empty()) {
        return given;
    }
    if (::access(".capstan/kubeconfig", R_OK) == 0) {
        return ".capstan/kubeconfig";
    }
    const char* variable = std::getenv("KUBECONFIG");
    return variable == nullptr ? ".capstan/kubeconfig" : variable;
}

// One kind as the server lists it.
struct Served {
    std::string base;  // "/apis/apps/v1"
    std::string plural;
    std::string kind;
    bool namespaced{true};
};

// Blocking calls on a loop of their own.
class Session {
public:
    static Result<std::unique_ptr<Session>> open(const ResourceOptions& options) {
        auto session = std::make_unique<Session>();
        CAPSTAN_TRY(kube::ConnectionConfig connection,
                    find_connection(kubeconfig_path(options.kubeconfig), options.context));
        session->ns_ = options.ns.empty() ? connection.ns : options.ns;
        CAPSTAN_TRY(session->api_,
                    kube::Connection::open(*session->loop_, std::move(connection), {}));
        return session;
    }

    const std::string& ns() const { return ns_; }

    Result<net::HttpResponse> send(const char* method,
                                   const std::string& target,
                                   const char* accept,
                                   std::string body = {},
                                   const char* content_type = "application/json") {
        net::HttpRequest request;
        request.method = method;
        request.target = api_->config().base_path + target;
        request.headers = api_->config().headers;
        request.headers.emplace_back("accept", accept);
        if (!body.empty()) {
            request.headers.emplace_back("content-type", content_type);
        }
        if (kube::TokenSource* tokens = api_->tokens(); tokens != nullptr) {
            CAPSTAN_TRY(const std::string token, await_token(*tokens));
            if (!token.empty()) {  // the plugin gave a certificate
                request.headers.emplace_back("authorization", "Bearer " + token);
            }
        }
        request.body = std::move(body);
        request.deadline = loop_->now() + kAnswerMax;
        std::optional<Result<net::HttpResponse>> outcome;
        const auto exchange = api_->http().send(
            std::move(request),
            [&](Result<net::HttpResponse> answer) { outcome = std::move(answer); });
        loop_->run_until([&] { return outcome.has_value(); }, kAnswerMax + std::chrono::seconds(5));
        if (!outcome) {
            return fail(Code::timeout, "no answer");
        }
        if (!*outcome) {
            return fail(api_->explain(outcome->error()));
        }
        net::HttpResponse response = std::move(outcome->value());
        if (response.status < 200 || response.status >= 300) {
            return fail(api_->explain(
                kube::error_of_response(response.status, response.headers, response.body, false)));
        }
        if (auto foreign = kube::foreign_answer(response.status, response.headers)) {
            return fail(std::move(*foreign));
        }
        return response;
    }

    Result<json::Value> json(const char* method,
                             const std::string& target,
                             const char* accept = "application/json",
                             std::string body = {},
                             const char* content_type = "application/json") {
        CAPSTAN_TRY(const net::HttpResponse response,
                    send(method, target, accept, std::move(body), content_type));
        return json::parse(response.body, {json::kDepthMax, net::kBodyBytesMax});
    }

    // Every served kind, asked once.
    Result<const std::vector<Served>*> kinds() {
        if (!kinds_.empty()) {
            return &kinds_;
        }
        CAPSTAN_TRY(const json::Value core, json("GET", "/api/v1"));
        add_kinds("/api/v1", core);
        CAPSTAN_TRY(const json::Value groups, json("GET", "/apis"));
        for (const json::Value& group : json::View(groups)["groups"].array()) {
            const std::string base =
                "/apis/" +
                std::string(json::View(group)["preferredVersion"]["groupVersion"].string_or(""));
            CAPSTAN_TRY(const json::Value resources, json("GET", base));
            add_kinds(base, resources);
        }
        return &kinds_;
    }

    // By plural, singular, kind or short name, with or without ".group".
    Result<Served> find(std::string_view word) {
        CAPSTAN_TRY(const std::vector<Served>* kinds, this->kinds());
        const std::string wanted = lower(word.substr(0, word.find('.')));
        const std::string group(
            word.find('.') == std::string_view::npos ? "" : word.substr(word.find('.') + 1));
        for (std::size_t i = 0; i < kinds->size(); ++i) {
            const auto& names = names_[i];
            const bool group_fits =
                group.empty() || (*kinds)[i].base.rfind("/apis/" + group + "/", 0) == 0;
            if (group_fits && std::find(names.begin(), names.end(), wanted) != names.end()) {
                return (*kinds)[i];
            }
        }
        return fail(Code::not_found, "the server has no kind \"" + std::string(word) + "\"");
    }
    Result<Served> find_kind(std::string_view api_version, std::string_view kind) {
        CAPSTAN_TRY(const std::vector<Served>* kinds, this->kinds());
        const std::string base =
            (api_version.find('/') == std::string_view::npos ? "/api/" : "/apis/") +
            std::string(api_version);
        for (const Served& served : *kinds) {
            if (served.base == base && served.kind == kind) {
                return served;
            }
        }
        return fail(
            Code::not_found,
            "the server has no kind " + std::string(kind) + " in " + std::string(api_version));
    }

    std::string path(const Served& served, const std::string& ns, const std::string& name) const {
        return served.base +
               (served.namespaced && !ns.empty() ? "/namespaces/" + net::encode_segment(ns) : "") +
               "/" + served.plural + (name.empty() ? "" : "/" + net::encode_segment(name));
    }

private:
    // A credential plugin may take its time; a signal meanwhile ends it, and then us.
    Result<std::string> await_token(kube::TokenSource& tokens) {
        // shared: it may answer after we stopped waiting
        const auto there = std::make_shared<bool>(false);
        if (tokens.ready([there] { *there = true; })) {
            return tokens.token();
        }
        int caught = 0;
        std::vector<std::unique_ptr<net::Watch>> watches;
        for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
            struct sigaction now {};
            if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_IGN) {
                continue;  // nohup
            }
            if (auto watch = loop_->on_signal(signal, [&caught, signal] { caught = signal; })) {
                watches.push_back(std::move(watch).value());
            }
        }
        loop_->run_until([&] { return *there || caught != 0; }, kube::kExecTimeMax + kAnswerMax);
        watches.clear();
        if (caught != 0) {
            tokens.close();
            ::signal(caught, SIG_DFL);
            ::raise(caught);
        }
        return tokens.token();
    }

    static std::string lower(std::string_view text) {
        std::string out(text);
        for (char& c : out) {
            c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        }
        return out;
    }

    void add_kinds(const std::string& base, const json::Value& list) {
        for (const json::Value& item : json::View(list)["resources"].array()) {
            const json::View view(item);
            const std::string plural(view["name"].string_or(""));
            if (plural.find('/') != std::string::npos) {
                continue;
            }
            std::vector<std::string> names{plural,
                                           lower(view["kind"].string_or("")),
                                           std::string(view["singularName"].string_or(""))};
            for (const json::Value& short_name : view["shortNames"].array()) {
                names.push_back(short_name.if_string() == nullptr ? "" : *short_name.if_string());
            }
            kinds_.push_back({base,
                              plural,
                              std::string(view["kind"].string_or("")),
                              view["namespaced"].bool_or(true)});
            names_.push_back(std::move(names));
        }
    }

    std::unique_ptr<net::IoLoop> loop_{net::make_loop()};
    std::unique_ptr<kube::Connection> api_;
    std::string ns_;
    std::vector<Served> kinds_;
    std::vector<std::vector<std::string>> names_;
};

}  // namespace capstan::cli
