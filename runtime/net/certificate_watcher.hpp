// Keeps a TLS listener on the certificates that lie in its files now.
//
// The files are read by path every kCertificatePoll and compared with what is in use, byte by byte:
// a swapped symbolic link, a rename and a file that was away for a while all end the same, where a
// watch on inodes goes deaf. Whatever is wrong (a file missing, malformed PEM, a key of another
// certificate, a certificate without names), what is in use stays, the error is logged once and
// counted. A certificate in use that has ended, also at the start, is served on (its new pair may
// be a minute away), logged as an error, and keeps the check certificate/<listener> not ready.
// Metrics: certwatcher_read_certificate_total, certwatcher_read_certificate_errors_total,
// capstan_certificate_expiry_timestamp_seconds{listener}. Thread: [io].
#pragma once

#include "capstan/error.hpp"
#include "runtime/net/http_server.hpp"
#include "runtime/net/loop.hpp"
#include "runtime/net/pki.hpp"
#include "runtime/obs/health.hpp"
#include "runtime/obs/log.hpp"
#include "runtime/obs/metrics.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace capstan::net {

inline constexpr std::chrono::seconds kCertificatePoll{10};
// less than this left: one warning per certificate
inline constexpr std::chrono::hours kExpiryWarning{14 * 24};

struct CertificateFiles {
    std::string certificate, key;
    std::string client_ca;  // empty: none
};

using ReadPem = std::function<Result<std::string>(const std::string& path)>;

// What the files hold. Errors: of `read`, which names the file.
Result<ServerTls> read_server_tls(const CertificateFiles& files, const ReadPem& read);
// The certificate of a set that a listener can use, ended or not. Errors: invalid: malformed, no
// pair, or without a subject alternative name, which every client refuses. `file`: for the text.
Result<CertificateInfo> check_server_tls(const ServerTls& tls, const std::string& file);

class CertificateWatcher {
public:
    struct Options {
        std::string listener;  // "webhook", for metrics and log
        CertificateFiles files;
        ReadPem read;
        obs::Health* health{nullptr};  // outlives the watcher; nullptr: readiness is not told
    };
    // `in_use`: what the server was made with. `apply`: puts a changed set to use, or says why it
    // cannot be used. All borrowed things outlive *this.
    CertificateWatcher(Loop& loop,
                       obs::Metrics& metrics,
                       const obs::Log& log,
                       Options options,
                       ServerTls in_use,
                       std::function<Result<void>(const ServerTls&)> apply);
    CertificateWatcher(const CertificateWatcher&) = delete;
    CertificateWatcher& operator=(const CertificateWatcher&) = delete;

    void poll();  // looks now, not only at the next turn

private:
    void schedule();
    Result<bool> reload();
    void note_expiry();

    Loop& loop_;
    const Options options_;
    const obs::Log log_;
    const std::function<Result<void>(const ServerTls&)> apply_;
    obs::Counter& reads_;
    obs::Counter& errors_;
    obs::Gauge& expiry_;
    ServerTls in_use_;
    WallTime expires_{};
    std::string last_problem_;  // empty: the last look was good
    bool expiry_warned_{false};
    bool ended_{false};
    std::unique_ptr<Timer> timer_;
};

}  // namespace capstan::net
