#include "runtime/lease/fence.hpp"

namespace capstan::lease {
namespace {

constexpr MonotonicTime::rep kDropped = -1;

}  // namespace

Fence::Fence(const Clock& clock, obs::Metrics& metrics)
    : clock_(clock),
      refused_(metrics
                   .counter("capstan_fenced_writes_total",
                            "Writes not sent because this process is not the leader.",
                            {})
                   .with({})) {}

void Fence::extend(MonotonicTime until) noexcept {
    MonotonicTime::rep known = until_.load();
    while (known != kDropped && known < until.count() &&
           !until_.compare_exchange_weak(known, until.count())) {
    }
}

void Fence::drop() noexcept {
    until_.store(kDropped);
}

bool Fence::holds() const noexcept {
    return clock_.now().count() < until_.load();
}

Result<MonotonicTime> Fence::admit() noexcept {
    const MonotonicTime::rep until = until_.load();
    if (clock_.now().count() < until) {
        return MonotonicTime(until);
    }
    refused_.add();
    return fail(Code::cancelled, "not sent: this process does not hold the leader lease");
}

}  // namespace capstan::lease
