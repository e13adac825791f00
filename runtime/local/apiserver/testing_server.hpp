// A server in memory under a hand-moved clock, with short spellings for requests. For
// the tests of this folder.
#pragma once

#include "runtime/local/apiserver/api_server.hpp"

#include "capstan/json.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local::testing_server {

class HandClock : public Clock {
public:
    MonotonicTime now() const noexcept override { return now_; }
    WallTime wall_now() const noexcept override {
        return WallTime(
            std::chrono::duration_cast<WallTime::duration>(std::chrono::seconds(1'767'225'600)) +
            now_);
    }
    void advance(std::chrono::nanoseconds by) { now_ += by; }

private:
    MonotonicTime now_{std::chrono::hours(1)};
};

struct Reply {
    int status{0};
    json::Value body;
    ApiResponse raw;

    json::View view() const { return json::View(body); }
    std::string text(std::string_view pointer) const {
        const json::Value* found = body.pointer(pointer);
        if (found == nullptr) {
            return "<absent>";
        }
        return found->is_string() ? *found->if_string() : json::dump(*found);
    }
    std::string reason() const { return text("/reason"); }
    std::string message() const { return text("/message"); }
    std::string version() const { return text("/metadata/resourceVersion"); }
};

inline constexpr const char* kMerge = "application/merge-patch+json";
inline constexpr const char* kJsonPatch = "application/json-patch+json";
inline constexpr const char* kStrategic = "application/strategic-merge-patch+json";
inline constexpr const char* kApply = "application/apply-patch+yaml";

// What one watch has received.
struct Seen {
    std::vector<json::Value> events;
    bool ended{false};
    std::string buffer;

    WatchSink sink() {
        return {[this](std::string_view lines) {
                    buffer += lines;
                    for (std::size_t end = buffer.find('\n'); end != std::string::npos;
                         end = buffer.find('\n')) {
                        auto event = json::parse(std::string_view(buffer).substr(0, end));
                        ASSERT_TRUE(event) << buffer;
                        events.push_back(std::move(event).assume_value());
                        buffer.erase(0, end + 1);
                    }
                },
                [this] { ended = true; }};
    }
    // "ADDED a, MODIFIED a": since the last call.
    std::string take() {
        std::string out;
        for (const json::Value& event : events) {
            const json::View view(event);
            const std::string_view type = view["type"].string_or("");
            out += (out.empty() ? "" : ", ") + std::string(type);
            if (type == "BOOKMARK") {
                out +=
                    view["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"].present()
                        ? " end"
                        : "";
            } else {
                out += " " + std::string(view["object"]["metadata"]["name"].string_or("?"));
            }
        }
        events.clear();
        return out;
    }
};

class TestServer {
public:
    explicit TestServer(ApiServerOptions options = {}) {
        auto created = ApiServer::create(clock, std::move(options));
        EXPECT_TRUE(created) << created.error().message;
        if (created) {
            server = std::move(created).assume_value();
        }
    }

    ApiRequest request(std::string method,
                       std::string target,
                       std::string body = {},
                       std::string type = {}) const {
        ApiRequest out;
        out.method = std::move(method);
        out.target = std::move(target);
        out.body = std::move(body);
        out.content_type = type.empty() ? "application/json" : std::move(type);
        out.user_agent = "tester/1.0 (linux)";
        out.user = user;
        state_kind(out);
        return out;
    }
    // Bodies of Widgets in tests need not say what they are.
    static void state_kind(ApiRequest& sent) {
        const std::string prefix = "/apis/x.dev/";
        const bool whole = sent.method == "POST" || sent.method == "PUT";
        if (whole && sent.target.starts_with(prefix) && sent.body.starts_with("{\"") &&
            sent.body.find("\"kind\"") == std::string::npos &&
            sent.target.find("/scale") == std::string::npos) {
            const std::string version = sent.target.substr(
                prefix.size(), sent.target.find('/', prefix.size()) - prefix.size());
            sent.body.insert(1, "\"apiVersion\":\"x.dev/" + version + R"(","kind":"Widget",)");
        }
    }
    Reply call(const ApiRequest& sent) {
        Reply reply;
        reply.raw = server->handle(sent);
        reply.status = reply.raw.status;
        if (auto parsed = json::parse(reply.raw.body)) {
            reply.body = std::move(parsed).assume_value();
        }
        return reply;
    }
    Reply get(std::string target, std::string accept = {}) {
        ApiRequest sent = request("GET", std::move(target));
        sent.accept = std::move(accept);
        return call(sent);
    }
    Reply post(std::string target, std::string body) {
        return call(request("POST", std::move(target), std::move(body)));
    }
    Reply put(std::string target, std::string body) {
        return call(request("PUT", std::move(target), std::move(body)));
    }
    Reply patch(std::string target, std::string body, std::string type = kMerge) {
        return call(request("PATCH", std::move(target), std::move(body), std::move(type)));
    }
    Reply del(std::string target, std::string body = {}) {
        return call(request("DELETE", std::move(target), std::move(body)));
    }
    // A ConfigMap in "default".
    Reply make_map(const std::string& name,
                   const std::string& labels = "{}",
                   const std::string& data = "{}") {
        return post("/api/v1/namespaces/default/configmaps",
                    R"({"metadata":{"name":")" + name + R"(","labels":)" + labels + R"(},"data":)" +
                        data + "}");
    }
    std::unique_ptr<WatchHandle> watch(std::string target, Seen& seen) {
        WatchStart start = server->open_watch(request("GET", std::move(target)), seen.sink());
        refused = start.refused;
        return std::move(start.handle);
    }

    HandClock clock;
    User user{"admin", {"system:masters"}};
    std::unique_ptr<ApiServer> server;
    ApiResponse refused;
};

inline constexpr const char* kMaps = "/api/v1/namespaces/default/configmaps";
inline constexpr const char* kCrds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
inline constexpr const char* kWidgets = "/apis/x.dev/v1/namespaces/default/widgets";

// A CRD with status and scale, defaults, a map list and a second served version.
inline const char* widget_crd() {
    return R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
      "metadata":{"name":"widgets.x.dev"},
      "spec":{"group":"x.dev","scope":"Namespaced",
        "names":{"plural":"widgets","kind":"Widget","shortNames":["wd"]},
        "versions":[
          {"name":"v1","served":true,"storage":true,
           "subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas",
             "statusReplicasPath":".status.replicas","labelSelectorPath":".status.selector"}},
           "schema":{"openAPIV3Schema":{"type":"object","properties":{
             "spec":{"type":"object","properties":{
               "replicas":{"type":"integer","minimum":0,"default":1},
               "size":{"type":"string","enum":["small","large"]},
               "ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
                 "items":{"type":"object","required":["name"],"properties":{
                   "name":{"type":"string"},"port":{"type":"integer"}}}}}},
             "status":{"type":"object","properties":{
               "replicas":{"type":"integer"},"selector":{"type":"string"},"phase":{"type":"string"}}}}}}},
          {"name":"v1beta1","served":true,"storage":false,
           "schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}})";
}

}  // namespace capstan::local::testing_server
