#include "runtime/kube/status.hpp"

#include "capstan/json.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace capstan::kube {
namespace {

// begins our text for that answer
constexpr std::string_view kTooLargeVersion = "too large resource version";
constexpr std::string_view kUnauthenticated = "401 unauthenticated";
constexpr std::string_view kNotAccepted = "; the API server does not accept ";
constexpr std::string_view kForeign =
    "answered text/html, not the Kubernetes API: check server and proxy";
constexpr std::string_view kHtml = "text/html";
constexpr std::string_view kJson = "application/json";

bool is_type(const net::Headers& headers, std::string_view wanted) {
    std::string type(net::find_header(headers, "Content-Type").substr(0, wanted.size()));
    std::transform(type.begin(), type.end(), type.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    });
    return type == wanted;
}

std::chrono::milliseconds clamp_seconds(std::int64_t seconds) {
    const std::int64_t most =
        std::chrono::duration_cast<std::chrono::seconds>(kRetryAfterMax).count();
    return std::chrono::seconds{std::clamp<std::int64_t>(seconds, 0, most)};
}

std::chrono::milliseconds retry_after_header(const net::Headers& headers) {
    const std::string_view text = net::find_header(headers, "Retry-After");
    std::int64_t seconds = 0;
    std::from_chars(text.data(),
                    text.data() + text.size(),
                    seconds);  // dates are not used by API servers: 0
    return clamp_seconds(seconds);
}

Code code_of(std::int64_t status, std::string_view reason, bool creating, bool told_to_wait) {
    if (reason == "AlreadyExists") {
        return Code::exists;
    }
    if (reason == "Expired" || reason == "Gone") {
        return Code::expired;
    }
    switch (status) {
        case 401:
        case 403: return Code::forbidden;
        case 404: return Code::not_found;
        case 408: return Code::unavailable;  // of a proxy: the request did not come whole
        case 409: return creating && reason.empty() ? Code::exists : Code::conflict;
        case 410: return Code::expired;
        case 429: return Code::overloaded;
        case 413: return Code::too_large;
        case 504: return Code::timeout;
        default: break;
    }
    if (status >= 400 && status < 500) {
        return Code::invalid;
    }
    return (status == 503 || reason == "ServerTimeout") && told_to_wait ? Code::overloaded
                                                                        : Code::unavailable;
}

bool has_too_large_version(json::View status) {
    for (const json::Value& cause : status["details"]["causes"].array()) {
        if (json::View(cause)["reason"].string_or("") == "ResourceVersionTooLarge") {
            return true;
        }
    }
    return status["message"].string_or("").find("Too large resource version") !=
           std::string_view::npos;
}

Error from_status(json::View status,
                  std::int64_t http,
                  std::chrono::milliseconds wait,
                  bool creating) {
    const std::int64_t code = http > 0 ? http : status["code"].int_or(500);
    wait = std::max(wait, clamp_seconds(status["details"]["retryAfterSeconds"].int_or(0)));
    const std::string_view reason = status["reason"].string_or("");
    Error error{code_of(code, reason, creating, wait.count() > 0), "", wait};
    if (has_too_large_version(status)) {
        error.message = std::string(kTooLargeVersion) + ": ";
    }
    if (code == 401) {
        error.message += kUnauthenticated;
    } else {
        error.message +=
            std::to_string(code) + (reason.empty() ? "" : " " + std::string(reason.substr(0, 64)));
    }
    const std::string_view text = status["message"].string_or("");
    if (!text.empty() && !(code == 401 && text == reason)) {  // "Unauthorized", twice
        error.message += ": " + quote_server_text(text);
    }
    return error;
}

}  // namespace

std::string quote_server_text(std::string_view text) {
    std::string quoted = "\"";
    for (const char c : text.substr(0, kServerTextBytesMax)) {
        quoted += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
    if (text.size() > kServerTextBytesMax) {
        while (quoted.size() > 1 && (static_cast<unsigned char>(quoted.back()) & 0xc0u) == 0x80u) {
            quoted.pop_back();  // not in the middle of a UTF-8 sequence
        }
        if (quoted.size() > 1 && (static_cast<unsigned char>(quoted.back()) & 0x80u) != 0) {
            quoted.pop_back();
        }
        quoted += "…";
    }
    return quoted + "\"";
}

Error error_of_response(int status,
                        const net::Headers& headers,
                        std::string_view body,
                        bool creating) {
    if (auto foreign = foreign_answer(status, headers)) {
        return std::move(*foreign);
    }
    const auto wait = retry_after_header(headers);
    if (const auto parsed = json::parse(body);
        parsed && json::View(parsed.value())["kind"].string_or("") == "Status") {
        return from_status(json::View(parsed.value()), status, wait, creating);
    }
    Error error{code_of(status, "", creating, wait.count() > 0), std::to_string(status), wait};
    if (status == 401) {
        error.message = kUnauthenticated;
    }
    if (!body.empty()) {
        error.message += ": " + quote_server_text(body);
    }
    if (const auto to = net::find_header(headers, "Location"); status / 100 == 3 && !to.empty()) {
        error.message += "; it sends us to " + quote_server_text(to) +
                         ", which is not followed: check server and proxy";
    }
    return error;
}

Error error_of_status(const json::Value& status) {
    return from_status(json::View(status), 0, {}, false);
}

bool concerns_one_request(int status, const net::Headers& headers) {
    return status == 429 && is_type(headers, kJson);
}

std::optional<Error> foreign_answer(int status, const net::Headers& headers) {
    if (!is_type(headers, kHtml)) {
        return std::nullopt;
    }
    const auto wait = retry_after_header(headers);
    const Code code =
        status < 400 ? Code::unavailable : code_of(status, "", false, wait.count() > 0);
    Error error{code, "", wait};
    if (status == 401) {
        error.message = std::string(kUnauthenticated) + ": ";
    } else if (status < 200 || status > 299) {
        error.message = std::to_string(status) + ": ";
    }
    error.message += kForeign;
    if (const auto to = net::find_header(headers, "Location"); status / 100 == 3 && !to.empty()) {
        error.message += "; it sends us to " + quote_server_text(to);
    }
    return error;
}

bool is_unauthenticated(const Error& error) noexcept {
    return error.code == Code::forbidden &&
           error.message.find(kUnauthenticated) != std::string::npos;
}

Error not_accepted(Error error, std::string_view credential) {
    // What a proxy refuses is no matter of the API server's.
    if (is_unauthenticated(error) && error.message.find(kForeign) == std::string::npos) {
        error.message.append(kNotAccepted).append(credential);
    }
    return error;
}

std::string_view word_of(const Error& error) noexcept {
    return is_unauthenticated(error) ? "unauthenticated" : to_string(error.code);
}

std::string refusal_text(const Error& error, std::string_view what) {
    std::string text = std::string(word_of(error)) + ": " + std::string(what);
    const std::string_view message = error.message;
    if (message.find(kForeign) != std::string_view::npos) {
        text.append(": ").append(kForeign);
    } else if (const auto at = message.rfind(kNotAccepted);
               is_unauthenticated(error) && at != std::string_view::npos) {
        // What a credential plugin printed is no text of ours.
        const std::string_view part = message.substr(at);
        text.append(part.substr(0, part.find(": exit code ")));
    }
    return text;
}

bool is_too_large_resource_version(const Error& error) noexcept {
    return error.message.find(kTooLargeVersion) != std::string::npos;
}

}  // namespace capstan::kube
