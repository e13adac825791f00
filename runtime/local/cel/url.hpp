// URLs as Go's net/url reads the target of a request (isURL, url). Private to runtime/local/cel.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::local::cel {

struct Url {
    std::string text;  // as written
    std::string scheme;
    std::string host;                                        // with the port
    std::string path;                                        // escaped
    std::vector<std::pair<std::string, std::string>> query;  // unescaped, in order

    std::string hostname() const;  // without port and brackets
    std::string port() const;
};

// nullopt: not absolute (neither a scheme nor a leading slash), or malformed.
std::optional<Url> parse_url(std::string_view text);

}  // namespace capstan::local::cel
