#include "runtime/net/http1.hpp"

#include <array>
#include <charconv>
#include <utility>

namespace capstan::net {

namespace {

char lower(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

bool equal_names(std::string_view a, std::string_view b) noexcept {
    if (a.size() != b.size()) {
        return false;
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (lower(a[i]) != lower(b[i])) {
            return false;
        }
    }
    return true;
}

std::string_view find_header(const Headers& headers, std::string_view name) noexcept {
    for (const auto& [key, value] : headers) {
        if (equal_names(key, name)) {
            return value;
        }
    }
    return {};
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
    const auto append = [&out](std::string_view text) {
        for (const char c : text) {
            out += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
        }
    };
    append(name);
    out += ": ";
    append(value);
    out += "\r\n";
}

bool has_token(std::string_view list, std::string_view token) noexcept {
    while (!list.empty()) {
        std::string_view item = list.substr(0, list.find(','));
        list.remove_prefix(item.size() < list.size() ? item.size() + 1 : list.size());
        while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) {
            item.remove_prefix(1);
        }
        while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) {
            item.remove_suffix(1);
        }
        if (equal_names(item, token)) {
            return true;
        }
    }
    return false;
}

std::string chunk(std::string_view bytes) {
    std::array<char, 20> size{};
    const auto result = std::to_chars(size.data(), size.data() + size.size(), bytes.size(), 16);
    std::string out;
    out.reserve(bytes.size() + size.size() + 4);
    out.append(size.data(), result.ptr).append("\r\n").append(bytes).append("\r\n");
    return out;
}

std::string_view reason_phrase(int status) noexcept {
    static constexpr std::array<std::pair<int, std::string_view>, 27> kReasons{{
        {100, "Continue"},
        {101, "Switching Protocols"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
    }};
    for (const auto& [code, reason] : kReasons) {
        if (code == status) {
            return reason;
        }
    }
    return "Status";
}

}  // namespace capstan::net
