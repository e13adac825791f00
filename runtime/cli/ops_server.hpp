// The `ops` listener: /healthz, /readyz (also /readyz/CHECK and ?verbose), /metrics. Thread: [io].
#pragma once

#include "runtime/net/http.hpp"
#include "runtime/obs/health.hpp"
#include "runtime/obs/metrics.hpp"

namespace capstan::cli {

// borrowed by the handler
net::ServerHandler ops_handler(const obs::Health& health, const obs::Metrics& metrics);

}  // namespace capstan::cli
