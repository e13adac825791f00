#include "runtime/cli/steward_listener.hpp"

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace capstan::cli {

StewardListener::StewardListener(net::Loop& loop, const obs::Log& log, Options options)
    : loop_(loop), log_(log), options_(std::move(options)) {}

Result<void> StewardListener::start() {
    const Result<bool> tls = wants_tls();
    if (!tls) {
        say(tls.error().message);
    }
    if (tls && tls.value() && turn_to(options_.secure)) {
        secure_ = true;
    } else {
        CAPSTAN_TRY(turn_to(options_.plain));
    }
    schedule();
    return ok();
}

// True: there are certificates that a listener can use. Errors: there are some that it cannot.
Result<bool> StewardListener::wants_tls() const {
    const config::TlsConfig& tls = options_.secure.tls;
    const net::CertificateFiles files{tls.certificate_file, tls.key_file, tls.client_ca_file};
    // The certificate is written last and taken away first.
    if (::access(files.certificate.c_str(), F_OK) != 0 && errno == ENOENT) {
        return false;
    }
    if (secure_) {
        return true;  // a bad successor is the certificate watcher's to report
    }
    CAPSTAN_TRY(const net::ServerTls found, net::read_server_tls(files, options_.read));
    CAPSTAN_TRY(net::check_server_tls(found, files.certificate));
    return true;
}

Result<void> StewardListener::turn_to(const config::ListenerConfig& listener) {
    listening_.certificates.reset();
    listening_.server.reset();  // the two share a port
    CAPSTAN_TRY(listening_, options_.serve(listener));
    return ok();
}

void StewardListener::look() {
    const Result<bool> tls = wants_tls();
    if (!tls) {
        return say(tls.error().message);
    }
    if ((tls.value() == secure_ && listening_.server) || loop_.now() < retry_at_) {
        return;
    }
    secure_ = tls.value();
    const Result<void> turned = turn_to(secure_ ? options_.secure : options_.plain);
    if (turned) {
        return said_.clear();
    }
    say(turned.error().message);
    retry_at_ = loop_.now() + kStewardListenerRetry;
    secure_ = false;
    if (const auto kept = turn_to(options_.plain); !kept) {
        say(kept.error().message);
    }
}

void StewardListener::say(const std::string& problem) {
    if (problem != std::exchange(said_, problem)) {
        log_.error("the api listener cannot take up TLS; only this pod is answered",
                   {{"error", problem}});
    }
}

void StewardListener::schedule() {
    timer_ = loop_.at(loop_.now() + kStewardListenerPeriod, [this] {
        look();
        schedule();
    });
}

}  // namespace capstan::cli
