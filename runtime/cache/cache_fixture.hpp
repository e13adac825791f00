// A small API server for leases and a cache of it in virtual time, for the tests of this folder.
#pragma once

#include "runtime/cache/cache.hpp"
#include "test/fakes/local_transport.hpp"
#include "test/fakes/virtual_loop.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace capstan::cache {

using namespace std::chrono_literals;

inline const GroupVersionKind kLease{"coordination.k8s.io", "v1", "Lease"};

// A small API server for leases: objects, history, watches with and without initial events,
// compaction, refusals.
class Server {
public:
    bool streaming{true};  // answers sendInitialEvents
    bool served{true};     // the kind exists
    int refuse{0};         // status for lists and watches
    std::uint64_t rv{100};
    std::uint64_t compacted{0};
    std::vector<std::string> seen;

    net::ServerHandler handler() {
        return
            [this](std::shared_ptr<net::ServerExchange> exchange) { answer(std::move(exchange)); };
    }
    void put(const std::string& name,
             const std::string& uid,
             const std::string& label = "a",
             int depth = 0) {
        const bool fresh = !objects_.contains(name);
        json::Value value = {
            {"kind", "Lease"},
            {"apiVersion", "coordination.k8s.io/v1"},
            {"metadata",
             {{"name", name},
              {"namespace", "x"},
              {"uid", uid},
              {"resourceVersion", std::to_string(++rv)},
              {"labels", {{"app", label}}},
              {"managedFields", json::list({1})}}},
        };
        for (json::Value deep = 1; depth > 0; value.set("spec", deep), --depth) {
            deep = json::Value{{"a", json::Value(deep)}};
        }
        objects_[name] = value;
        publish(fresh ? "ADDED" : "MODIFIED", value);
    }
    void remove(const std::string& name) {
        json::Value value = objects_[name];
        objects_.erase(name);
        value["metadata"].set("resourceVersion", std::to_string(++rv));
        publish("DELETED", value);
    }
    ObjectPtr object(const std::string& name) {
        return Object::make(objects_.at(name), kube::Projection::none()).value();
    }
    // Another server, or a backup: other objects, another history.
    void start_over(std::uint64_t at) {
        objects_.clear();
        history_.clear();
        rv = at;
    }
    void compact() {
        compacted = rv;
        history_.clear();
    }
    std::size_t watches() {
        std::erase_if(watches_, [](const auto& w) { return !*w.open; });
        return watches_.size();
    }

private:
    struct Watch {
        std::uint64_t start;
        std::shared_ptr<net::ServerExchange> exchange;
        std::shared_ptr<bool> open;
    };

