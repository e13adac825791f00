#include "runtime/local/apiserver/request_info.hpp"

#include "capstan/json.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

int hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

bool split_path(std::string_view path, std::vector<std::string>& segments) {
    while (!path.empty()) {
        if (path.front() == '/') {
            path.remove_prefix(1);
            continue;
        }
        const std::size_t end = std::min(path.find('/'), path.size());
        auto segment = percent_decode(path.substr(0, end), false);
        // An escaped slash or dot segment could reach another endpoint than the
        // one that was authorised.
        if (!segment || *segment == "." || *segment == ".." ||
            segment->find_first_of(std::string_view("/%\0", 3)) != std::string::npos) {
            return false;
        }
        segments.push_back(std::move(*segment));
        path.remove_prefix(end);
    }
    return true;
}

bool split_query(std::string_view text, std::vector<std::pair<std::string, std::string>>& query) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('&'), text.size());
        const std::string_view item = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (item.empty()) {
            continue;
        }
        const std::size_t equals = std::min(item.find('='), item.size());
        auto key = percent_decode(item.substr(0, equals), true);
        auto value = percent_decode(item.substr(std::min(equals + 1, item.size())), true);
        if (!key || !value) {
            return false;
        }
        query.emplace_back(std::move(*key), std::move(*value));
    }
    return true;
}

// Fills ns, resource, name, subresource from the segments after the version.
bool parse_resource_segments(RequestInfo& info, std::size_t at) {
    const auto& segments = info.segments;
    if (at < segments.size() && segments[at] == "watch") {  // the deprecated prefix
        info.verb = "watch";
        ++at;
    }
    const std::size_t left = segments.size() - at;
    if (left >= 3 && segments[at] == "namespaces" && segments[at + 2] != "status" &&
        segments[at + 2] != "finalize") {
        info.ns = segments[at + 1];
        at += 2;
    } else if (left >= 2 && segments[at] == "namespaces") {
        info.ns = segments[at + 1];  // RBAC sees the namespace object inside its own namespace
    }
    if (at >= segments.size()) {
        return false;
    }
    info.resource = segments[at++];
    if (at < segments.size()) {
        info.name = segments[at++];
    }
    if (at < segments.size()) {
        info.subresource = segments[at++];
    }
    return at == segments.size();
}

Answer<std::string> verb_of(std::string_view method, const RequestInfo& info) {
    if (method == "GET" || method == "HEAD") {
        if (info.verb == "watch" || info.flag("watch")) {
            return std::string("watch");
        }
        return std::string(info.name.empty() ? "list" : "get");
    }
    if (method == "POST") {
        return std::string("create");
    }
    if (method == "PUT") {
        return std::string("update");
    }
    if (method == "PATCH") {
        return std::string("patch");
    }
    if (method == "DELETE") {
        return std::string(info.name.empty() ? "deletecollection" : "delete");
    }
    return refuse(
        method_not_allowed("the server does not allow this method on the requested resource"));
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%') {
            if (i + 2 >= text.size()) {
                return std::nullopt;
            }
            const int high = hex_digit(text[i + 1]);
            const int low = hex_digit(text[i + 2]);
            if (high < 0 || low < 0) {
                return std::nullopt;
            }
            out += static_cast<char>(high * 16 + low);
            i += 2;
        } else {
            out += plus_is_space && text[i] == '+' ? ' ' : text[i];
        }
    }
    // It may be quoted in an answer, which must stay JSON.
    const bool ascii = std::all_of(
        out.begin(), out.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
    if (!ascii && !json::parse(json::dump(json::Value(out)))) {
        return std::nullopt;  // no UTF-8
    }
    return out;
}

std::string_view RequestInfo::parameter(std::string_view wanted) const noexcept {
    for (const auto& [key, value] : query) {
        if (key == wanted) {
            return value;
        }
    }
    return {};
}

bool RequestInfo::flag(std::string_view wanted) const noexcept {
    for (const auto& [key, value] : query) {
        if (key == wanted) {
            return value.empty() || value == "true" || value == "1";
        }
    }
    return false;
}

Answer<RequestInfo> parse_request(std::string_view method, std::string_view target) {
    if (target.size() > kTargetBytesMax) {
        return refuse(bad_request("request URI is too long"));
    }
    RequestInfo info;
    const std::size_t question = std::min(target.find('?'), target.size());
    info.path = target.substr(0, question);
    if (!split_path(info.path, info.segments) ||
        !split_query(target.substr(std::min(question + 1, target.size())), info.query)) {
        return refuse(bad_request("malformed request URI"));
    }
    const auto& segments = info.segments;
    std::size_t at = 0;
    if (segments.size() >= 3 && segments[0] == "api") {
        info.version = segments[1];
        at = 2;
    } else if (segments.size() >= 4 && segments[0] == "apis") {
        info.group = segments[1];
        info.version = segments[2];
        at = 3;
    } else {
        return info;
    }
    if (!parse_resource_segments(info, at)) {
        return refuse(path_not_found());
    }
    CAPSTAN_TRY(info.verb, verb_of(method, info));
    info.is_resource = true;
    return info;
}

}  // namespace capstan::local
