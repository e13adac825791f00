// Client and cache against the embedded API server over real sockets, with trouble in between:
// what each disturbance costs, and that the cache is right again afterwards.
//
// Time is real, so every fault lasts a few seconds and tests assert on what comes and on how many
// requests it took. Its lies: client and server share one loop, so nothing happens while the other
// is busy. Thread: main.
#pragma once

#include "runtime/cache/cache.hpp"
#include "runtime/kube/connection.hpp"
#include "runtime/local/apiserver/api_server.hpp"
#include "runtime/local/apiserver/authenticator.hpp"
#include "runtime/local/apiserver/http_binding.hpp"
#include "runtime/net/http_server.hpp"
#include "runtime/net/io_loop.hpp"
#include "runtime/net/pki.hpp"
#include "test/disturb/faulty_exchange.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace capstan::test {

inline constexpr std::chrono::seconds kDisturbLimit{20};  // of anything that could hang
inline const GroupVersionKind kConfigMap{"", "v1", "ConfigMap"};

class DisturbWorld : public cache::CacheObserver,
                     public kube::ClientObserver,
                     public kube::RotationObserver {
public:
    struct Seen {
        MonotonicTime at;
        std::string line;  // "GET /api/v1/configmaps?watch=true&…"
        std::string who;   // common name of the client certificate, or the token
    };

    DisturbWorld();
    ~DisturbWorld() override;

    // The server. TLS as soon as serving() was given a pair.
    void serve();
    void stop_serving();
    // Another server from now on, with data of its own. Requires: not serving.
    void replace_server();
    void serve_with(const net::KeyPair& pair, std::string client_ca_pem);
    std::string endpoint() const;
    net::HttpServer& http_server() { return *http_; }

    // The client: kubeconfig text, as a user writes it.
    void connect(const std::string& kubeconfig);
    void connect_plainly();
    // Watches all objects of the kind and counts what the subscriber gets.
    void watch(const GroupVersionKind& gvk = kConfigMap);
    void drop_watch();

    void put(const std::string& name, const std::string& value);
    void remove(const std::string& name);
    local::ApiResponse ask(const std::string& method,
                           const std::string& target,
                           const std::string& body = {});
    // Runs the loop until `done`; false: kDisturbLimit passed.
    bool until(const std::function<bool()>& done);
    void run_for(std::chrono::milliseconds duration);

    // The store holds the server's objects in their versions.
    bool equal(const std::string& collection = "/api/v1/configmaps");
    bool is_live() const;
    int lists(const std::string& reason) const;
    std::size_t requests(const std::string& part, MonotonicTime since = MonotonicTime{0}) const;

    // CacheObserver, ClientObserver, RotationObserver
    void log(const cache::WatchSpec&, const cache::LogLine& line) override;
    void listed(const cache::WatchSpec&, std::string_view reason) override;
    void request_done(std::string_view,
                      std::string_view,
                      std::string_view,
                      std::chrono::nanoseconds) override {}
    void warning(std::string_view) override {}
    void reloaded(bool, std::string_view) override {}
    void changed(std::string_view what) override { changes.emplace_back(what); }
    void failed(const Error&) override {}
    void expires(WallTime, std::string_view) override {}

    const std::unique_ptr<net::IoLoop> loop;
    std::function<Trouble(const std::string& line)> trouble;  // empty: none
    cache::ReflectorOptions reflector;
    local::Authenticator authenticator;
    std::size_t watch_backlog_bytes{local::kWatchBacklogBytesMax};
    std::vector<Seen> seen;
    std::vector<std::string> changes;  // of credentials
    std::vector<std::string> log_lines;
    std::map<std::string, int> list_reasons;
    std::size_t events{0};
    std::unique_ptr<kube::Connection> connection;
    std::unique_ptr<cache::Cache> cache;
    std::unique_ptr<cache::WatchHandle> handle;

private:
    void take(std::shared_ptr<net::ServerExchange> exchange);

    std::unique_ptr<local::ApiServer> server_;
    std::unique_ptr<local::HttpBinding> binding_;
    std::unique_ptr<net::HttpServer> http_;
    net::HttpServerOptions http_options_;
    std::vector<std::shared_ptr<net::ServerExchange>> held_;  // silent ones
    unsigned dice_{7};
};

}  // namespace capstan::test
