#include "runtime/net/certificate_watcher.hpp"

#include "runtime/net/tls.hpp"

#include <utility>

namespace capstan::net {

namespace {

// An empty text would mean "no TLS" further down: a listener must never become plain HTTP by that.
Result<std::string> read_filled(const std::string& file, const ReadPem& read) {
    CAPSTAN_TRY(std::string text, read(file));
    if (text.find("-----BEGIN ") == std::string::npos) {
        return fail(Code::invalid, file + " holds no PEM block; it may be empty or half written");
    }
    return text;
}

}  // namespace

Result<ServerTls> read_server_tls(const CertificateFiles& files, const ReadPem& read) {
    ServerTls tls;
    CAPSTAN_TRY(tls.certificate_pem, read_filled(files.certificate, read));
    CAPSTAN_TRY(tls.key_pem, read_filled(files.key, read));
    if (!files.client_ca.empty()) {
        CAPSTAN_TRY(tls.client_ca_pem, read_filled(files.client_ca, read));
    }
    return tls;
}

Result<CertificateInfo> check_server_tls(const ServerTls& tls, const std::string& file) {
    const ClientAuth auth = tls.client_ca_pem.empty() ? ClientAuth::none : ClientAuth::request;
    if (const auto usable =
            TlsServer::create(tls.certificate_pem, tls.key_pem, tls.client_ca_pem, auth);
        !usable) {
        return fail(with_context(usable.error(), file));
    }
    CAPSTAN_TRY(CertificateInfo info, read_certificate(tls.certificate_pem));
    if (info.dns_names.empty() && info.ip_addresses.empty()) {
        return fail(Code::invalid,
                    file +
                        " names no host: it has no subject alternative name, and clients do not "
                        "look at the common name; remedy: issue it with the DNS names and "
                        "addresses it is called by");
    }
    return info;
}

CertificateWatcher::CertificateWatcher(Loop& loop,
                                       obs::Metrics& metrics,
                                       const obs::Log& log,
                                       Options options,
                                       ServerTls in_use,
                                       std::function<Result<void>(const ServerTls&)> apply)
    : loop_(loop),
      options_(std::move(options)),
      log_(log.with({{"listener", options_.listener}})),
      apply_(std::move(apply)),
      reads_(metrics
                 .counter("certwatcher_read_certificate_total",
                          "Times certificate files were read to see whether they changed.")
                 .with({})),
      errors_(metrics
                  .counter("certwatcher_read_certificate_errors_total",
                           "Reads that found a pair that cannot be used; the old one stays.")
                  .with({})),
      expiry_(metrics
                  .gauge("capstan_certificate_expiry_timestamp_seconds",
                         "When the certificate in use ends, in seconds since 1970.",
                         {"listener"})
                  .with({options_.listener})),
      in_use_(std::move(in_use)) {
    note_expiry();
    schedule();
}

void CertificateWatcher::schedule() {
    timer_ = loop_.at(loop_.now() + kCertificatePoll, [this] {
        poll();
        schedule();
    });
}

void CertificateWatcher::poll() {
    reads_.add();
    const Result<bool> changed = reload();
    if (!changed) {
        errors_.add();
        // Once per problem, not every ten seconds.
        if (changed.error().message != last_problem_) {
            last_problem_ = changed.error().message;
            log_.error("certificate not reloaded; the one in use stays",
                       {{"error", last_problem_}});
        }
    } else {
        last_problem_.clear();
    }
    if (changed && changed.value()) {
        expiry_warned_ = false;
        log_.info("certificate reloaded", {{"expires", to_rfc3339(expires_)}});
    }
    note_expiry();
}

// True: there is a new set and it is in use.
Result<bool> CertificateWatcher::reload() {
    CAPSTAN_TRY(ServerTls found, read_server_tls(options_.files, options_.read));
    if (found == in_use_) {
        return false;
    }
    CAPSTAN_TRY(const CertificateInfo info, check_server_tls(found, options_.files.certificate));
    if (info.validity.not_after <= loop_.wall_now() && loop_.wall_now() < expires_) {
        return fail(
            Code::invalid,
            options_.files.certificate + " ended at " + to_rfc3339(info.validity.not_after));
    }
    CAPSTAN_TRY(apply_(found));
    in_use_ = std::move(found);
    expires_ = info.validity.not_after;
    return true;
}

void CertificateWatcher::note_expiry() {
    if (expires_ == WallTime{}) {
        const auto info = read_certificate(in_use_.certificate_pem);
        if (!info) {
            return;
        }
        expires_ = info.value().validity.not_after;
    }
    expiry_.set(std::chrono::duration<double>(expires_.time_since_epoch()).count());
    const std::string date = to_rfc3339(expires_);
    const bool ended = expires_ <= loop_.wall_now();
    if (!ended && !expiry_warned_ && expires_ - loop_.wall_now() < kExpiryWarning) {
        expiry_warned_ = true;
        log_.warn("the certificate ends soon; put a new pair into its files",
                  {{"expires", date}, {"path", options_.files.certificate}});
    }
    if (ended == std::exchange(ended_, ended)) {
        return;
    }
    if (ended) {
        log_.error("the certificate has ended; put a new pair into its files",
                   {{"expires", date}, {"path", options_.files.certificate}});
    }
    if (obs::Health* health = options_.health; health != nullptr) {
        const std::string check = "certificate/" + options_.listener;
        if (ended) {
            health->add(check,
                        obs::Probe::readyz,
                        options_.files.certificate + " has ended at " + date +
                            "; remedy: put a new pair into its files");
        } else {
            health->remove(check);
        }
    }
}

}  // namespace capstan::net
