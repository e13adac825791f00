#include "plugins/steward-bridge/restore/cluster.hpp"

#include "plugins/steward-bridge/restore/mvcc.hpp"
#include "plugins/steward-bridge/restore/sha1.hpp"

#include "capstan/json.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace capstan::steward {
namespace {

using UrlsByName = std::map<std::string, std::vector<std::string>, std::less<>>;

std::uint64_t first_eight(std::string_view bytes) {
    const auto digest = sha1(bytes);
    std::uint64_t id = 0;
    for (std::size_t i = 0; i < 8; ++i) {
        id = id << 8 | digest[i];
    }
    return id;
}

bool is_peer_url(std::string_view url) {
    for (const std::string_view scheme : {"http://", "https://"}) {
        if (url.starts_with(scheme)) {
            const std::string_view host = url.substr(scheme.size());
            return host.find(':') != 0 && host.find(':') != std::string_view::npos &&
                   !host.ends_with(':') && host.find('/') == std::string_view::npos;
        }
    }
    return false;
}

Result<UrlsByName> parse(std::string_view initial_cluster) {
    UrlsByName urls;
    while (!initial_cluster.empty()) {
        const std::size_t end = std::min(initial_cluster.find(','), initial_cluster.size());
        const std::string_view part = initial_cluster.substr(0, end);
        initial_cluster.remove_prefix(std::min(end + 1, initial_cluster.size()));
        const std::size_t equals = part.find('=');
        if (equals == 0 || equals == std::string_view::npos ||
            !is_peer_url(part.substr(equals + 1))) {
            return fail(Code::invalid,
                        "initial cluster: \"" + std::string(part) +
                            "\" is not of the form name=https://host:port");
        }
        urls[std::string(part.substr(0, equals))].emplace_back(part.substr(equals + 1));
    }
    return urls;
}

}  // namespace

std::string NewMember::hex_id() const {
    std::string hex;
    for (std::uint64_t rest = id; rest != 0 || hex.empty(); rest >>= 4) {
        hex.insert(hex.begin(), "0123456789abcdef"[rest & 0xF]);
    }
    return hex;
}

std::string NewMember::raft_attributes() const {
    json::Value urls = json::list();
    for (const std::string& url : peer_urls) {
        urls.push_back(url);
    }
    return json::dump({{"peerURLs", urls}});
}

std::string NewMember::json() const {
    // Ids use all 64 bits, which json::Value does not hold.
    const std::string attributes = raft_attributes();
    return "{\"id\":" + std::to_string(id) + "," + attributes.substr(1, attributes.size() - 2) +
           ",\"name\":" + json::dump(json::Value(name)) + "}";
}

Result<NewCluster> make_cluster(std::string_view name,
                                std::string_view initial_cluster,
                                std::string_view token) {
    CAPSTAN_TRY(UrlsByName urls, parse(initial_cluster));
    if (!urls.contains(name)) {
        return fail(Code::invalid,
                    "the initial cluster \"" + std::string(initial_cluster) +
                        "\" has no member called \"" + std::string(name) + "\"");
    }
    NewCluster cluster;
    for (auto& [member_name, member_urls] : urls) {
        std::sort(member_urls.begin(), member_urls.end());
        std::string text;
        for (const std::string& url : member_urls) {
            text += url;
        }
        text += token;
        cluster.members.push_back({first_eight(text), member_name, std::move(member_urls)});
    }
    std::sort(cluster.members.begin(),
              cluster.members.end(),
              [](const NewMember& a, const NewMember& b) { return a.id < b.id; });
    std::string ids;
    for (std::size_t i = 0; i < cluster.members.size(); ++i) {
        if (i > 0 && cluster.members[i].id == cluster.members[i - 1].id) {
            return fail(Code::invalid,
                        "members \"" + cluster.members[i - 1].name + "\" and \"" +
                            cluster.members[i].name + "\" have the same peer URLs");
        }
        ids += mvcc::encode_number(cluster.members[i].id);
        if (cluster.members[i].name == name) {
            cluster.own = i;
        }
    }
    cluster.id = first_eight(ids);
    return cluster;
}

}  // namespace capstan::steward
