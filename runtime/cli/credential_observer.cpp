#include "runtime/cli/credential_observer.hpp"

#include <limits>

namespace capstan::cli {
namespace {

double seconds(std::chrono::nanoseconds duration) {
    return std::chrono::duration<double>(duration).count();
}

}  // namespace

CredentialObserver::CredentialObserver(const Clock& clock, obs::Metrics& metrics, obs::Log log)
    : clock_(clock),
      metrics_(metrics),
      log_(std::move(log)),
      reloads_(metrics.counter("rest_client_transport_ca_reload_total",
                               "Readings of the CA and client certificate files, by result.",
                               {"result", "reason"})),
      calls_(metrics.counter("rest_client_exec_plugin_call_total",
                             "Runs of the credential plugin, by exit code and status.",
                             {"code", "call_status"})) {}

void CredentialObserver::reloaded(bool ok, std::string_view reason) {
    reloads_.with({ok ? "success" : "failure", reason}).add();
}

void CredentialObserver::changed(std::string_view what) {
    log_.info("credentials changed; new connections use them", {{"detail", what}});
}

void CredentialObserver::failed(const Error& error) {
    log_.warn("credentials cannot be read again; the old ones stay", {{"error", error.message}});
}

// Gauges are made when there is something to say: 0 would be an expiry in 1970.
void CredentialObserver::expires(WallTime not_after, std::string_view file) {
    if (not_after <= clock_.wall_now()) {
        log_.warn("the client certificate has ended; put a new pair into its files",
                  {{"expires", to_rfc3339(not_after)}, {"path", file}});
    }
    metrics_
        .gauge("capstan_client_certificate_expiration_timestamp_seconds",
               "When the client certificate shown to the API server expires.")
        .with({})
        .set(seconds(not_after.time_since_epoch()));
}

void CredentialObserver::exec_called(int code, std::string_view status) {
    calls_.with({std::to_string(code), status}).add();
}

void CredentialObserver::exec_expires(std::optional<WallTime> expiry) {
    metrics_
        .gauge("rest_client_exec_plugin_ttl_seconds",
               "Time the credentials of the plugin are valid for, seen when it ran; +Inf: no end.")
        .with({})
        .set(expiry ? seconds(*expiry - clock_.wall_now())
                    : std::numeric_limits<double>::infinity());
}

}  // namespace capstan::cli
