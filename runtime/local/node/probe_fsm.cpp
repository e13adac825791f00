#include "runtime/local/node/probe_fsm.hpp"

#include <algorithm>

namespace capstan::local {

ProbeSpec probe_spec_from(const json::View& probe) {
    const auto at_least = [&](std::string_view key, std::int64_t fallback, std::int64_t least) {
        return std::clamp<std::int64_t>(probe[key].int_or(fallback), least, 86'400);
    };
    ProbeSpec spec;
    spec.initial_delay = std::chrono::seconds(at_least("initialDelaySeconds", 0, 0));
    spec.period = std::chrono::seconds(at_least("periodSeconds", 10, 1));
    spec.timeout = std::chrono::seconds(at_least("timeoutSeconds", 1, 1));
    spec.failure_threshold = static_cast<int>(at_least("failureThreshold", 3, 1));
    spec.success_threshold = static_cast<int>(at_least("successThreshold", 1, 1));
    return spec;
}

ProbeFsm::ProbeFsm(ProbeKind kind, const ProbeSpec& spec, MonotonicTime started)
    : kind_(kind),
      spec_(spec),
      started_(started),
      due_(started + spec.initial_delay),
      passed_(kind == ProbeKind::liveness) {}

bool ProbeFsm::record(bool success, MonotonicTime now) {
    run_ = success == last_ ? run_ + 1 : 1;
    last_ = success;
    const bool was_passed = passed_;
    if (run_ >= (success ? spec_.success_threshold : spec_.failure_threshold)) {
        passed_ = success;
        fatal_ = fatal_ || (!success && kind_ != ProbeKind::readiness);
    }
    ever_passed_ = ever_passed_ || passed_;
    const bool eager = kind_ == ProbeKind::readiness && !ever_passed_ && now - started_ < kEagerFor;
    due_ = now + (eager ? std::chrono::nanoseconds(kEagerPeriod)
                        : std::chrono::nanoseconds(spec_.period));
    if (fatal_ || (kind_ == ProbeKind::startup && passed_)) {
        due_ = kNever;
    }
    return passed_ != was_passed || fatal_;
}

}  // namespace capstan::local
