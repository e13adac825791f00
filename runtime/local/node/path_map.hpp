// Replaces what a container would see by mounts and host aliases with what this
// machine has. Pure; values.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::local {

class PathMap {
public:
    // `inside`: absolute path in the container, a trailing slash does not matter. A later entry
    // of the same path wins.
    void add(std::string_view inside, std::string_view outside);
    // Replaces each whole path that is `inside` or below it; the longest match wins. A path starts
    // at the beginning, after one of = : , ; quote bracket or space, or after "://".
    std::string apply(std::string_view text) const;
    const std::vector<std::pair<std::string, std::string>>& entries() const noexcept {
        return entries_;
    }

private:
    std::vector<std::pair<std::string, std::string>> entries_;  // longest `inside` first
};

// Replaces `alias` by `address` where it is a host: "http://alias", "alias:2379"; a bare word is
// left alone, it may be a name in a certificate.
std::string replace_host(std::string_view text, std::string_view alias, std::string_view address);

}  // namespace capstan::local
