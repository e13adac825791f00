// A client and a scripted API server in virtual time, for the tests of this folder.
#pragma once

#include "runtime/kube/client.hpp"
#include "test/fakes/local_transport.hpp"
#include "test/fakes/virtual_loop.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace capstan::kube {

using namespace std::chrono_literals;

inline const GroupVersionKind kLease{"coordination.k8s.io", "v1", "Lease"};
inline const GroupVersionKind kNode{"", "v1", "Node"};
inline constexpr const char* kObject =
    R"({"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"a","namespace":"x","uid":"u","resourceVersion":"7"}})";

// A scripted API server: answers by "METHOD target", else 404; discovery of two groups is built in.
struct Script {
    struct Answer {
        int status{200};
        std::string body;
        net::Headers headers;
    };
    std::map<std::string, std::deque<Answer>> answers;  // the last one stays
    std::vector<std::string> seen;                      // "METHOD target [content type] body"
    std::vector<std::string> tokens;
    std::vector<std::string> accepts;
    std::shared_ptr<net::ServerExchange> stream;  // the last watch answered with "hold"

    net::ServerHandler handler() {
        answers["GET /apis/coordination.k8s.io/v1"] = {{200,
                                                        R"({"kind":"APIResourceList","resources":[
            {"name":"leases","kind":"Lease","namespaced":true,"verbs":["get","list","watch"]},
            {"name":"leases/status","kind":"Lease","namespaced":true}]})",
                                                        {}}};
        answers["GET /api/v1"] = {
            {200, R"({"resources":[{"name":"nodes","kind":"Node","namespaced":false}]})", {}}};
        return [this](std::shared_ptr<net::ServerExchange> exchange) {
            exchange->read_all(1 << 20, [this, exchange](Result<std::string> body) {
                answer(exchange, body.value());
            });
        };
    }
    void answer(const std::shared_ptr<net::ServerExchange>& exchange, const std::string& body) {
        const std::string line = exchange->method() + " " + exchange->target();
        if ((line == "GET /api" || line == "GET /apis") && !answers.contains(line)) {
            exchange->respond(404, {}, "an old server");  // discovery goes on without it
            return;
        }
        const std::string type(net::find_header(exchange->headers(), "content-type"));
        seen.push_back(line + (type.empty() ? "" : " [" + type + "]") +
                       (body.empty() ? "" : " " + body));
        accepts.emplace_back(net::find_header(exchange->headers(), "accept"));
        tokens.emplace_back(net::find_header(exchange->headers(), "authorization"));
        auto& queue = answers[line];
        if (queue.empty()) {
            exchange->respond(404, {}, "404 page not found");
            return;
        }
        const Answer next = queue.front();
        if (queue.size() > 1) {
            queue.pop_front();
        }
        if (next.body == "hold") {
            exchange->start(200, {});
            stream = exchange;
        } else {
            exchange->respond(next.status, next.headers, next.body);
        }
    }
};

struct Tokens final : TokenSource {
    std::string now{"one"};
    std::string next;
    Result<std::string> token() override { return now; }
    bool refused(const std::string& used) override {
        now = next.empty() ? now : next;
        return now != used;
    }
};

struct Observer final : ClientObserver {
    std::vector<std::string> lines;
    void request_done(std::string_view method,
                      std::string_view code,
                      std::string_view host,
                      std::chrono::nanoseconds d) override {
        lines.push_back(std::string(method) + " " + std::string(code) + " " + std::string(host) +
                        " " + std::to_string(d.count()));
    }
    void warning(std::string_view text) override { lines.emplace_back(text); }
    void request_retried(std::string_view method,
                         std::string_view code,
                         std::string_view) override {
        retries.push_back(std::string(method) + " " + std::string(code));
    }
    void request_sizes(std::string_view,
                       std::string_view,
                       std::size_t sent,
                       std::size_t got) override {
        sizes.emplace_back(sent, got);
    }
    void request_waited(std::string_view, std::string_view, std::chrono::nanoseconds d) override {
        waits.push_back(d);
    }
    std::vector<std::string> retries;
    std::vector<std::pair<std::size_t, std::size_t>> sizes;
    std::vector<std::chrono::nanoseconds> waits;
};

struct ClientTest : testing::Test {
    test::VirtualLoop loop;
    Script script;
    test::LocalTransport http{loop, script.handler(), {.latency = 1ms}};
    Tokens tokens;
    Observer observer;
    Client client{loop, http, {.host = "h:1", .tokens = &tokens, .observer = &observer}};
    std::string outcome;
    CallHandle call;

    Client::ObjectDone note() {
        return [this](Result<ObjectPtr> result) {
            if (!result) {
                outcome +=
                    std::string(to_string(result.error().code)) + "|" + result.error().message;
            } else {
                outcome +=
                    result.value() ? std::string(result.value()->resource_version()) : "gone";
            }
            call.reset();  // inside the callback, on purpose
        };
    }
    std::function<void(Result<ListPage>)> note_list() {
        return [this](Result<ListPage> result) {
            outcome =
                result ? std::to_string(result.value().items.size()) + " items at " +
                             result.value().resource_version + " then '" +
                             result.value().continue_token + "'"
                       : std::string(to_string(result.error().code)) + "|" + result.error().message;
        };
    }
    std::string last() const { return script.seen.empty() ? "" : script.seen.back(); }
};

inline constexpr const char* kItem = "/apis/coordination.k8s.io/v1/namespaces/x/leases/a";

}  // namespace capstan::kube
