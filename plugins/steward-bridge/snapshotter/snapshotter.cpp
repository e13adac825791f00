#include "plugins/steward-bridge/snapshotter/snapshotter.hpp"

#include <algorithm>
#include <utility>

namespace capstan::steward {
namespace {

bool same_access(const EtcdAccess& a, const EtcdAccess& b) {
    return a.endpoint == b.endpoint && a.data_directory == b.data_directory &&
           a.tls.ca_pem == b.tls.ca_pem && a.tls.certificate_pem == b.tls.certificate_pem &&
           a.tls.key_pem == b.tls.key_pem && a.tls.server_name == b.tls.server_name &&
           a.tls.insecure == b.tls.insecure;
}

Error not_leading() {
    return {Code::unavailable,
            "this member does not lead its cluster; the steward of the leading member takes the "
            "snapshots, ask that one",
            {}};
}

}  // namespace

std::string_view to_string(SnapshotterState state) noexcept {
    switch (state) {
        case SnapshotterState::no_store: return "no_store";
        case SnapshotterState::stopped: return "stopped";
        case SnapshotterState::starting: return "starting";
        case SnapshotterState::running: return "running";
        case SnapshotterState::failing: return "failing";
    }
    return "";
}

Snapshotter::Snapshotter(const HostTables& host) : host_(host), wake_(host) {}

Result<std::shared_ptr<Snapshotter::Ask>> Snapshotter::enqueue(bool full, bool final) {
    auto asked = std::make_shared<Ask>();
    asked->full = full;
    asked->final = final;
    asked->done = Token(host_);
    {
        const std::lock_guard lock(mutex_);
        if (orders_.config && !orders_.config->backups()) {
            return fail(Code::unsupported,
                        "this cluster has no backup store; set spec.backup.store of its Etcd");
        }
        if (!full && orders_.config && !orders_.config->deltas()) {
            return fail(Code::unsupported,
                        "delta snapshots are off: deltaSnapshotPeriod is below 1s");
        }
        if (orders_.role != Role::leader || !orders_.config) {
            return fail(not_leading());
        }
        if (asks_.size() >= kSnapshotRequestsMax) {
            return fail(Code::overloaded,
                        std::to_string(kSnapshotRequestsMax) +
                            " requests for snapshots wait already; ask again later");
        }
        asks_.push_back(asked);
    }
    wake_.notify();
    return asked;
}

Result<std::optional<SnapshotRecord>> Snapshotter::ask(Call& call,
                                                       bool full,
                                                       bool final,
                                                       std::chrono::nanoseconds timeout) {
    CAPSTAN_TRY(const std::shared_ptr<Ask> asked, enqueue(full, final));
    const MonotonicTime until = call.now() + timeout;
    while (true) {
        const Result<void> woken = call.wait(asked->done, until);
        const std::lock_guard lock(asked->mutex);
        if (asked->answer) {
            return *asked->answer;
        }
        if (!woken) {
            return woken.error().code == Code::timeout
                       ? fail(Code::timeout,
                              "the snapshot is not done in time; it may still be taken, "
                              "/snapshot/latest tells")
                       : fail(woken.error());
        }
    }
}

Result<SnapshotRecord> Snapshotter::request_full(Call& call,
                                                 bool final,
                                                 std::chrono::nanoseconds timeout) {
    CAPSTAN_TRY(std::optional<SnapshotRecord> taken, ask(call, true, final, timeout));
    CAPSTAN_CHECK(taken.has_value(), "a full snapshot is never empty");
    return std::move(*taken);
}

Result<std::optional<SnapshotRecord>> Snapshotter::request_delta(Call& call,
                                                                 std::chrono::nanoseconds timeout) {
    return ask(call, false, false, timeout);
}

SnapshotterView Snapshotter::view() const {
    const std::lock_guard lock(mutex_);
    return view_;
}

std::uint64_t Snapshotter::version() const {
    const std::lock_guard lock(mutex_);
    return view_.version;
}

LatestSet Snapshotter::latest() const {
    const std::lock_guard lock(mutex_);
    return {view_.facts.full, view_.facts.deltas};
}

bool Snapshotter::backups() const {
    const std::lock_guard lock(mutex_);
    return orders_.config && orders_.config->backups();
}

bool Snapshotter::leads() const {
    const std::lock_guard lock(mutex_);
    return orders_.role == Role::leader;
}

void Snapshotter::on_role(Role role) {
    {
        const std::lock_guard lock(mutex_);
        unknown_in_a_row_ = role == Role::unknown ? unknown_in_a_row_ + 1 : 0;
        const bool patient = orders_.role == Role::leader && role == Role::unknown &&
                             unknown_in_a_row_ < kUnknownRolesMax;
        if (orders_.role == role || patient) {
            return;
        }
        const bool matters = role == Role::leader || orders_.role == Role::leader;
        etcd_gone_ = role == Role::unknown && (orders_.role == Role::leader || etcd_gone_);
        orders_.role = role;
        if (!matters) {
            return;
        }
        orders_.term = term_.fetch_add(1, std::memory_order_acq_rel) + 1;
    }
    wake_.notify();
}

void Snapshotter::end_term() {
    {
        const std::lock_guard lock(mutex_);
        if (orders_.role == Role::leader) {
            etcd_gone_ = true;
            unknown_in_a_row_ = 0;
            orders_.term = term_.fetch_add(1, std::memory_order_acq_rel) + 1;
        }
        orders_.role = Role::unknown;
    }
    wake_.notify();
}

bool Snapshotter::at_rest() const {
    const std::lock_guard lock(mutex_);
    return !working_;
}

bool Snapshotter::begin_work(std::uint64_t term) {
    const std::lock_guard lock(mutex_);
    working_ = orders_.term == term;
    return working_;
}

void Snapshotter::end_work() {
    const std::lock_guard lock(mutex_);
    working_ = false;
}

bool Snapshotter::etcd_gone() const {
    const std::lock_guard lock(mutex_);
    return etcd_gone_;
}

void Snapshotter::configure(std::optional<SnapshotterConfig> config, EtcdAccess etcd) {
    {
        const std::lock_guard lock(mutex_);
        if (orders_.config == config && same_access(orders_.etcd, etcd)) {
            return;
        }
        orders_.config = std::move(config);
        orders_.etcd = std::move(etcd);
        orders_.term = term_.fetch_add(1, std::memory_order_acq_rel) + 1;
    }
    wake_.notify();
}

Snapshotter::Orders Snapshotter::orders() const {
    const std::lock_guard lock(mutex_);
    return orders_;
}

std::shared_ptr<Snapshotter::Ask> Snapshotter::take_ask() {
    const std::lock_guard lock(mutex_);
    if (asks_.empty()) {
        return nullptr;
    }
    auto first = std::move(asks_.front());
    asks_.pop_front();
    return first;
}

void Snapshotter::answer(Ask& ask, Result<std::optional<SnapshotRecord>> result) {
    {
        const std::lock_guard lock(ask.mutex);
        ask.answer = std::move(result);
    }
    ask.done.notify();
}

void Snapshotter::refuse_asks(const Error& why) {
    while (const auto waiting = take_ask()) {
        answer(*waiting, fail(why));
    }
}

void Snapshotter::publish(SnapshotterState state, std::string reason, std::string message) {
    const std::lock_guard lock(mutex_);
    if (view_.state == state && view_.reason == reason && view_.message == message) {
        return;
    }
    view_.state = state;
    view_.reason = std::move(reason);
    view_.message = std::move(message);
    changed();
}

void Snapshotter::publish(const SnapshotFacts& facts) {
    const std::lock_guard lock(mutex_);
    view_.facts = facts;
    changed();
}

void Snapshotter::changed() {
    ++view_.version;
}

}  // namespace capstan::steward
