// The api listener of a steward: plain HTTP on loopback, and TLS on all addresses while there are
// certificates.
//
// The plugin writes them into one directory when its Etcd asks for TLS, and takes them away when it
// no longer does (plugins/etcd/README.md); this looks every kStewardListenerPeriod. Certificates
// that cannot be used leave the listener as it is. Thread: [io].
#pragma once

#include "capstan/error.hpp"
#include "runtime/config/operator_config.hpp"
#include "runtime/net/certificate_watcher.hpp"
#include "runtime/net/http_server.hpp"
#include "runtime/net/loop.hpp"
#include "runtime/obs/log.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace capstan::cli {

inline constexpr std::chrono::seconds kStewardListenerPeriod{1};
// after an address that could not be had: plain HTTP is interrupted for each try
inline constexpr std::chrono::seconds kStewardListenerRetry{30};

// A server, and who keeps it on the certificates of its files.
struct Listening {
    std::unique_ptr<net::HttpServer> server;
    std::unique_ptr<net::CertificateWatcher> certificates;  // nullptr: plain HTTP
};

class StewardListener {
public:
    struct Options {
        config::ListenerConfig plain, secure;
        // Errors: what keeps it from listening. Logs the address.
        std::function<Result<Listening>(const config::ListenerConfig&)> serve;
        net::ReadPem read;
    };
    // All borrowed things outlive *this.
    StewardListener(net::Loop& loop, const obs::Log& log, Options options);
    StewardListener(const StewardListener&) = delete;
    StewardListener& operator=(const StewardListener&) = delete;

    // Listens, and looks from now on. Errors: those of plain HTTP.
    Result<void> start();
    void look();
    bool secure() const noexcept { return secure_; }

private:
    Result<bool> wants_tls() const;
    Result<void> turn_to(const config::ListenerConfig& listener);
    void schedule();
    void say(const std::string& problem);

    net::Loop& loop_;
    const obs::Log log_;
    const Options options_;
    Listening listening_;
    bool secure_{false};
    MonotonicTime retry_at_{};
    std::string said_;  // the last problem; empty: none
    std::unique_ptr<net::Timer> timer_;
};

}  // namespace capstan::cli
