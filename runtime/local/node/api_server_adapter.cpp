#include "runtime/local/node/api_server_adapter.hpp"

#include "runtime/local/apiserver/api_server.hpp"
#include "runtime/local/apiserver/builtin_kinds.hpp"
#include "runtime/local/node/objects.hpp"

#include <map>
#include <set>
#include <vector>

namespace capstan::local {
namespace {

std::string collection_path(const BuiltinKind& kind, const std::string& ns) {
    std::string path = kind.group.empty() ? "/api/" : "/apis/" + kind.group + "/";
    path += kind.version;
    if (!ns.empty()) {
        path += "/namespaces/" + ns;
    }
    return path + "/" + kind.plural;
}

ApiRequest request_of(std::string method, std::string target, std::string body = {}) {
    ApiRequest request;
    request.method = std::move(method);
    request.target = std::move(target);
    request.accept = "application/json";
    request.content_type = "application/json";
    request.body = std::move(body);
    request.user_agent = "capstan-node/1";
    request.user.name = kNodeUser;
    request.user.groups = {std::string(kGroupMasters), std::string(kGroupAuthenticated)};
    return request;
}

Error error_of(const ApiResponse& response) {
    const auto parsed = json::parse(response.body);
    const json::Value none;
    const json::View status(parsed.has_value() ? parsed.value() : none);
    std::string message(status["message"].string_or("status " + std::to_string(response.status)));
    message.resize(std::min<std::size_t>(message.size(), 512));
    auto code = Code::unavailable;
    switch (response.status) {
        case 400:
        case 422: code = Code::invalid; break;
        case 401:
        case 403: code = Code::forbidden; break;
        case 404: code = Code::not_found; break;
        case 409:
            code =
                status["reason"].string_or("") == "AlreadyExists" ? Code::exists : Code::conflict;
            break;
        case 410: code = Code::expired; break;
        case 429: code = Code::overloaded; break;
        default: break;
    }
    return {code, std::move(message), {}};
}

Result<json::Value> answer(const ApiResponse& response) {
    if (response.status >= 200 && response.status < 300) {
        return json::parse(response.body);
    }
    return fail(error_of(response));
}

using Handler = std::function<void(const NodeChange&)>;

// Shared by the handle and by what it posted: after the handle is gone nothing is delivered.
class Subscription : public std::enable_shared_from_this<Subscription> {
public:
    Subscription(net::Loop& loop, ApiServer& server, const BuiltinKind& kind, Handler handler)
        : loop_(loop), server_(server), kind_(kind), handler_(std::move(handler)) {}

    void open() {
        const auto path = collection_path(kind_, "");
        const auto listed = answer(server_.handle(request_of("GET", path)));
        if (!listed.has_value()) {
            open_later();
            return;
        }
        const json::View list(listed.value());
        std::set<ObjectKey> present;
        for (const auto& item : list["items"].array()) {
            present.insert(key_of(item));
            deliver(
                {known_.contains(key_of(item)) ? NodeChangeType::modified : NodeChangeType::added,
                 item});
        }
        const auto before = known_;
        for (const auto& [key, object] : before) {
            if (!present.contains(key)) {
                deliver({NodeChangeType::deleted, object});
            }
        }
        const std::string version(list["metadata"]["resourceVersion"].string_or("0"));
        auto weak = weak_from_this();
        WatchSink sink;
        sink.on_lines = [weak](std::string_view lines) {
            if (const auto self = weak.lock()) {
                self->take(lines);
            }
        };
        sink.on_end = [weak] {
            if (const auto self = weak.lock()) {
                self->open_later();
            }
        };
        auto start = server_.open_watch(
            request_of("GET", path + "?watch=true&resourceVersion=" + version), std::move(sink));
        watch_ = std::move(start.handle);
        if (!watch_) {
            open_later();
        }
    }
    void close() {
        closed_ = true;
        watch_.reset();
    }

private:
    void open_later() {
        timer_ = loop_.at(loop_.now() + std::chrono::milliseconds(10), [weak = weak_from_this()] {
            if (const auto self = weak.lock(); self && !self->closed_) {
                self->open();
            }
        });
    }
    void take(std::string_view lines) {
        while (!lines.empty()) {
            const auto line = lines.substr(0, lines.find('\n'));
            lines.remove_prefix(std::min(lines.size(), line.size() + 1));
            const auto event = json::parse(line);
            const json::Value none;
            const json::View view(event.has_value() ? event.value() : none);
            const auto type = view["type"].string_or("");
            if (type == "ADDED" || type == "MODIFIED" || type == "DELETED") {
                deliver({type == "ADDED"     ? NodeChangeType::added
                         : type == "DELETED" ? NodeChangeType::deleted
                                             : NodeChangeType::modified,
                         *view["object"].value()});
            }
        }
    }
    void deliver(NodeChange change) {
        const auto key = key_of(change.object);
        if (change.type == NodeChangeType::deleted) {
            known_.erase(key);
        } else {
            known_.insert_or_assign(key, change.object);
        }
        loop_.post([self = shared_from_this(), change = std::move(change)] {
            if (!self->closed_) {
                self->handler_(change);
            }
        });
    }

