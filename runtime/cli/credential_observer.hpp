// From what happens to certificates and credential plugins to metrics and log lines. Thread: [io].
#pragma once

#include "runtime/kube/connection.hpp"
#include "runtime/obs/log.hpp"
#include "runtime/obs/metrics.hpp"

namespace capstan::cli {

class CredentialObserver final : public kube::RotationObserver, public kube::ExecObserver {
public:
    // `clock` and `metrics` are borrowed and outlive *this.
    CredentialObserver(const Clock& clock, obs::Metrics& metrics, obs::Log log);
    void reloaded(bool ok, std::string_view reason) override;
    void changed(std::string_view what) override;
    void failed(const Error& error) override;
    void expires(WallTime not_after, std::string_view file) override;
    void exec_called(int code, std::string_view status) override;
    void exec_expires(std::optional<WallTime> expiry) override;

private:
    const Clock& clock_;
    obs::Metrics& metrics_;
    obs::Log log_;
    obs::Family<obs::Counter>& reloads_;
    obs::Family<obs::Counter>& calls_;
};

}  // namespace capstan::cli
