#include "plugins/steward-bridge/render.hpp"

#include <array>

namespace capstan::steward {
namespace {

// Comma-separated URLs, each mapped.
Result<std::string> map_urls(std::string_view list, const PodMap& map) {
    std::string out;
    while (!list.empty()) {
        const std::size_t end = std::min(list.find(','), list.size());
        CAPSTAN_TRY(const std::string url, map.url(list.substr(0, end)));
        out += (out.empty() ? "" : ",") + url;
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return out;
}

// "name=url,name=url", each URL mapped.
Result<std::string> map_cluster(std::string_view list, const PodMap& map) {
    std::string out;
    while (!list.empty()) {
        const std::size_t end = std::min(list.find(','), list.size());
        const std::string_view entry = list.substr(0, end);
        const std::size_t equals = entry.find('=');
        if (equals == std::string_view::npos) {
            return fail(Code::invalid,
                        "initial-cluster: \"" + std::string(entry) + "\" is not name=url");
        }
        CAPSTAN_TRY(const std::string url, map.url(entry.substr(equals + 1)));
        out += (out.empty() ? "" : ",") + std::string(entry.substr(0, equals + 1)) + url;
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return out;
}

}  // namespace

Result<std::string> render_etcd_config(const json::Value& config,
                                       const PodMap& map,
                                       bool existing_cluster) {
    json::Value out = config;
    const json::View view(config);
    constexpr std::array<const char*, 4> kUrlKeys{
        "initial-advertise-peer-urls",
        "advertise-client-urls",
        "listen-peer-urls",
        "listen-client-urls",
    };
    for (const char* key : kUrlKeys) {
        CAPSTAN_TRY(const std::string_view urls, view[std::string_view(key)].as_string());
        CAPSTAN_TRY(std::string mapped, map_urls(urls, map));
        out.set(key, std::move(mapped));
    }
    CAPSTAN_TRY(const std::string_view cluster, view["initial-cluster"].as_string());
    CAPSTAN_TRY(std::string mapped_cluster, map_cluster(cluster, map));
    out.set("initial-cluster", std::move(mapped_cluster));
    CAPSTAN_TRY(const std::string_view data_dir, view["data-dir"].as_string());
    out.set("data-dir", map.path(data_dir));
    if (existing_cluster) {
        out.set("initial-cluster-state", "existing");
    }
    return json::dump_pretty(out) + "\n";
}

}  // namespace capstan::steward