    net::Loop& loop_;
    ApiServer& server_;
    const BuiltinKind& kind_;
    const Handler handler_;
    std::map<ObjectKey, json::Value> known_;
    std::unique_ptr<WatchHandle> watch_;
    std::unique_ptr<net::Timer> timer_;
    bool closed_{false};
};

class Handle final : public NodeWatch {
public:
    explicit Handle(std::shared_ptr<Subscription> subscription)
        : subscription_(std::move(subscription)) {}
    ~Handle() override { subscription_->close(); }

private:
    std::shared_ptr<Subscription> subscription_;
};

class Adapter final : public NodeApi {
public:
    Adapter(net::Loop& loop, ApiServer& server) : loop_(loop), server_(server) {}

    Result<json::Value> get(const GroupVersionKind& kind, const ObjectKey& key) override {
        return answer(server_.handle(request_of("GET", path(kind, key))));
    }
    Result<json::Value> create(const GroupVersionKind& kind, json::Value object) override {
        const auto ns = key_of(object).ns;
        return answer(
            server_.handle(request_of("POST", collection_path(of(kind), ns), json::dump(object))));
    }
    Result<json::Value> patch(const GroupVersionKind& kind,
                              const ObjectKey& key,
                              json::Value patch) override {
        return send_patch(path(kind, key), patch);
    }
    Result<json::Value> patch_status(const GroupVersionKind& kind,
                                     const ObjectKey& key,
                                     json::Value patch) override {
        return send_patch(path(kind, key) + "/status", patch);
    }
    Result<void> remove(const GroupVersionKind& kind,
                        const ObjectKey& key,
                        const RemoveOptions& options) override {
        json::Value body = {
            {"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"propagationPolicy", "Background"}};
        if (options.grace_seconds >= 0) {
            body.set("gracePeriodSeconds", options.grace_seconds);
        }
        if (!options.uid.empty()) {
            body.set("preconditions", {{"uid", options.uid}});
        }
        const auto response =
            server_.handle(request_of("DELETE", path(kind, key), json::dump(body)));
        if (response.status >= 200 && response.status < 300) {
            return ok();
        }
        return fail(error_of(response));
    }
    std::unique_ptr<NodeWatch> watch(const GroupVersionKind& kind,
                                     std::function<void(const NodeChange&)> handler) override {
        auto subscription =
            std::make_shared<Subscription>(loop_, server_, of(kind), std::move(handler));
        subscription->open();
        return std::make_unique<Handle>(std::move(subscription));
    }

private:
    static const BuiltinKind& of(const GroupVersionKind& kind) {
        const auto* found = builtin_kind(kind);
        CAPSTAN_CHECK(found != nullptr, kind.to_string());
        return *found;
    }
    static std::string path(const GroupVersionKind& kind, const ObjectKey& key) {
        return collection_path(of(kind), key.ns) + "/" + key.name;
    }
    Result<json::Value> send_patch(std::string target, const json::Value& patch) {
        auto request = request_of("PATCH", std::move(target), json::dump(patch));
        request.content_type = "application/merge-patch+json";
        return answer(server_.handle(request));
    }

    net::Loop& loop_;
    ApiServer& server_;
};

}  // namespace

std::unique_ptr<NodeApi> make_node_api(net::Loop& loop, ApiServer& server) {
    return std::make_unique<Adapter>(loop, server);
}

}  // namespace capstan::local
