#include "test/disturb/disturb_world.hpp"

#include "capstan/json.hpp"

#include <algorithm>
#include <utility>

// TODO(test): a server that is closed while faults lie over its open watches leaves both behind: an
// exchange and the fault around it hold each other. Seen by the leak checker only.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() {
    return 1;
}

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<local::ApiServer> make_server(const Clock& clock, std::uint64_t seed) {
    local::ApiServerOptions options;
    options.seed = seed;  // of uids
    return local::ApiServer::create(clock, std::move(options)).value();
}

}  // namespace

DisturbWorld::DisturbWorld() : loop(net::make_loop()), server_(make_server(*loop, 3)) {
    reflector.backoff_max = 3s;
}

DisturbWorld::~DisturbWorld() {
    handle.reset();
    cache.reset();
    connection.reset();
    held_.clear();
    // Open watches of the server keep it: they end when it has seen its clients go.
    run_for(100ms);
    http_.reset();
    binding_.reset();
}

void DisturbWorld::serve() {
    if (binding_ == nullptr) {
        local::HttpBindingOptions options;
        options.watch_backlog_bytes_max = watch_backlog_bytes;
        binding_ = std::make_unique<local::HttpBinding>(
            *loop, *server_, authenticator, std::move(options));
    }
    http_ = net::make_http_server(*loop, http_options_, [this](auto exchange) {
                take(std::move(exchange));
            }).value();
    http_options_.port = http_->port();  // the next one is at the same place
}

void DisturbWorld::stop_serving() {
    held_.clear();
    http_.reset();
}

void DisturbWorld::serve_with(const net::KeyPair& pair, std::string client_ca_pem) {
    http_options_.certificate_pem = pair.certificate_pem;
    http_options_.key_pem = pair.key_pem;
    http_options_.client_ca_pem = std::move(client_ca_pem);
    http_options_.client_auth = net::ClientAuth::request;
    serve();
}

void DisturbWorld::replace_server() {
    run_for(100ms);  // its watches end when it has seen their clients go
    binding_.reset();
    server_ = make_server(*loop, 4);
}

std::string DisturbWorld::endpoint() const {
    return (http_options_.certificate_pem.empty() ? "http://127.0.0.1:" : "https://127.0.0.1:") +
           std::to_string(http_options_.port);
}

void DisturbWorld::take(std::shared_ptr<net::ServerExchange> exchange) {
    const std::string line = exchange->method() + " " + exchange->target();
    const std::string bearer(net::find_header(exchange->headers(), "authorization"));
    seen.push_back(
        {loop->now(), line, bearer.empty() ? exchange->certificate_common_name() : bearer});
    const Trouble wanted = trouble ? trouble(line) : Trouble{};
    if (wanted.silent) {
        held_.push_back(std::move(exchange));
        return;
    }
    if (wanted.status != 0) {
        net::Headers headers;
        if (wanted.retry_after > 0s) {
            headers.emplace_back("Retry-After", std::to_string(wanted.retry_after.count()));
        }
        const std::string reason = wanted.status == 410 ? "Expired" : "";
        const json::Value status = {{"kind", "Status"},
                                    {"apiVersion", "v1"},
                                    {"status", "Failure"},
                                    {"reason", reason},
                                    {"code", wanted.status}};
        exchange->respond(wanted.status, std::move(headers), json::dump(status));
        return;
    }
    binding_->handler()(make_faulty(*loop, std::move(exchange), wanted));
}

void DisturbWorld::connect(const std::string& kubeconfig) {
    auto config = kube::parse_kubeconfig(kubeconfig, "/");
    CAPSTAN_CHECK(config.has_value(), config.error().message);
    kube::ConnectionOptions options;
    options.observer = this;
    options.rotation = this;
    connection =
        kube::Connection::open(*loop, std::move(config).value(), std::move(options)).value();
    cache::CacheOptions cache_options;
    cache_options.reflector = reflector;
    cache_options.random = [this] {
        dice_ = dice_ * 1103515245 + 12345;
        return static_cast<double>(dice_ >> 16 & 0x7fff) / 0x8000;
    };
    cache_options.observer = this;
    cache = std::make_unique<cache::Cache>(*loop, connection->client(), cache_options);
}

