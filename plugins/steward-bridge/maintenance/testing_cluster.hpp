// An etcd cluster of a few sentences for tests: answers the gateway's calls through FakeHost, with
// the objects that a steward of its first member needs.
#pragma once

#include "capstan/testing/fake_host.hpp"
#include "plugins/steward-bridge/configuration.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace capstan::steward::testing_cluster {

using capstan::testing::FakeHost;
using capstan::testing::HttpReply;

// The state of "m-<i>" is at index i; its id is i + 1 and its URL http://10.0.0.<i>:2379.
struct FakeCluster {
    explicit FakeCluster(std::size_t size) : size_(size) {}

    std::size_t leader{0};
    std::set<std::size_t> silent;                               // do not answer
    std::set<std::size_t> not_started;                          // have told no client URL
    std::vector<std::pair<std::size_t, std::string>> alarms{};  // raised by, name
    std::vector<std::size_t> defragmented;                      // in order
    int defragment_status{200};
    capstan_rc defragment_rc{CAPSTAN_OK};
    std::vector<std::string> other_urls;  // asked for what is no gateway
    HttpReply other{CAPSTAN_OK, 404, json::object(), "not found"};

    static std::string url(std::size_t index) {
        return "http://10.0.0." + std::to_string(index) + ":2379";
    }

    void install(FakeHost& host) {
        host.on_http([this](const json::Value& request, std::string_view) {
            return answer(std::string(json::View(request)["url"].string_or("")));
        });
        put_objects(host);
    }

    void put_objects(FakeHost& host) const {
        json::Value members = json::object();
        for (std::size_t i = 0; i < size_; ++i) {
            members.set(name(i), {{"configHash", "h"}, {"config", json::object()}});
            host.put({{"apiVersion", "coordination.k8s.io/v1"},
                      {"kind", "Lease"},
                      {"metadata", {{"namespace", "ns"}, {"name", name(i)}}}});
            host.put({{"apiVersion", "druid.gardener.cloud/v1alpha1"},
                      {"kind", "EtcdMember"},
                      {"metadata", {{"namespace", "ns"}, {"name", name(i)}}}});
        }
        const json::Value steward = {
            {"apiVersion", "config.capstan.dev/v1alpha1"},
            {"etcd", {{"replicas", static_cast<std::int64_t>(size_)}}},
            {"ports", {{"api", 8080}}},
            {"endpoints", {{"local", url(0)}, {"service", json::list({url(0)})}}},
            {"dataDir", "/data"},
            {"defragTimeout", "10m"},
            {"defragmentationSchedule", schedule},
            {"members", std::move(members)},
        };
        host.put({{"apiVersion", "v1"},
                  {"kind", "ConfigMap"},
                  {"metadata", {{"namespace", "ns"}, {"name", "m-config"}}},
                  {"data", {{"steward.yaml", json::dump(steward)}}}});
    }

    static Identity identity() { return {"m-0", "ns", "m", "m-0", "m-config", "/run"}; }
    static std::string name(std::size_t index) { return "m-" + std::to_string(index); }

    std::string schedule;

    HttpReply answer(const std::string& url_text) {
        for (std::size_t i = 0; i < size_; ++i) {
            if (url_text.starts_with(url(i) + "/v3/")) {
                return silent.contains(i) ? HttpReply{CAPSTAN_E_UNAVAIL, 0, json::object(), ""}
                                          : gateway(i, url_text.substr(url(i).size()));
            }
        }
        other_urls.push_back(url_text);
        return other;
    }

private:
    static HttpReply reply(const json::Value& body) {
        return {CAPSTAN_OK, 200, json::object(), json::dump(body)};
    }

    HttpReply gateway(std::size_t index, const std::string& path) {
        const auto id = [](std::size_t i) { return std::to_string(i + 1); };
        if (path == "/v3/maintenance/status") {
            json::Value status = {{"header", {{"member_id", id(index)}, {"cluster_id", "9"}}},
                                  {"dbSize", defragmented.empty() ? "4096" : "1024"}};
            if (leader < size_) {
                status.set("leader", id(leader));
            }
            return reply(status);
        }
        if (path == "/v3/maintenance/alarm") {
            json::Value list = json::list();
            for (const auto& [member, alarm] : alarms) {
                list.push_back({{"memberID", id(member)}, {"alarm", alarm}});
            }
            return reply({{"alarms", std::move(list)}});
        }
        if (path == "/v3/maintenance/defragment") {
            defragmented.push_back(index);
            return {defragment_rc, defragment_status, json::object(), "{}"};
        }
        json::Value members = json::list();
        for (std::size_t i = 0; i < size_; ++i) {
            json::Value urls = not_started.contains(i) ? json::list() : json::list({url(i)});
            members.push_back({{"ID", id(i)}, {"name", name(i)}, {"clientURLs", std::move(urls)}});
        }
        return reply({{"members", std::move(members)}});
    }

    std::size_t size_;
};

}  // namespace capstan::steward::testing_cluster
