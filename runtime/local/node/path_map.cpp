#include "runtime/local/node/path_map.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
}

bool path_may_start(std::string_view before) {
    if (before.empty() || before.ends_with("://")) {
        return true;
    }
    constexpr std::string_view kSeparators = "=:,;\"'([{|@<> \t\n";
    return kSeparators.find(before.back()) != std::string_view::npos;
}

}  // namespace

void PathMap::add(std::string_view inside, std::string_view outside) {
    while (inside.size() > 1 && inside.ends_with('/')) {
        inside.remove_suffix(1);
    }
    if (inside.size() < 2 || inside[0] != '/') {
        return;  // "/" would replace every path there is
    }
    std::erase_if(entries_, [&](const auto& entry) { return entry.first == inside; });
    const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
        return entry.first.size() < inside.size();
    });
    entries_.insert(at, {std::string(inside), std::string(outside)});
}

std::string PathMap::apply(std::string_view text) const {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size();) {
        const auto* found = static_cast<const std::pair<std::string, std::string>*>(nullptr);
        if (text[i] == '/' && path_may_start(text.substr(0, i))) {
            for (const auto& entry : entries_) {
                const auto rest = text.substr(i);
                if (rest.starts_with(entry.first) && (rest.size() == entry.first.size() ||
                                                      !is_name_char(rest[entry.first.size()]))) {
                    found = &entry;
                    break;
                }
            }
        }
        if (found != nullptr) {
            out += found->second;
            i += found->first.size();
        } else {
            out += text[i++];
        }
    }
    return out;
}

std::string replace_host(std::string_view text, std::string_view alias, std::string_view address) {
    std::string out;
    std::size_t from = 0;
    for (auto at = text.find(alias); at != std::string_view::npos && !alias.empty();
         at = text.find(alias, at + 1)) {
        if (at < from) {
            continue;
        }
        const auto before = text.substr(0, at);
        const auto after = text.substr(at + alias.size());
        const bool in_url = before.ends_with("://") || before.ends_with('@');
        const bool starts = in_url || before.empty() || !is_name_char(before.back());
        const bool port = after.size() > 1 && after[0] == ':' && after[1] >= '0' && after[1] <= '9';
        const bool ends = after.empty() || !is_name_char(after[0]);
        if (starts && ends && (port || in_url)) {
            out.append(text.substr(from, at - from)).append(address);
            from = at + alias.size();
        }
    }
    return out.append(text.substr(from));
}

}  // namespace capstan::local
