#include "runtime/kube/tls_rotation.hpp"

#include "runtime/net/pki.hpp"

#include <utility>

namespace capstan::kube {

TlsRotation::TlsRotation(net::Loop& loop,
                         net::HttpClient& http,
                         net::TlsClientOptions tls,
                         TlsFiles files,
                         RotationObserver* observer,
                         std::function<void()> changed,
                         ReadFile read)
    : loop_(loop),
      http_(http),
      tls_(std::move(tls)),
      files_(std::move(files)),
      observer_(observer),
      changed_(std::move(changed)),
      read_(std::move(read)),
      last_read_(loop.now()) {
    tell_expiry();
    arm();
}

void TlsRotation::arm() {
    if (files_.any()) {
        timer_ = loop_.at(loop_.now() + kTlsFilesPeriod, [this] {
            const auto fired = std::move(timer_);
            read_files();
            arm();
        });
    }
}

bool TlsRotation::refresh() {
    return files_.any() && loop_.now() >= last_read_ + kTlsFilesPauseMin && read_files();
}

Result<net::TlsClientOptions> TlsRotation::wanted() const {
    net::TlsClientOptions wanted = tls_;
    if (!files_.ca.empty()) {
        CAPSTAN_TRY(wanted.ca_pem, read_(files_.ca));
        if (wanted.ca_pem.empty()) {  // would mean the system's CAs
            return fail(Code::invalid, files_.ca + " is empty");
        }
    }
    if (!files_.certificate.empty()) {
        CAPSTAN_TRY(wanted.certificate_pem, read_(files_.certificate));
        CAPSTAN_TRY(wanted.key_pem, read_(files_.key));
        if (wanted.certificate_pem.empty()) {
            return fail(Code::invalid, files_.certificate + " is empty");
        }
    }
    return wanted;
}

bool TlsRotation::read_files() {
    last_read_ = loop_.now();
    auto next = wanted();
    if (!next) {
        report(next.error(), "unreadable");
        return false;
    }
    const bool other_ca = next.value().ca_pem != tls_.ca_pem;
    const bool other_pair = next.value().certificate_pem != tls_.certificate_pem ||
                            next.value().key_pem != tls_.key_pem;
    if (!other_ca && !other_pair) {
        told_.clear();
        if (observer_ != nullptr) {
            observer_->reloaded(true, "unchanged");
        }
        return false;
    }
    if (const auto set = http_.set_tls(next.value()); !set) {
        report(set.error(), "unusable");
        return false;
    }
    tls_ = std::move(next).value();
    told_.clear();
    if (observer_ != nullptr) {
        observer_->reloaded(true, "changed");
        if (other_ca) {
            observer_->changed("CA");
        }
        if (other_pair) {
            observer_->changed("client certificate");
        }
    }
    tell_expiry();
    changed_();
    return true;
}

Result<void> TlsRotation::set_pair(std::string certificate_pem, std::string key_pem) {
    if (certificate_pem == tls_.certificate_pem && key_pem == tls_.key_pem) {
        return ok();
    }
    net::TlsClientOptions next = tls_;
    next.certificate_pem = std::move(certificate_pem);
    next.key_pem = std::move(key_pem);
    CAPSTAN_TRY(http_.set_tls(next));
    tls_ = std::move(next);
    if (observer_ != nullptr) {
        observer_->changed("client certificate");
    }
    tell_expiry();
    changed_();
    return ok();
}

void TlsRotation::report(const Error& error, std::string_view reason) {
    if (observer_ == nullptr) {
        return;
    }
    observer_->reloaded(false, reason);
    if (std::exchange(told_, error.message) != error.message) {
        observer_->failed(error);
    }
}

void TlsRotation::tell_expiry() {
    ends_.reset();
    if (tls_.certificate_pem.empty()) {
        return;
    }
    if (const auto info = net::read_certificate(tls_.certificate_pem)) {
        ends_ = info.value().validity.not_after;
        if (observer_ != nullptr) {
            observer_->expires(*ends_, files_.certificate);
        }
    }
}

}  // namespace capstan::kube
