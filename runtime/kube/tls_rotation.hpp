// CA and client certificate files that change while the process runs.
//
// Read again every kTlsFilesPeriod, when the server's certificate was refused, and after a 401. A
// change is one HttpClient::set_tls(); what cannot be read or does not fit together changes nothing
// and is tried again, so a file that is half written or gone for a moment interrupts nobody.
// Thread: [io].
#pragma once

#include "runtime/kube/credentials.hpp"
#include "runtime/net/http.hpp"
#include "runtime/net/loop.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::kube {

inline constexpr std::chrono::seconds kTlsFilesPeriod{60};
// between two reads that a failure asked for
inline constexpr std::chrono::seconds kTlsFilesPauseMin{1};

// Paths; empty: that part is fixed.
struct TlsFiles {
    std::string ca;
    std::string certificate;
    std::string key;

    bool any() const noexcept { return !ca.empty() || !certificate.empty(); }
};

// For metrics and logs.
class RotationObserver {
public:
    virtual ~RotationObserver() = default;
    // `reason`: "changed", "unchanged", or with ok = false "unreadable" and "unusable".
    virtual void reloaded(bool ok, std::string_view reason) = 0;
    virtual void changed(std::string_view what) = 0;  // "CA", "client certificate"
    virtual void failed(const Error& error) = 0;      // each text once until it changes
    // Of the client certificate in use; called for the first one too. `file`: "" when it is not of
    // one.
    virtual void expires(WallTime not_after, std::string_view file) = 0;
};

class TlsRotation {
public:
    // `tls`: what `http` was made with. `http` and `observer` (may be nullptr) are borrowed and
    // outlive *this. `changed`: after each change; old connections are still open then.
    TlsRotation(net::Loop& loop,
                net::HttpClient& http,
                net::TlsClientOptions tls,
                TlsFiles files,
                RotationObserver* observer,
                std::function<void()> changed,
                ReadFile read = read_small_file);
    TlsRotation(const TlsRotation&) = delete;
    TlsRotation& operator=(const TlsRotation&) = delete;

    // Reads the files now, unless that was done within kTlsFilesPauseMin. True: something changed.
    bool refresh();
    // From an exec plugin instead of files. Errors: of set_tls; the old pair stays.
    Result<void> set_pair(std::string certificate_pem, std::string key_pem);
    // Of the client certificate in use; nullopt: there is none.
    const std::optional<WallTime>& certificate_ends() const noexcept { return ends_; }

private:
    bool read_files();
    Result<net::TlsClientOptions> wanted() const;
    void arm();
    void report(const Error& error, std::string_view reason);
    void tell_expiry();

    net::Loop& loop_;
    net::HttpClient& http_;
    net::TlsClientOptions tls_;
    const TlsFiles files_;
    RotationObserver* const observer_;
    const std::function<void()> changed_;
    const ReadFile read_;
    std::unique_ptr<net::Timer> timer_;
    MonotonicTime last_read_{0};
    std::string told_;  // the failure last reported
    std::optional<WallTime> ends_;
};

}  // namespace capstan::kube
