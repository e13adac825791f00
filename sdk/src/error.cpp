#include "capstan/error.hpp"

#include <cstdio>
#include <cstdlib>

namespace capstan {

std::string_view to_string(Code code) noexcept {
    switch (code) {
        case Code::invalid: return "invalid";
        case Code::not_found: return "not_found";
        case Code::conflict: return "conflict";
        case Code::exists: return "exists";
        case Code::expired: return "expired";
        case Code::denied: return "denied";
        case Code::forbidden: return "forbidden";
        case Code::overloaded: return "overloaded";
        case Code::unavailable: return "unavailable";
        case Code::timeout: return "timeout";
        case Code::cancelled: return "cancelled";
        case Code::fenced: return "fenced";
        case Code::too_large: return "too_large";
        case Code::unsupported: return "unsupported";
        case Code::internal: return "internal";
    }
    return "internal";
}

Error with_context(Error error, std::string_view context) {
    error.message.insert(0, std::string(context) + ": ");
    return error;
}

void check_failed(const char* file,
                  int line,
                  const char* condition,
                  std::string_view detail) noexcept {
    std::fprintf(stderr,
                 "%s:%d: check failed: %s (%.*s)\n",
                 file,
                 line,
                 condition,
                 static_cast<int>(detail.size()),
                 detail.data());
    std::abort();
}

}  // namespace capstan
