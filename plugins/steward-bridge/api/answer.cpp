#include "plugins/steward-bridge/api/answer.hpp"

#include <algorithm>

namespace capstan::steward {
namespace {

struct Mapped {
    int status;
    std::string_view reason;
};

Mapped mapped(Code code) {
    switch (code) {
        case Code::unsupported: return {405, "NotSupported"};
        case Code::conflict: return {409, "Conflict"};
        case Code::overloaded: return {503, "Overloaded"};
        case Code::cancelled:
        case Code::fenced: return {503, "Stopping"};
        case Code::unavailable: return {503, "Unavailable"};
        case Code::timeout: return {504, "TimedOut"};
        default: return {500, "Failed"};
    }
}

}  // namespace

void refuse(Exchange& exchange,
            int status,
            std::string_view reason,
            std::string_view message,
            std::chrono::milliseconds retry_after) {
    if (status == 401) {
        exchange.set_header("www-authenticate", "Bearer");
    }
    if (retry_after.count() > 0) {
        const auto seconds = std::chrono::ceil<std::chrono::seconds>(retry_after);
        exchange.set_header("retry-after", std::to_string(seconds.count()));
    }
    exchange.respond_json(status, {{"reason", reason}, {"message", message}});
}

void refuse(Exchange& exchange, const Error& error) {
    const Mapped answer = mapped(error.code);
    const auto wait = error.code == Code::overloaded
                          ? std::max(error.retry_after, std::chrono::milliseconds(1'000))
                          : error.retry_after;
    refuse(exchange, answer.status, answer.reason, error.message, wait);
}

}  // namespace capstan::steward