    static std::string line(const char* type, const json::Value& object) {
        return json::dump({{"type", type}, {"object", object}}) + "\n";
    }
    static std::string status(int code, const char* reason) {
        return json::dump(
            {{"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", "no"}});
    }
    void publish(const char* type, const json::Value& object) {
        history_.emplace_back(rv, line(type, object));
        for (const Watch& watch : watches_) {
            if (*watch.open && rv > watch.start) {
                watch.exchange->write(history_.back().second, [](Result<void>) {});
            }
        }
    }
    static std::string parameter(const std::string& target, const std::string& key) {
        const std::size_t at = target.find(key + "=");
        return at == std::string::npos
                   ? ""
                   : target.substr(at + key.size() + 1, target.find('&', at) - at - key.size() - 1);
    }
    void answer(std::shared_ptr<net::ServerExchange> exchange) {
        const std::string target = exchange->target();
        if (target == "/apis") {
            exchange->respond(404, {}, "an old server");
            return;
        }
        if (target == "/apis/coordination.k8s.io/v1") {
            exchange->respond(
                200,
                {},
                served ? R"({"resources":[{"name":"leases","kind":"Lease","namespaced":true}]})"
                       : R"({"resources":[]})");
            return;
        }
        seen.push_back(target.substr(target.find('?') + 1));
        if (!served || refuse != 0) {
            const int code = served ? refuse : 404;
            exchange->respond(code, {}, status(code, code == 403 ? "Forbidden" : ""));
        } else if (target.find("watch=true") == std::string::npos) {
            list(*exchange, target);
        } else {
            watch(exchange, target);
        }
    }
    void list(net::ServerExchange& exchange, const std::string& target) {
        const std::string from = parameter(target, "resourceVersion");
        if (!from.empty() && std::stoull(from) > rv) {
            exchange.respond(504, {}, R"({"kind":"Status","code":504,"reason":"Timeout",
                "message":"Timeout: Too large resource version: 9, current: 1"})");
            return;
        }
        json::Value items = json::list();
        for (const auto& [name, object] : objects_) {
            items.push_back(object);
        }
        exchange.respond(200,
                         {},
                         json::dump({{"metadata", {{"resourceVersion", std::to_string(rv)}}},
                                     {"items", std::move(items)}}));
    }
    void watch(const std::shared_ptr<net::ServerExchange>& exchange, const std::string& target) {
        const bool initial = target.find("sendInitialEvents") != std::string::npos;
        const std::string from = parameter(target, "resourceVersion");
        const std::uint64_t start = from.empty() ? 0 : std::stoull(from);
        if (initial && !streaming) {
            exchange->respond(422, {}, status(422, "Invalid"));
            return;
        }
        if (!initial && start < compacted) {
            exchange->respond(410, {}, status(410, "Expired"));
            return;
        }
        exchange->start(200, {});
        std::string lines;
        if (initial) {
            for (const auto& [name, object] : objects_) {
                lines += line("ADDED", object);
            }
            lines += line("BOOKMARK",
                          {{"metadata",
                            {{"resourceVersion", std::to_string(rv)},
                             {"annotations", {{"k8s.io/initial-events-end", "true"}}}}}});
        } else {
            for (const auto& [version, text] : history_) {
                lines += version > start ? text : "";
            }
        }
        if (!lines.empty()) {
            exchange->write(std::move(lines), [](Result<void>) {});
        }
        const auto open = std::make_shared<bool>(true);
        exchange->on_closed([open] { *open = false; });
        watches_.push_back({start, exchange, open});
    }

    std::map<std::string, json::Value> objects_;
    std::vector<std::pair<std::uint64_t, std::string>> history_;
    std::vector<Watch> watches_;
};

struct Observer final : CacheObserver {
    std::vector<std::string> lines;
    void log(const WatchSpec&, const LogLine& line) override { lines.push_back(line.message); }
    void listed(const WatchSpec&, std::string_view reason) override {
        lines.push_back("list: " + std::string(reason));
    }
};

struct CacheTest : testing::Test {
    test::VirtualLoop loop;
    Server server;
    test::LocalTransport http{loop, server.handler(), {.latency = 1ms}};
    kube::Client client{loop, http, {.host = "h:1"}};
    Observer observer;
    Cache cache{loop, client, {.random = [] { return 0.0; }, .observer = &observer}};
    std::string log;
    std::string states;

    Subscriber note() {
        return [this](const Event& e) {
            constexpr char kTypes[] = {'+', '~', '-', '='};
            const ObjectPtr& any = e.new_object ? e.new_object : e.old_object;
            log += (log.empty() ? "" : " ") + std::string(1, kTypes[static_cast<int>(e.type)]) +
                   std::string(any->name()) + (e.initial ? "i" : "") +
                   (e.final_state_unknown ? "?" : "") + (e.own_write ? "*" : "");
        };
    }
    std::unique_ptr<WatchHandle> watch(WatchSpec spec = {.gvk = kLease, .ns = "x"}) {
        auto handle = cache.watch(
            {.spec = std::move(spec), .on_event = note(), .on_state = [this](const WatchState& s) {
                 states += s.reason.empty() ? "live;" : s.reason + ";";
             }});
        EXPECT_TRUE(handle) << handle.error().message;
        return std::move(handle).value();
    }
    std::string take_log() { return std::exchange(log, ""); }
};

}  // namespace capstan::cache
