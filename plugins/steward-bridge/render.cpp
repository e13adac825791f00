#include "plugins/steward-bridge/render.hpp"

#include <algorithm>
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

// Files of one kind of connection, each where the pod really has it.
void map_files(json::Value& config, const char* section, const PodMap& map) {
    json::Value* const security = config.find(section);
    if (security == nullptr) {
        return;
    }
    for (const char* key :
         {"cert-file", "key-file", "client-cert-file", "client-key-file", "trusted-ca-file"}) {
        if (const json::Value* file = security->find(key); file != nullptr && file->is_string()) {
            security->set(key, map.path(*file->if_string()));
        }
    }
}

}  // namespace

Result<std::string> render_etcd_config(const json::Value& config,
                                       const PodMap& map,
                                       const RenderOptions& options) {
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
    if (view["listen-metrics-urls"].present()) {
        CAPSTAN_TRY(const std::string_view urls, view["listen-metrics-urls"].as_string());
        CAPSTAN_TRY(std::string mapped, map_urls(urls, map));
        out.set("listen-metrics-urls", std::move(mapped));
    }
    map_files(out, "client-transport-security", map);
    map_files(out, "peer-transport-security", map);
    if (options.existing_cluster.empty()) {
        CAPSTAN_TRY(const std::string_view cluster, view["initial-cluster"].as_string());
        CAPSTAN_TRY(std::string mapped_cluster, map_cluster(cluster, map));
        out.set("initial-cluster", std::move(mapped_cluster));
    } else {
        out.set("initial-cluster", options.existing_cluster);
        out.set("initial-cluster-state", "existing");
    }
    CAPSTAN_TRY(const std::string_view data_dir, view["data-dir"].as_string());
    out.set("data-dir", map.path(data_dir));
    return json::dump_pretty(out) + "\n";
}

Result<std::vector<std::string>> own_peer_urls(const json::Value& config, const PodMap& map) {
    CAPSTAN_TRY(std::string_view list,
                json::View(config)["initial-advertise-peer-urls"].as_string());
    std::vector<std::string> urls;
    while (!list.empty()) {
        const std::size_t end = std::min(list.find(','), list.size());
        CAPSTAN_TRY(std::string url, map.url(list.substr(0, end)));
        urls.push_back(std::move(url));
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return urls;
}

}  // namespace capstan::steward
