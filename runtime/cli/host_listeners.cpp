// What a running host listens on: health and metrics, routes of plugins, webhooks of plugins.
#include "runtime/cli/host.hpp"

#include "runtime/cli/descriptors.hpp"
#include "runtime/cli/ops_server.hpp"
#include "runtime/kube/credentials.hpp"

namespace capstan::cli {
namespace {

// A review is over in 30 s at the most, and so is a connection that says nothing.
constexpr std::chrono::seconds kWebhookIdleMax{30};

}  // namespace

Result<Listening> Host::serve(const std::string& name,
                              const config::ListenerConfig& listener,
                              net::ServerHandler handler,
                              std::chrono::milliseconds idle_timeout) {
    net::HttpServerOptions options;
    options.address = listener.address;
    options.port = listener.port;
    options.idle_timeout = idle_timeout;
    options.connections_max =
        listener_connections(raise_descriptor_limit(), options.connections_max);
    const bool secure = !listener.tls.certificate_file.empty();
    net::CertificateWatcher::Options watch;
    net::ServerTls tls;
    if (secure) {
        watch.listener = name;
        watch.files = {
            listener.tls.certificate_file, listener.tls.key_file, listener.tls.client_ca_file};
        watch.read = &kube::read_small_file;
        auto read = net::read_server_tls(watch.files, watch.read);
        if (!read) {
            return fail(with_context(read.error(), "listeners." + name + ".tls"));
        }
        tls = std::move(read).value();
        if (const auto good = net::check_server_tls(tls, watch.files.certificate); !good) {
            return fail(with_context(good.error(), "listeners." + name + ".tls"));
        }
        watch.health = &health_;
        options.certificate_pem = tls.certificate_pem;
        options.key_pem = tls.key_pem;
        options.client_ca_pem = tls.client_ca_pem;
        if (!listener.tls.client_ca_file.empty()) {
            options.client_auth = listener.tls.client_auth == "require" ? net::ClientAuth::require
                                                                        : net::ClientAuth::request;
        }
    }
    Listening listening;
    CAPSTAN_TRY(listening.server,
                net::make_http_server(*loop_, std::move(options), std::move(handler)));
    net::on_no_room(*listening.server,
                    [log = log_.with({{"listener", name}})](const std::string& why) {
                        log.warn("connections wait: the listener has no room", {{"reason", why}});
                    });
    if (secure) {
        listening.certificates = std::make_unique<net::CertificateWatcher>(
            *loop_,
            metrics_,
            log_,
            std::move(watch),
            std::move(tls),
            [raw = listening.server.get()](const net::ServerTls& found) {
                return net::set_server_tls(*raw, found);
            });
    }
    return listening;
}

Result<std::uint16_t> Host::keep_serving(const std::string& name,
                                         const config::ListenerConfig& listener,
                                         net::ServerHandler handler,
                                         std::chrono::milliseconds idle_timeout) {
    CAPSTAN_TRY(Listening listening, serve(name, listener, std::move(handler), idle_timeout));
    const std::uint16_t port = listening.server->port();
    listening_.push_back(std::move(listening));
    return port;
}

OpsParts Host::ops_parts() {
    if (config_.ops.authentication == "kubernetes") {
        ops_auth_.emplace(*loop_, api_->client(), log_, [this] {
            return std::uniform_real_distribution<double>(0, 1)(random_);
        });
    }
    const bool certificates = config_.ops.tls.client_auth == "require";
    return {health_,
            metrics_,
            [this] { return debug_page(); },
            ops_auth_ ? &*ops_auth_ : nullptr,
            certificates || is_loopback(config_.ops.address)};
}

json::Value Host::debug_page() const {
    json::Value page = runtime_->debug();
    json::Value reasons = json::list();
    for (const std::string& reason : health_.reasons()) {
        reasons.push_back(reason);
    }
    page.set("version", CAPSTAN_VERSION);
    page.set("ready", health_.is_ready());
    page.set("notReady", std::move(reasons));
    page.set("client", observers_.debug(loop_->now()));
    return page;
}

Result<void> Host::listen_for_reviews() {
    std::vector<webhook::Endpoint> endpoints;
    for (control::WebhookEndpoint& endpoint : runtime_->webhooks()) {
        endpoints.push_back({std::move(endpoint.path), std::move(endpoint.handler)});
    }
    const std::size_t count = endpoints.size();
    webhooks_ = std::make_unique<webhook::Server>(*loop_, metrics_, std::move(endpoints));
    health_.add("webhook", obs::Probe::readyz, "does not listen yet");
    CAPSTAN_TRY(const std::uint16_t port,
                keep_serving("webhook", config_.webhook, webhooks_->handler(), kWebhookIdleMax));
    health_.ready("webhook");
    log_.info("serving webhooks",
              {{"address", config_.webhook.address}, {"port", port}, {"count", count}});
    return ok();
}

Result<Listening> Host::serve_routes(const config::ListenerConfig& listener) {
    if (listener.tls.certificate_file.empty()) {
        health_.remove("certificate/api");  // of the TLS before
    }
    CAPSTAN_TRY(Listening listening,
                serve("api", listener, runtime_->routes(), net::HttpServerOptions{}.idle_timeout));
    log_.info(listening.certificates ? "serving plugin routes over TLS" : "serving plugin routes",
              {{"address", listener.address}, {"port", listening.server->port()}});
    return listening;
}

Result<void> Host::listen_for_routes() {
    if (config_.api_local.enabled) {
        CAPSTAN_TRY(keep_serving(
            "api", config_.api_local, runtime_->routes(), net::HttpServerOptions{}.idle_timeout));
        log_.info("serving plugin routes to this pod", {{"address", config_.api_local.address}});
    }
    if (!config_.api_secure.enabled) {
        CAPSTAN_TRY(Listening listening, serve_routes(config_.api));
        listening_.push_back(std::move(listening));
        return ok();
    }
    steward_listener_.emplace(
        *loop_,
        log_,
        StewardListener::Options{config_.api,
                                 config_.api_secure,
                                 [this](const auto& listener) { return serve_routes(listener); },
                                 &kube::read_small_file});
    return steward_listener_->start();
}

Result<void> Host::listen() {
    const std::chrono::milliseconds usual = net::HttpServerOptions{}.idle_timeout;
    if (config_.ops.enabled) {
        CAPSTAN_TRY(const std::uint16_t port,
                    keep_serving("ops", config_.ops, ops_handler(ops_parts()), usual));
        log_.info("serving health and metrics", {{"address", config_.ops.address}, {"port", port}});
    }
    if (config_.api.enabled) {
        CAPSTAN_TRY(listen_for_routes());
    }
    // Before the caches: the API server may have to ask us before it can answer them.
    return config_.webhook.enabled ? listen_for_reviews() : Result<void>(ok());
}

}  // namespace capstan::cli
