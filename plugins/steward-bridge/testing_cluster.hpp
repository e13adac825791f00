// For tests: an etcd cluster as its gateway shows it, without any etcd. It lies: there is no raft,
// a member answers while `down` does not name it, and a learner is in sync when `in_sync` says so.
#pragma once

#include "capstan/json.hpp"
#include "capstan/testing/fake_host.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::steward {

class TestCluster {
public:
    struct One {
        std::uint64_t id{0};
        std::string name;
        std::string host;  // "a": http://a:2380, http://a:2379
        bool learner{false};
        std::string leads_to{};  // the host its client URL leads to, where that is another one
    };

    std::vector<One> members;
    std::set<std::string> down;  // hosts
    std::set<std::string>
        deaf;  // hosts of members that run, but nobody reaches their clients' port
    bool in_sync{true};
    bool lose_next_answer{false};      // it happens, but nobody hears of it
    std::vector<std::string> changes;  // "remove 3", "add c", "promote 9"

    testing::HttpReply answer(const json::Value& request, std::string_view body) {
        const json::View view(request);
        const std::string url(view["url"].string_or(""));
        const std::string host = url.substr(7, url.find(':', 7) - 7);
        const std::string path = url.substr(url.find('/', 7));
        const One* one = by_host(host);
        if (one == nullptr || one->name.empty() || down.contains(host) || deaf.contains(host)) {
            return {CAPSTAN_E_UNAVAIL, 0, json::object(), {}};
        }
        if (path == "/v3/maintenance/status") {
            return status_of(*one);
        }
        if (one->learner) {
            return refused("etcdserver: rpc not supported for learner");
        }
        if (!has_quorum()) {
            return refused("etcdserver: no leader");
        }
        const auto parsed = json::parse(body);
        testing::HttpReply reply = change(path, json::View(parsed.value()));
        if (lose_next_answer && path != "/v3/cluster/member/list") {
            lose_next_answer = false;
            return {CAPSTAN_E_DEADLINE, 0, json::object(), {}};
        }
        return reply;
    }

    // The etcd of `host` starts and tells the cluster its name.
    void starts(const std::string& host, const std::string& name) {
        for (One& one : members) {
            if (one.host == host) {
                one.name = name;
            }
        }
        down.erase(host);
    }

private:
    const One* by_host(std::string_view host) const {
        const auto found = std::find_if(
            members.begin(), members.end(), [&](const One& one) { return one.host == host; });
        return found == members.end() ? nullptr : &*found;
    }
    bool has_quorum() const {
        std::size_t voters = 0, up = 0;
        for (const One& one : members) {
            voters += one.learner ? 0u : 1u;
            up += one.learner || one.name.empty() || down.contains(one.host) ? 0u : 1u;
        }
        return up > voters / 2;
    }
    static testing::HttpReply refused(std::string_view message) {
        return {CAPSTAN_OK, 412, json::object(), json::dump({{"code", 9}, {"message", message}})};
    }
    testing::HttpReply status_of(const One& one) const {
        const std::string id = std::to_string(one.id);
        json::Value value = {{"header", {{"cluster_id", "12"}, {"member_id", id}}},
                             {"version", "3.5.0"},
                             {"dbSize", "4096"},
                             {"isLearner", one.learner}};
        if (has_quorum()) {
            value.set("leader", std::to_string(members.front().id));
        }
        return {CAPSTAN_OK, 200, json::object(), json::dump(value)};
    }
    testing::HttpReply list() const {
        json::Value all = json::list();
        for (const One& one : members) {
            json::Value value = {{"ID", std::to_string(one.id)},
                                 {"peerURLs", json::list({"http://" + one.host + ":2380"})}};
            if (!one.name.empty()) {
                value.set("name", one.name);
                const std::string& host = one.leads_to.empty() ? one.host : one.leads_to;
                value.set("clientURLs", json::list({"http://" + host + ":2379"}));
            }
            if (one.learner) {
                value.set("isLearner", true);
            }
            all.push_back(std::move(value));
        }
        const json::Value value = {{"header", {{"cluster_id", "12"}, {"member_id", "1"}}},
                                   {"members", all}};
        return {CAPSTAN_OK, 200, json::object(), json::dump(value)};
    }
    testing::HttpReply change(std::string_view path, const json::View& body) {
        const std::string id(body["ID"].string_or(""));
        const auto found = std::find_if(members.begin(), members.end(), [&](const One& one) {
            return std::to_string(one.id) == id;
        });
        if (path == "/v3/cluster/member/list") {
            return list();
        }
        if (path == "/v3/cluster/member/add") {
            return add(std::string(body["peerURLs"][0].string_or("")));
        }
        if (found == members.end()) {
            return refused("etcdserver: member not found");
        }
        if (path == "/v3/cluster/member/remove") {
            changes.push_back("remove " + id);
            members.erase(found);
            return list();
        }
        if (!found->learner) {
            return refused("etcdserver: can only promote a learner member");
        }
        if (!in_sync) {
            return refused(
                "etcdserver: can only promote a learner member which is in sync with leader");
        }
        changes.push_back("promote " + id);
        found->learner = false;
        return list();
    }
    testing::HttpReply add(const std::string& peer_url) {
        const std::string host = peer_url.substr(7, peer_url.rfind(':') - 7);
        if (by_host(host) != nullptr) {
            return refused("etcdserver: Peer URLs already exists");
        }
        if (std::any_of(
                members.begin(), members.end(), [](const One& one) { return one.learner; })) {
            return refused("etcdserver: too many learner members in cluster");
        }
        changes.push_back("add " + host);
        members.push_back({next_id_++, "", host, true});
        return list();
    }

    std::uint64_t next_id_{100};
};

}  // namespace capstan::steward
