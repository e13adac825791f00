// The host as a plugin sees it: tables of C functions over the runtime.
// Internal to runtime/control.
//
// Every function catches nothing because nothing of ours throws but for lack of memory,
// which ends the process.
#pragma once

#include "capstan/capstan.h"
#include "capstan/cli.h"
#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "capstan/object_ref.hpp"
#include "capstan/webhook.h"

#include <string>
#include <string_view>

namespace capstan::control {

class Unit;
struct CallState;

capstan_host make_host(Unit& unit) noexcept;
Unit& unit_of(const capstan_host* host) noexcept;

extern const capstan_ext_call kCallTable;
extern const capstan_ext_cache kCacheTable;
extern const capstan_ext_client kClientTable;
extern const capstan_ext_queue kQueueTable;
extern const capstan_ext_events kEventsTable;
extern const capstan_ext_features kFeaturesTable;
extern const capstan_ext_clock kClockTable;
extern const capstan_ext_metrics kMetricsTable;
extern const capstan_ext_http kHttpTable;
extern const capstan_ext_http_server kHttpServerTable;
extern const capstan_ext_digest kDigestTable;
extern const capstan_ext_webhook kWebhookTable;
extern const capstan_ext_cli kCliTable;

inline std::string_view view(capstan_str text) noexcept {
    return text.ptr == nullptr ? std::string_view()
                               : std::string_view(text.ptr, static_cast<std::size_t>(text.len));
}
inline std::string text(capstan_str value) {
    return std::string(view(value));
}
inline capstan_str str(std::string_view value) noexcept {
    return {value.data(), value.size()};
}
inline MonotonicTime time_of(std::uint64_t ns) noexcept {
    return ns > static_cast<std::uint64_t>(INT64_MAX)
               ? kNever
               : MonotonicTime(static_cast<std::int64_t>(ns));
}
inline std::uint64_t ns_of(MonotonicTime time) noexcept {
    return time == kNever ? CAPSTAN_NEVER
                          : static_cast<std::uint64_t>(time.count() < 0 ? 0 : time.count());
}

}  // namespace capstan::control
