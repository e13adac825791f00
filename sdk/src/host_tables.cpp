// The host's tables, looked up once, and what needs no call.
#include "capstan/plugin.hpp"

#include <array>

namespace capstan {
namespace {

template <class Table>
const Table* table(const capstan_host* host, std::string_view id) noexcept {
    return static_cast<const Table*>(host->get_ext(host, to_str(id)));
}

}  // namespace

HostTables::HostTables(const capstan_host* h) noexcept
    : host(h),
      call(table<capstan_ext_call>(h, "capstan.call/1")),
      cache(table<capstan_ext_cache>(h, "capstan.cache/1")),
      client(table<capstan_ext_client>(h, "capstan.client/1")),
      queue(table<capstan_ext_queue>(h, "capstan.queue/1")),
      events(table<capstan_ext_events>(h, "capstan.events/1")),
      features(table<capstan_ext_features>(h, "capstan.features/1")),
      clock(table<capstan_ext_clock>(h, "capstan.clock/1")),
      metrics(table<capstan_ext_metrics>(h, "capstan.metrics/1")),
      http(table<capstan_ext_http>(h, "capstan.http/1")),
      http_server(table<capstan_ext_http_server>(h, "capstan.http-server/1")),
      digest_table(table<capstan_ext_digest>(h, "capstan.digest/1")) {}

void HostTables::log(LogLevel level, std::string_view message, const json::Value& fields) const {
    const std::string text = fields.is_object() ? json::dump(fields) : std::string();
    host->log(host, static_cast<std::int32_t>(level), to_str(message), to_str(text));
}

MonotonicTime HostTables::now() const noexcept {
    return MonotonicTime(clock == nullptr ? 0
                                          : static_cast<std::int64_t>(clock->monotonic_ns(host)));
}

WallTime HostTables::wall_now() const noexcept {
    return WallTime(std::chrono::nanoseconds(clock == nullptr ? 0 : clock->wall_ns(host)));
}

Result<std::string> HostTables::digest(std::int32_t algorithm,
                                       std::string_view bytes,
                                       std::string_view key) const {
    if (digest_table == nullptr) {
        return fail(Code::unsupported, "the host has no capstan.digest/1");
    }
    capstan_hash* hash = nullptr;
    std::array<std::uint8_t, CAPSTAN_DIGEST_BYTES_MAX> raw{};
    std::uint32_t length = 0;
    capstan_rc rc = digest_table->open(host, algorithm, to_str(key), &hash);
    if (rc == CAPSTAN_OK) {
        rc = digest_table->update(hash, to_str(bytes));
        const capstan_rc finished = digest_table->finish(hash, raw.data(), &length);
        rc = rc == CAPSTAN_OK ? finished : rc;
    }
    if (rc != CAPSTAN_OK) {
        return fail(code_of(rc), "digest: the host refused");
    }
    return std::string(raw.begin(), raw.begin() + length);
}

Result<std::string> HostTables::sha256_hex(std::string_view bytes) const {
    CAPSTAN_TRY(const std::string raw, digest(CAPSTAN_DIGEST_SHA256, bytes));
    std::string hex;
    hex.reserve(raw.size() * 2);
    for (const char c : raw) {
        constexpr std::string_view kDigits = "0123456789abcdef";
        const auto byte = static_cast<unsigned char>(c);
        hex += kDigits[byte >> 4U];
        hex += kDigits[byte & 15U];
    }
    return hex;
}

Result<std::string> HostTables::render_metrics() const {
    if (metrics == nullptr || metrics->head.size < sizeof(capstan_ext_metrics)) {
        return fail(Code::unsupported, "the host renders no metrics for plugins");
    }
    capstan_str text{};
    if (const capstan_rc rc = metrics->render(host, &text); rc != CAPSTAN_OK) {
        return fail(code_of(rc), "the host rendered no metrics");
    }
    return std::string(view_of(text));
}

}  // namespace capstan
