#include "plugins/steward-bridge/etcd_gateway.hpp"

#include "capstan/plugin.hpp"

#include <algorithm>
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

void add_texts(const json::View& list, std::vector<std::string>& out) {
    for (const json::Value& item : list.array()) {
        if (const std::string* text = item.if_string()) {
            out.push_back(*text);
        }
    }
}

std::string to_hex(std::uint64_t value) {
    std::string out(16, '0');
    const auto [end, error] = std::to_chars(out.data(), out.data() + out.size(), value, 16);
    static_cast<void>(error);  // 16 digits hold every value
    out.resize(static_cast<std::size_t>(end - out.data()));
    return out;
}

// {"ID": "…"} with the decimal text that the gateway reads.
Result<std::string> id_body(const std::string& hex) {
    std::uint64_t id = 0;
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), id, 16);
    if (error != std::errc{} || end != hex.data() + hex.size()) {
        return fail(Code::invalid, "\"" + hex + "\" is no member id");
    }
    return json::dump({{"ID", std::to_string(id)}});
}

}  // namespace

Result<std::string> hex_id(const json::View& view) {
    CAPSTAN_TRY(const std::uint64_t value, read_u64(view));
    return to_hex(value);
}

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
    status.leader_id = leader != 0 ? to_hex(leader) : std::string();
    status.leader = leader == member;
    status.learner = view["isLearner"].bool_or(false);
    status.db_size = static_cast<std::int64_t>(db_size);
    status.db_size_in_use = static_cast<std::int64_t>(db_size_in_use);
    return status;
}

const ListedMember* MemberList::by_id(std::string_view id) const {
    const auto found = std::find_if(
        members.begin(), members.end(), [&](const ListedMember& one) { return one.id == id; });
    return found == members.end() ? nullptr : &*found;
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
        add_texts(view["peerURLs"], member.peer_urls);
        add_texts(view["clientURLs"], member.client_urls);
        out.push_back(std::move(member));
    }
    if (out.empty()) {
        return fail(members.error("empty"));
    }
    return out;
}

Result<MemberList> parse_cluster(const json::Value& answer) {
    MemberList list;
    CAPSTAN_TRY(list.cluster_id, hex_id(json::View(answer)["header"]["cluster_id"]));
    CAPSTAN_TRY(list.members, parse_member_list(answer));
    return list;
}

Error refusal_of(int status, std::string_view body) {
    const auto parsed = json::parse(body);
    const std::string_view said =
        parsed ? json::View(parsed.value())["message"].string_or("") : std::string_view();
    const auto says = [said](std::string_view part) {
        return said.find(part) != std::string_view::npos;
    };
    const Code code = says("too many learner members")                          ? Code::overloaded
                      : says("which is in sync with leader")                    ? Code::conflict
                      : says("already exist") || says("only promote a learner") ? Code::exists
                      : says("member not found")                                ? Code::not_found
                                                                                : Code::unavailable;
    return {code,
            "HTTP " + std::to_string(status) + " \"" +
                std::string(said.empty() ? body : said).substr(0, 256) + "\"",
            std::chrono::milliseconds{0}};
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
    request.tls = tls_;
    CAPSTAN_TRY(const HttpResponse response, call_->http().send(request));
    if (response.status != 200) {
        return fail(with_context(refusal_of(response.status, response.body), url));
    }
    return json::parse(response.body);
}

Result<EtcdStatus> Gateway::status(const std::string& endpoint, std::chrono::milliseconds timeout) {
    CAPSTAN_TRY(const json::Value answer, post(endpoint + "/v3/maintenance/status", "{}", timeout));
    return parse_status(answer);
}

Result<MemberList> Gateway::cluster(const std::string& endpoint,
                                    std::chrono::milliseconds timeout) {
    // Linearizable on 3.5 and later: a partitioned member must not answer from memory.
    CAPSTAN_TRY(const json::Value answer,
                post(endpoint + "/v3/cluster/member/list", R"({"linearizable":true})", timeout));
    return parse_cluster(answer);
}

Result<std::vector<ListedMember>> Gateway::member_list(const std::string& endpoint,
                                                       std::chrono::milliseconds timeout) {
    CAPSTAN_TRY(MemberList list, cluster(endpoint, timeout));
    return std::move(list.members);
}

Result<MemberList> Gateway::add_learner(const std::string& endpoint,
                                        const std::vector<std::string>& peer_urls,
                                        std::chrono::milliseconds timeout) {
    json::Value urls = json::list();
    for (const std::string& url : peer_urls) {
        urls.push_back(url);
    }
    const json::Value body = {{"peerURLs", urls}, {"isLearner", true}};
    CAPSTAN_TRY(const json::Value answer,
                post(endpoint + "/v3/cluster/member/add", json::dump(body), timeout));
    return parse_cluster(answer);
}

Result<MemberList> Gateway::remove_member(const std::string& endpoint,
                                          const std::string& id,
                                          std::chrono::milliseconds timeout) {
    CAPSTAN_TRY(std::string body, id_body(id));
    CAPSTAN_TRY(const json::Value answer,
                post(endpoint + "/v3/cluster/member/remove", std::move(body), timeout));
    return parse_cluster(answer);
}

Result<MemberList> Gateway::promote_member(const std::string& endpoint,
                                           const std::string& id,
                                           std::chrono::milliseconds timeout) {
    CAPSTAN_TRY(std::string body, id_body(id));
    CAPSTAN_TRY(const json::Value answer,
                post(endpoint + "/v3/cluster/member/promote", std::move(body), timeout));
    return parse_cluster(answer);
}

}  // namespace capstan::steward
