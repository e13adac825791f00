#include "plugins/steward-bridge/etcd_gateway.hpp"

#include "capstan/plugin.hpp"

#include <charconv>

namespace capstan::steward {
namespace {

// A 64-bit integer of the gateway: text, or a number from a kinder server; absent is 0
// (zero values are left out).
Result<std::uint64_t> read_u64(const json::View& view) {
    if (!view.present()) {
        return std::uint64_t{0};
    }
    if (const std::int64_t* number = view.value()->if_int(); number != nullptr && *number >= 0) {
        return static_cast<std::uint64_t>(*number);
    }
    CAPSTAN_TRY(const std::string_view text, view.as_string());
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        return fail(view.error("not an unsigned 64-bit number"));
    }
    return value;
}

std::string to_hex(std::uint64_t value) {
    std::string out(16, '0');
    const auto [end, error] = std::to_chars(out.data(), out.data() + out.size(), value, 16);
    static_cast<void>(error);  // 16 digits hold every value
    out.resize(static_cast<std::size_t>(end - out.data()));
    return out;
}

}  // namespace

Result<EtcdStatus> parse_status(const json::Value& answer) {
    const json::View view(answer);
    EtcdStatus status;
    CAPSTAN_TRY(const std::uint64_t member, read_u64(view["header"]["member_id"]));
    CAPSTAN_TRY(const std::uint64_t cluster, read_u64(view["header"]["cluster_id"]));
    CAPSTAN_TRY(const std::uint64_t leader, read_u64(view["leader"]));
    CAPSTAN_TRY(const std::uint64_t db_size, read_u64(view["dbSize"]));
    CAPSTAN_TRY(const std::uint64_t db_size_in_use, read_u64(view["dbSizeInUse"]));
    if (member == 0 || cluster == 0) {
        return fail(view["header"].error("carries no member and cluster id"));
    }
    status.member_id = to_hex(member);
    status.cluster_id = to_hex(cluster);
    status.version = view["version"].string_or("");
    status.has_leader = leader != 0;
    status.leader = leader == member;
    status.learner = view["isLearner"].bool_or(false);
    status.db_size = static_cast<std::int64_t>(db_size);
    status.db_size_in_use = static_cast<std::int64_t>(db_size_in_use);
    return status;
}

Result<std::vector<ListedMember>> parse_member_list(const json::Value& answer) {
    const json::View members = json::View(answer)["members"];
    std::vector<ListedMember> out;
    for (std::size_t i = 0; i < members.array().size(); ++i) {
        const json::View view = members[i];
        CAPSTAN_TRY(const std::uint64_t id, read_u64(view["ID"]));
        ListedMember member;
        member.id = to_hex(id);
        member.name = view["name"].string_or("");
        member.started = !view["clientURLs"].array().empty();
        member.learner = view["isLearner"].bool_or(false);
        for (const json::Value& url : view["peerURLs"].array()) {
            if (const std::string* text = url.if_string()) {
                member.peer_urls.push_back(*text);
            }
        }
        out.push_back(std::move(member));
    }
    if (out.empty()) {
        return fail(members.error("empty"));
    }
    return out;
}

Result<json::Value> Gateway::post(const std::string& url,
                                  std::string body,
                                  std::chrono::milliseconds timeout) {
    HttpRequest request;
    request.method = "POST";
    request.url = url;
    request.headers = {{"content-type", "application/json"}};
    request.body = std::move(body);
    request.timeout = timeout;
    CAPSTAN_TRY(const HttpResponse response, call_->http().send(request));
    if (response.status != 200) {
        return fail(Code::unavailable,
                    url + ": HTTP " + std::to_string(response.status) + " \"" +
                        response.body.substr(0, 256) + "\"");
    }
    return json::parse(response.body);
}

Result<EtcdStatus> Gateway::status(const std::string& endpoint, std::chrono::milliseconds timeout) {
    CAPSTAN_TRY(const json::Value answer, post(endpoint + "/v3/maintenance/status", "{}", timeout));
    return parse_status(answer);
}

Result<std::vector<ListedMember>> Gateway::member_list(const std::string& endpoint,
                                                       std::chrono::milliseconds timeout) {
    // Linearizable on 3.5 and later: a partitioned member must not answer from memory.
    CAPSTAN_TRY(const json::Value answer,
                post(endpoint + "/v3/cluster/member/list", R"({"linearizable":true})", timeout));
    return parse_member_list(answer);
}

}  // namespace capstan::steward