void DisturbWorld::connect_plainly() {
    CAPSTAN_CHECK(authenticator.set_token("a-token-of-the-master", {"master", {"system:masters"}})
                      .has_value(),
                  "token");
    connect(
        R"({"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],
        "clusters":[{"name":"k","cluster":{"server":")" +
        endpoint() + R"("}}],"users":[{"name":"u","user":{"token":"a-token-of-the-master"}}]})");
}

void DisturbWorld::watch(const GroupVersionKind& gvk) {
    cache::WatchRequest request;
    request.spec.gvk = gvk;
    request.on_event = [this](const cache::Event&) { ++events; };
    handle = cache->watch(std::move(request)).value();
}

void DisturbWorld::drop_watch() {
    handle.reset();
}

local::ApiResponse DisturbWorld::ask(const std::string& method,
                                     const std::string& target,
                                     const std::string& body) {
    local::ApiRequest request;
    request.method = method;
    request.target = target;
    request.body = body;
    request.content_type = method == "PATCH" ? "application/apply-patch+yaml" : "application/json";
    request.accept = "application/json";
    request.user_agent = "person/1";
    request.user = {"person", {"system:masters"}};
    return server_->handle(request);
}

void DisturbWorld::put(const std::string& name, const std::string& value) {
    const json::Value object = {{"apiVersion", "v1"},
                                {"kind", "ConfigMap"},
                                {"metadata", {{"name", name}, {"namespace", "default"}}},
                                {"data", {{"v", value}}}};
    const auto answer =
        ask("PATCH",
            "/api/v1/namespaces/default/configmaps/" + name + "?fieldManager=person&force=true",
            json::dump(object));
    CAPSTAN_CHECK(answer.status < 300, answer.body);
}

void DisturbWorld::remove(const std::string& name) {
    const auto answer = ask("DELETE", "/api/v1/namespaces/default/configmaps/" + name);
    CAPSTAN_CHECK(answer.status < 300, answer.body);
}

bool DisturbWorld::until(const std::function<bool()>& done) {
    // Asked again now and then: some conditions change without a callback.
    bool holds = false;
    std::unique_ptr<net::Timer> glance;
    std::function<void()> look = [&] {
        holds = done();
        glance = loop->at(loop->now() + 5ms, look);
    };
    look();
    return loop->run_until([&] { return holds; }, kDisturbLimit);
}

void DisturbWorld::run_for(std::chrono::milliseconds duration) {
    bool over = false;
    const auto timer = loop->at(loop->now() + duration, [&] { over = true; });
    loop->run_until([&] { return over; }, duration + kDisturbLimit);
}

bool DisturbWorld::equal(const std::string& collection) {
    const auto answer = ask("GET", collection);
    const auto list = json::parse(answer.body);
    if (answer.status != 200 || !list || !handle) {
        return false;
    }
    std::map<std::string, std::string> there;
    for (const json::Value& item : json::View(list.value())["items"].array()) {
        const json::View metadata = json::View(item)["metadata"];
        there[std::string(metadata["namespace"].string_or("")) + "/" +
              std::string(metadata["name"].string_or(""))] =
            metadata["resourceVersion"].string_or("");
    }
    const auto objects = handle->store()->list();
    return objects.size() == there.size() &&
           std::all_of(objects.begin(), objects.end(), [&](const auto& object) {
               const auto found = there.find(object->key().ns + "/" + object->key().name);
               return found != there.end() && found->second == object->resource_version();
           });
}

bool DisturbWorld::is_live() const {
    return handle && handle->state().state == cache::SyncState::live;
}

int DisturbWorld::lists(const std::string& reason) const {
    const auto found = list_reasons.find(reason);
    return found == list_reasons.end() ? 0 : found->second;
}

std::size_t DisturbWorld::requests(const std::string& part, MonotonicTime since) const {
    return static_cast<std::size_t>(std::count_if(seen.begin(), seen.end(), [&](const Seen& one) {
        return one.at >= since && one.line.find(part) != std::string::npos;
    }));
}

void DisturbWorld::log(const cache::WatchSpec&, const cache::LogLine& line) {
    log_lines.push_back(line.message + (line.error.empty() ? "" : ": " + line.error));
}

void DisturbWorld::listed(const cache::WatchSpec&, std::string_view reason) {
    ++list_reasons[std::string(reason)];
}

}  // namespace capstan::test
