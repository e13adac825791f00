// The fencing token of a leader: until when this process may write.
//
// The elector extends it with each renewal of the lease; nothing else makes it valid again. It ends
// before a rival can win: a rival waits for the whole lease duration from the moment it saw the
// last renewal, which is never before the renewal was sent; the fence counts from that sending and
// is shorter by the margin. Thread: any.
#pragma once

#include "runtime/kube/write_gate.hpp"
#include "runtime/obs/metrics.hpp"

#include <atomic>

namespace capstan::lease {

class Fence final : public kube::WriteGate {
public:
    // A closed one. Borrowed, both; outlive *this.
    Fence(const Clock& clock, obs::Metrics& metrics);

    // Never shortens it.
    void extend(MonotonicTime until) noexcept;
    void drop() noexcept;  // for good: a later extend() has no effect
    bool holds() const noexcept;

    Result<MonotonicTime> admit() noexcept override;

private:
    const Clock& clock_;
    obs::Counter& refused_;
    std::atomic<MonotonicTime::rep> until_{0};
};

}  // namespace capstan::lease
