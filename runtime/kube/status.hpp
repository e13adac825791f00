// What an HTTP answer of the API server means (style guide table; Kubernetes API conventions,
// Status). Thread: any.
#pragma once

#include "capstan/error.hpp"
#include "runtime/net/http.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::json {
class Value;
}

namespace capstan::kube {

inline constexpr std::size_t kServerTextBytesMax = 512;
inline constexpr std::chrono::milliseconds kRetryAfterMax{5 * 60 * 1000};

// The error of a response outside 2xx. `creating`: a 409 without a reason means "exists". Bodies
// that are no Status (from proxies) are mapped by the code alone.
Error error_of_response(int status,
                        const net::Headers& headers,
                        std::string_view body,
                        bool creating);
// The error of a Status object (a watch's ERROR event).
Error error_of_status(const json::Value& status);
// An answer that cannot be the API's: a login page, the error page of a proxy. Its error says
// "answered text/html, not the Kubernetes API: check server and proxy". For any status.
std::optional<Error> foreign_answer(int status, const net::Headers& headers);

// True for a 429 that is about what was asked, not about the server's load: a Status, as admission
// webhooks, quotas and evictions cause. Priority and fairness and a server that shuts down answer
// in plain text.
bool concerns_one_request(int status, const net::Headers& headers);

// True for a 401: the server does not know who we are. (Its code is that of a 403.)
bool is_unauthenticated(const Error& error) noexcept;
// Puts behind a 401 which credentials they were; other errors stay as they are.
Error not_accepted(Error error, std::string_view credential);
// "forbidden", "unauthenticated", "timeout": of an error, for logs and health texts.
std::string_view word_of(const Error& error) noexcept;
// For health texts, which show no text of a server: "forbidden: list leases", "unauthenticated:
// list leases; the API server does not accept the token in /t".
std::string refusal_text(const Error& error, std::string_view what);

// True for the 504 "Too large resource version" that a lagging server answers.
bool is_too_large_resource_version(const Error& error) noexcept;

// in quotes, control characters replaced, cut at 512 bytes
std::string quote_server_text(std::string_view text);

}  // namespace capstan::kube
