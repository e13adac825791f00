// Result and Error: how every part of Capstan reports things that happen.
//
// Branch on `code`, never on text. A broken invariant is not an Error: it is a CAPSTAN_CHECK, which
// prints its operands and aborts, also in release builds. Thread: any (values).
#pragma once

#include <boost/outcome/basic_result.hpp>
#include <boost/outcome/policy/terminate.hpp>
#include <boost/outcome/try.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace capstan {

// Closed set; docs/architecture.md says what the runtime does with each.
enum class Code : std::uint8_t {
    invalid,      // 400, 422, bad input: terminal until the object or the input changes
    not_found,    // 404
    conflict,     // 409: resourceVersion, uid precondition or field manager
    exists,       // 409 AlreadyExists
    expired,      // 410: the caller lists again
    denied,       // outside the plugin's manifest; the request was not sent
    forbidden,    // 401, 403 from the API server
    overloaded,   // 429, 503 with Retry-After, or a local limit; see retry_after
    unavailable,  // other 5xx, refused, reset
    timeout,      // deadline passed; whether it took effect is unknown
    cancelled,    // stop asked for, or leadership lost
    fenced,       // the call lost the ownership of its key
    too_large,    // over a named limit
    unsupported,  // known, but not implemented here
    internal,     // a bug on this side of the boundary
};

std::string_view to_string(Code code) noexcept;  // "not_found"; static storage

struct Error {
    Code code{Code::internal};
    // one sentence, no trailing dot; server text quoted and cut at 512 bytes
    std::string message;
    std::chrono::milliseconds retry_after{0};  // 0: not given
};

// Puts `context` before the message: "patch statefulset foo/main: conflict".
Error with_context(Error error, std::string_view context);

template <class T>
using Result = boost::outcome_v2::basic_result<T, Error, boost::outcome_v2::policy::terminate>;

inline auto fail(Code code, std::string message) {
    return boost::outcome_v2::failure(
        Error{code, std::move(message), std::chrono::milliseconds{0}});
}
inline auto fail(Error error) {
    return boost::outcome_v2::failure(std::move(error));
}
inline auto ok() {
    return boost::outcome_v2::success();
}

[[noreturn]] void check_failed(const char* file,
                               int line,
                               const char* condition,
                               std::string_view detail) noexcept;

}  // namespace capstan

// CAPSTAN_TRY(auto value, expression): binds the value or returns the error.
// CAPSTAN_TRY(expression) for Result<void>.
#define CAPSTAN_TRY(...) BOOST_OUTCOME_TRY(__VA_ARGS__)

// Invariant of ours. `detail` is text shown beside the condition, evaluated only on failure.
#define CAPSTAN_CHECK(condition, detail)                                                  \
    do {                                                                                  \
        if (!(condition)) [[unlikely]]                                                    \
            ::capstan::check_failed(__FILE__, __LINE__, #condition, std::string(detail)); \
    } while (false)
