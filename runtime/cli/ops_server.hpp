// The `ops` listener: /healthz, /readyz (also /readyz/CHECK and ?verbose), /metrics, /debug.
// Thread: [io].
#pragma once

#include "capstan/json.hpp"
#include "runtime/cli/ops_auth.hpp"
#include "runtime/net/http.hpp"
#include "runtime/obs/health.hpp"
#include "runtime/obs/metrics.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace capstan::cli {

// Everything is borrowed by the handler.
struct OpsParts {
    const obs::Health& health;
    const obs::Metrics& metrics;
    std::function<json::Value()> debug;  // empty: there is no page
    // Asked for /metrics and /debug; nullptr: nobody is.
    OpsAuth* auth{nullptr};
    // Without `auth`: the listener is on loopback, or admits by client certificate only.
    bool debug_open{false};
};

net::ServerHandler ops_handler(OpsParts parts);

bool is_loopback(std::string_view address) noexcept;  // 127.0.0.0/8, ::1, localhost

}  // namespace capstan::cli
