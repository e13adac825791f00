// A request's path and query taken apart: Kubernetes' URL grammar (API
// conventions, "resource paths").
#pragma once

#include "runtime/local/apiserver/status.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::local {

inline constexpr std::size_t kTargetBytesMax = 64u * 1024;

struct RequestInfo {
    std::string path;                                        // as sent, without the query
    std::vector<std::string> segments;                       // unescaped
    std::vector<std::pair<std::string, std::string>> query;  // unescaped, in order

    bool is_resource{false};  // below /api/v1 or /apis/G/V; the fields below hold
    std::string group;
    std::string version;
    std::string ns;
    std::string resource;  // plural
    std::string name;
    std::string subresource;  // "status", "log"
    std::string verb;         // get list watch create update patch delete deletecollection

    // First value of a query parameter; empty when absent.
    std::string_view parameter(std::string_view name) const noexcept;
    bool flag(std::string_view name) const noexcept;  // "true", "1", or present and empty
};

// Errors: 400 malformed escapes or names, 404 nothing of the kind, 405 method.
Answer<RequestInfo> parse_request(std::string_view method, std::string_view target);

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space);

}  // namespace capstan::local
