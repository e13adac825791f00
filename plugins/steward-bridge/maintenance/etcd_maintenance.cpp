#include "plugins/steward-bridge/maintenance/etcd_maintenance.hpp"

#include <algorithm>

namespace capstan::steward {
namespace {

std::string name_of(const ListedMember& member) {
    return member.name.empty() ? "member " + member.id : "member \"" + member.name + "\"";
}

MemberHealth ask(Gateway& gateway, const ListedMember& member, std::chrono::milliseconds timeout) {
    MemberHealth health;
    health.member = member;
    health.problem = "it has told no client URL";
    for (const std::string& url : member.client_urls) {
        auto status = gateway.status(url, timeout);
        if (status) {
            health.status = std::move(status).value();
            health.problem.clear();
            break;
        }
        health.problem = status.error().message;
    }
    return health;
}

}  // namespace

Result<std::vector<EtcdAlarm>> parse_alarms(const json::Value& answer) {
    const json::View alarms = json::View(answer)["alarms"];
    std::vector<EtcdAlarm> out;
    for (std::size_t i = 0; i < alarms.array().size(); ++i) {
        CAPSTAN_TRY(std::string id, hex_id(alarms[i]["memberID"]));
        const std::string_view alarm = alarms[i]["alarm"].string_or("NONE");
        if (alarm != "NONE") {
            out.push_back({std::move(id), std::string(alarm)});
        }
    }
    return out;
}

Result<std::vector<EtcdAlarm>> EtcdMaintenance::alarms(const std::string& endpoint,
                                                       std::chrono::milliseconds timeout) {
    CAPSTAN_TRY(const json::Value answer,
                gateway_->post(endpoint + "/v3/maintenance/alarm", R"({"action":"GET"})", timeout));
    return parse_alarms(answer);
}

Result<void> EtcdMaintenance::defragment(const std::string& endpoint,
                                         std::chrono::milliseconds timeout) {
    CAPSTAN_TRY(gateway_->post(endpoint + "/v3/maintenance/defragment", "{}", timeout));
    return ok();
}

Result<ClusterHealth> EtcdMaintenance::look(const std::string& endpoint,
                                            std::chrono::milliseconds timeout) {
    ClusterHealth cluster;
    CAPSTAN_TRY(const std::vector<ListedMember> members, gateway_->member_list(endpoint, timeout));
    CAPSTAN_TRY(cluster.alarms, alarms(endpoint, timeout));
    for (const ListedMember& member : members) {
        cluster.members.push_back(ask(*gateway_, member, timeout));
    }
    return cluster;
}

std::string why_not_defragment(const ClusterHealth& cluster, const std::string& self) {
    for (const EtcdAlarm& alarm : cluster.alarms) {
        if (alarm.alarm == "CORRUPT") {
            return "etcd has raised CORRUPT on member " + alarm.member_id +
                   "; that member must be replaced first";
        }
    }
    bool found = false;
    for (const MemberHealth& health : cluster.members) {
        found = found || health.member.id == self;
        if (!health.member.started) {
            return name_of(health.member) + " has not started yet";
        }
        if (!health.status) {
            return name_of(health.member) + " does not answer: " + health.problem;
        }
        if (!health.status->has_leader) {
            return name_of(health.member) + " sees no leader";
        }
    }
    return found ? std::string() : "this member is not in the member list of its cluster";
}

}  // namespace capstan::steward
