// One probe of one container: thresholds and times, not I/O. Pure.
//
// The kubelet's counting: a result holds until failureThreshold failures, or successThreshold
// successes, came in a row. Different here: a container that was never ready is asked every 250 ms
// in its first minute, so that a start is not rounded up to periodSeconds. Source: Kubernetes'
// probe documentation, docs/local.md.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/json.hpp"

#include <chrono>
#include <cstdint>

namespace capstan::local {

enum class ProbeKind : std::uint8_t { startup, readiness, liveness };

struct ProbeSpec {
    std::chrono::seconds initial_delay{0};
    std::chrono::seconds period{10};
    std::chrono::seconds timeout{1};
    int failure_threshold{3};
    int success_threshold{1};
};
// the API's defaults; values below their minimum are raised
ProbeSpec probe_spec_from(const json::View& probe);

inline constexpr std::chrono::milliseconds kEagerPeriod{250};
inline constexpr std::chrono::seconds kEagerFor{60};

class ProbeFsm {
public:
    // `started`: when the container's process started.
    ProbeFsm(ProbeKind kind, const ProbeSpec& spec, MonotonicTime started);

    // The standing result: readiness begins false, liveness true, startup false.
    bool passed() const noexcept { return passed_; }
    // A liveness or startup probe has failed for good: the container is to be restarted.
    bool fatal() const noexcept { return fatal_; }
    MonotonicTime next_due() const noexcept { return due_; }  // kNever: nothing more to ask
    // True: `passed` or `fatal` changed.
    bool record(bool success, MonotonicTime now);

private:
    const ProbeKind kind_;
    const ProbeSpec spec_;
    const MonotonicTime started_;
    MonotonicTime due_;
    int run_{0};
    bool last_{false};
    bool passed_;
    bool ever_passed_{false};
    bool fatal_{false};
};

}  // namespace capstan::local
