#include "plugins/steward-bridge/snapshot/owner.hpp"

#include "capstan/json.hpp"

#include <utility>

namespace capstan::steward {
namespace {

constexpr std::string_view kName = "capstan/owner";

}  // namespace

std::string PrefixOwner::described() const {
    std::string more = uid.empty() ? "" : "uid " + uid;
    if (!cluster.empty()) {
        more += (more.empty() ? "" : ", ") + ("etcd cluster " + cluster);
    }
    return "Etcd " + ns + "/" + name + (more.empty() ? "" : " (" + more + ")");
}

Kinship kinship(const PrefixOwner& a, const PrefixOwner& b) {
    const bool named_alike = a.ns == b.ns && a.name == b.name;
    if (a.uid.empty() || b.uid.empty()) {
        return named_alike ? Kinship::same : Kinship::stranger;
    }
    return a.uid == b.uid ? Kinship::same : named_alike ? Kinship::namesake : Kinship::stranger;
}

std::string owner_key(std::string_view prefix) {
    std::string key(prefix);
    if (!key.empty() && !key.ends_with('/')) {
        key += '/';
    }
    return key += kName;
}

bool is_owner_key(std::string_view key) {
    return key == kName || (key.ends_with(kName) && key[key.size() - kName.size() - 1] == '/');
}

std::string to_text(const PrefixOwner& owner) {
    json::Value text = {
        {"etcd", {{"namespace", owner.ns}, {"name", owner.name}, {"uid", owner.uid}}},
        {"cluster", owner.cluster},
    };
    if (owner.since != WallTime()) {
        text.set("since", to_rfc3339(owner.since));
    }
    if (!owner.asks.empty()) {
        text.set("asks", owner.asks);
    }
    return json::dump(text) + "\n";
}

Result<PrefixOwner> parse_owner(std::string_view text) {
    CAPSTAN_TRY(const json::Value document, json::parse(text));
    const json::View view(document);
    PrefixOwner owner;
    CAPSTAN_TRY(owner.ns, view["etcd"]["namespace"].as_string());
    CAPSTAN_TRY(owner.name, view["etcd"]["name"].as_string());
    owner.uid = view["etcd"]["uid"].string_or("");
    owner.cluster = view["cluster"].string_or("");
    owner.asks = view["asks"].string_or("");
    if (view["since"].present()) {
        CAPSTAN_TRY(const std::string_view since, view["since"].as_string());
        const auto time = parse_rfc3339(since);
        if (!time) {
            return fail(Code::invalid, "since: \"" + std::string(since) + "\" is no time");
        }
        owner.since = *time;
    }
    return owner;
}

}  // namespace capstan::steward
