#include "runtime/net/http.hpp"

namespace capstan::net {

namespace {

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_names(std::string_view a, std::string_view b) noexcept {
    if (a.size() != b.size()) { return false; }
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (lower(a[i]) != lower(b[i])) { return false; }
    }
    return true;
}

}  // namespace

std::string_view find_header(const Headers& headers, std::string_view name) noexcept {
    for (const auto& [key, value] : headers) {
        if (equal_names(key, name)) { return value; }
    }
    return {};
}

}  // namespace capstan::net
