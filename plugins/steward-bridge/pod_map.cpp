#include "plugins/steward-bridge/pod_map.hpp"

#include "plugins/steward-bridge/files.hpp"

#include <algorithm>
#include <cstdlib>

namespace capstan::steward {
namespace {

struct UrlParts {
    std::string_view before, host, after;  // "http://", "name", ":2380/path"
};

UrlParts split(std::string_view url) {
    const std::size_t scheme = url.find("://");
    const std::size_t start = scheme == std::string_view::npos ? 0 : scheme + 3;
    const std::size_t end = std::min(url.find_first_of(":/", start), url.size());
    return {url.substr(0, start), url.substr(start, end - start), url.substr(end)};
}

std::string join(const UrlParts& parts, std::string_view host) {
    return std::string(parts.before) + std::string(host) + std::string(parts.after);
}

}  // namespace

Result<PodMap> PodMap::decode(const json::Value& value) {
    const json::View view(value);
    PodMap map;
    map.local_ = true;
    CAPSTAN_TRY(const std::string_view pod_ip, view["podIP"].as_string());
    map.pod_ip_ = pod_ip;
    map.steward_token_file_ = view["stewardTokenFile"].string_or("");
    for (const json::Member& member : view["paths"].object()) {
        CAPSTAN_TRY(const std::string_view directory, view["paths"][member.key].as_string());
        map.paths_.emplace_back(member.key, directory);
    }
    for (const json::Member& member : view["names"].object()) {
        std::vector<std::string> addresses;
        if (const std::string* one = member.value.if_string()) {
            addresses.push_back(*one);
        }
        for (const json::Value& item : view["names"][member.key].array()) {
            if (const std::string* one = item.if_string()) {
                addresses.push_back(*one);
            }
        }
        map.names_.emplace_back(member.key, std::move(addresses));
    }
    std::sort(map.paths_.begin(), map.paths_.end(), [](const auto& a, const auto& b) {
        return a.first.size() > b.first.size();
    });
    return map;
}

Result<PodMap> PodMap::load() {
    const char* file = std::getenv("CAPSTAN_POD_MAP");
    if (file == nullptr || *file == '\0') {
        return PodMap();
    }
    CAPSTAN_TRY(const std::string text, read_file(file));
    auto parsed = json::parse(text);
    if (!parsed) {
        return fail(with_context(parsed.error(), std::string("CAPSTAN_POD_MAP ") + file));
    }
    return decode(parsed.value());
}

std::string PodMap::path(std::string_view path) const {
    for (const auto& [prefix, directory] : paths_) {
        if (path == prefix ||
            (path.size() > prefix.size() && path.substr(0, prefix.size()) == prefix &&
             path[prefix.size()] == '/')) {
            return directory + std::string(path.substr(prefix.size()));
        }
    }
    return std::string(path);
}

const std::vector<std::string>* PodMap::addresses(std::string_view host) const {
    const auto found = std::find_if(
        names_.begin(), names_.end(), [&](const auto& entry) { return entry.first == host; });
    return found == names_.end() ? nullptr : &found->second;
}

Result<std::string> PodMap::url(std::string_view url) const {
    const UrlParts parts = split(url);
    if (!local_) {
        return std::string(url);
    }
    if (parts.host == "0.0.0.0" || parts.host == "127.0.0.1" || parts.host == "localhost") {
        return join(parts, pod_ip_);
    }
    const std::vector<std::string>* known = addresses(parts.host);
    if (known != nullptr && !known->empty()) {
        return join(parts, known->front());
    }
    const bool numeric = parts.host.find_first_not_of("0123456789.") == std::string_view::npos;
    if (numeric) {
        return std::string(url);
    }
    return fail(Code::not_found, "\"" + std::string(parts.host) + "\" has no address yet");
}

std::vector<std::string> PodMap::urls(std::string_view url) const {
    if (!local_) {
        return {std::string(url)};
    }
    const UrlParts parts = split(url);
    std::vector<std::string> out;
    if (const std::vector<std::string>* known = addresses(parts.host)) {
        for (const std::string& address : *known) {
            out.push_back(join(parts, address));
        }
    }
    return out;
}

}  // namespace capstan::steward
