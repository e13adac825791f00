#include "runtime/kube/raw_json.hpp"

#include "capstan/json.hpp"
#include "runtime/kube/json_scan.hpp"

#include <algorithm>
#include <charconv>

namespace capstan::kube::raw {
namespace {

// Position after the string that starts at `at` (a quote); npos when it does not end.
std::size_t string_end(std::string_view text, std::size_t at) noexcept {
    const char* const end = text.data() + text.size();
    for (const char* i = text.data() + at + 1; i < end;) {
        i = scan::plain_end(i, end);
        if (i == end) {
            break;
        }
        if (*i == '"') {
            return static_cast<std::size_t>(i + 1 - text.data());
        }
        i += *i == '\\' ? 2 : 1;
    }
    return std::string_view::npos;
}

std::size_t container_end(std::string_view text, std::size_t at) noexcept {
    std::size_t depth = 0;
    for (std::size_t i = at; i < text.size();) {
        const char c = text[i];
        if (c == '"') {
            i = string_end(text, i);
            continue;  // npos ends the loop
        }
        ++i;
        if (c == '{' || c == '[') {
            ++depth;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return i;
        }
    }
    return std::string_view::npos;
}

bool same_key(std::string_view raw_key, std::string_view key) {
    if (raw_key.find('\\') == std::string_view::npos) {
        return raw_key == key;
    }
    const auto text = to_text("\"" + std::string(raw_key) + "\"");
    return text && *text == key;
}

std::size_t skip_space(std::string_view text, std::size_t at) noexcept {
    return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
}

// Calls `visit(raw_key, value)` for each member or element until it returns false.
template <class Visit>
void walk(std::string_view container, Visit visit) {
    if (container.size() < 2 || (container[0] != '{' && container[0] != '[')) {
        return;
    }
    const bool object = container[0] == '{';
    std::size_t at = skip_space(container, 1);
    while (at < container.size() && container[at] != '}' && container[at] != ']') {
        std::string_view key;
        if (object) {
            const std::size_t end =
                container[at] == '"' ? string_end(container, at) : std::string_view::npos;
            const std::size_t colon =
                end == std::string_view::npos ? container.size() : skip_space(container, end);
            if (colon >= container.size() || container[colon] != ':') {
                return;
            }
            key = container.substr(at + 1, end - at - 2);
            at = skip_space(container, colon + 1);
        }
        const std::size_t length = value_length(container.substr(at));
        if (length == 0 || !visit(key, container.substr(at, length))) {
            return;
        }
        at = skip_space(container, at + length);
        if (at < container.size() && container[at] == ',') {
            at = skip_space(container, at + 1);
        }
    }
}

}  // namespace

std::size_t value_length(std::string_view text) noexcept {
    if (text.empty()) {
        return 0;
    }
    std::size_t end = 0;
    if (text[0] == '"') {
        end = string_end(text, 0);
    } else if (text[0] == '{' || text[0] == '[') {
        end = container_end(text, 0);
    } else {
        end = std::min(text.find_first_of(",]} \t\r\n"), text.size());
    }
    return end == std::string_view::npos ? 0 : end;
}

std::optional<std::string_view> member(std::string_view object, std::string_view key) noexcept {
    std::optional<std::string_view> found;
    if (!object.empty() && object[0] == '{') {
        walk(object, [&](std::string_view raw_key, std::string_view value) {
            if (same_key(raw_key, key)) {
                found = value;
            }
            return !found;
        });
    }
    return found;
}

void each(std::string_view container,
          const std::function<bool(std::string_view, std::string_view)>& visit) {
    walk(container, visit);
}

std::optional<std::string_view> pointer(std::string_view document, std::string_view path) noexcept {
    std::optional<std::string_view> at = document;
    while (at && !path.empty()) {
        if (path.front() != '/') {
            return std::nullopt;
        }
        path.remove_prefix(1);
        const std::string_view token = path.substr(0, path.find('/'));
        path.remove_prefix(token.size());
        if (at->starts_with('[')) {
            std::size_t index = 0;
            const auto [end, error] =
                std::from_chars(token.data(), token.data() + token.size(), index);
            if (error != std::errc{} || end != token.data() + token.size() ||
                (token.size() > 1 && token[0] == '0')) {
                return std::nullopt;
            }
            std::optional<std::string_view> element;
            walk(*at, [&](std::string_view, std::string_view value) {
                if (index-- == 0) {
                    element = value;
                }
                return !element;
            });
            at = element;
        } else if (token.find('~') == std::string_view::npos) {
            at = member(*at, token);
        } else {
            const auto key = unescape_token(token);
            at = key ? member(*at, *key) : std::nullopt;
        }
    }
    return at;
}

std::optional<std::string> unescape_token(std::string_view token) {
    std::string key;
    for (std::size_t i = 0; i < token.size(); ++i) {
        if (token[i] != '~') {
            key += token[i];
        } else if (++i < token.size() && (token[i] == '0' || token[i] == '1')) {
            key += token[i] == '0' ? '~' : '/';
        } else {
            return std::nullopt;
        }
    }
    return key;
}

std::optional<std::string> to_text(std::string_view text) {
    if (text.size() < 2 || text.front() != '"') {
        return std::nullopt;
    }
    if (text.find('\\') == std::string_view::npos) {
        return std::string(text.substr(1, text.size() - 2));
    }
    const auto value = json::parse(text, {.bytes_max = text.size()});
    if (!value || !value.value().is_string()) {
        return std::nullopt;
    }
    return *value.value().if_string();
}

}  // namespace capstan::kube::raw
