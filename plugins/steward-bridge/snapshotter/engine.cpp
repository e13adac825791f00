#include "plugins/steward-bridge/snapshotter/engine.hpp"

#include <algorithm>
#include <utility>

namespace capstan::steward {
namespace {

constexpr std::chrono::hours kCollectAnywayAfter{1};  // rules go by the clock, too

std::uint64_t stored_bytes(const std::vector<SnapshotRecord>& records) {
    std::uint64_t sum = 0;
    for (const SnapshotRecord& record : records) {
        sum += record.bytes;
    }
    return sum;
}

}  // namespace

SnapshotEngine::SnapshotEngine(EngineParts parts,
                               const SnapshotterConfig& config,
                               Schedule schedule)
    : parts_(std::move(parts)), config_(config), plan_(config, std::move(schedule), moment()) {
    parts_.face.publish(SnapshotterState::starting, "", "");
}

SnapshotEngine::~SnapshotEngine() {
    const Error over{Code::unavailable,
                     "this member stopped taking snapshots before this one was done; ask the "
                     "steward of the leading member",
                     {}};
    answer(full_asks_, fail(over));
    answer(delta_asks_, fail(over));
}

void SnapshotEngine::answer(Asks& asks, const Result<std::optional<SnapshotRecord>>& result) {
    for (const auto& ask : asks) {
        Snapshotter::answer(*ask, result);
    }
    asks.clear();
}

void SnapshotEngine::take_asks() {
    while (auto ask = parts_.face.take_ask()) {
        plan_.hurry();
        if (ask->full) {
            final_asked_ = final_asked_ || ask->final;
            plan_.want_full(FullReason::asked);
            full_asks_.push_back(std::move(ask));
        } else {
            plan_.flush_soon();
            delta_asks_.push_back(std::move(ask));
        }
    }
}

Result<MonotonicTime> SnapshotEngine::step() {
    CAPSTAN_TRY(parts_.guard());
    take_asks();
    const Moment now = moment();
    CAPSTAN_TRY(const bool ours, keep_claim());
    if (!ours) {
        return now.mono;
    }
    plan_.follow_clock(now, parts_.pace.chance());
    const Action action = plan_.next(now);
    if (action.step == Step::wait) {
        if (!watch_) {
            return action.until;
        }
        CAPSTAN_TRY(read_watch(std::min(action.until, now.mono + kWatchSlice)));
    } else {
        CAPSTAN_TRY(carry_out(action));
    }
    if (plan_.has_looked() && plan_.failures() == 0 && facts_.full) {
        last_problem_.clear();
        parts_.face.publish(SnapshotterState::running, "", "");
    }
    return now.mono;
}

Result<void> SnapshotEngine::carry_out(const Action& action) {
    switch (action.step) {
        case Step::look: return look();
        case Step::full: return take_full(action.reason);
        case Step::watch: return open_watch();
        case Step::flush: return flush();
        case Step::check_watch: return check_watch();
        case Step::collect: return collect();
        case Step::wait: break;
    }
    return ok();
}

Result<void> SnapshotEngine::failed(std::string_view what, const Error& error) {
    // Also when the role is known to have changed only after the error it caused.
    CAPSTAN_TRY(parts_.guard());
    parts_.metrics.failed(error.code);
    const std::string message = std::string(what) + ": " + error.message;
    const bool refused = parts_.claim != nullptr && parts_.claim->refused();
    parts_.face.publish(
        SnapshotterState::failing, refused ? "StoreHeldByAnotherEtcd" : "SnapshotFailed", message);
    if (message != last_problem_) {
        last_problem_ = message;
        parts_.log(LogLevel::warn, "snapshots are in trouble", {{"error", message}});
    }
    return ok();
}

Guard SnapshotEngine::guard_until(MonotonicTime deadline) const {
    return [this, deadline]() -> Result<void> {
        CAPSTAN_TRY(parts_.guard());
        if (parts_.claim != nullptr) {
            const auto kept = parts_.claim->keep(parts_.now());
            if (!kept && kept.error().code == Code::conflict) {
                return kept;
            }
        }
        if (parts_.now() >= deadline) {
            return fail(Code::timeout, "it took longer than snapshotTimeout allows");
        }
        return ok();
    };
}

// Who asked is told why: until a look succeeds nothing is taken.
Result<void> SnapshotEngine::look_failed(std::string_view what, const Error& error) {
    answer(full_asks_, fail(with_context(error, what)));
    answer(delta_asks_, fail(with_context(error, what)));
    plan_.look_again();
    plan_.failed(moment(), parts_.pace.chance());
    return failed(what, error);
}

// What is continued has to be whole. What it builds on was read back before it was continued.
Result<bool> SnapshotEngine::verify_newest(const StoredChain& chain) {
    SnapshotRecord newest = chain.deltas.empty() ? *chain.full : chain.deltas.back();
    const SnapshotFacts known = parts_.face.view().facts;
    if (known.newest() != nullptr && known.newest()->key() == newest.key()) {
        return true;  // in an earlier term
    }
    const auto whole =
        parts_.vault.verify(newest, guard_until(parts_.now() + config_.snapshot_timeout));
    if (!whole && whole.error().code != Code::invalid) {
        return fail(with_context(whole.error(), newest.key()));
    }
    if (!whole) {
        parts_.metrics.failed(whole.error().code);
        parts_.log(LogLevel::warn,
                   "the newest snapshot is damaged and is not continued",
                   {{"name", newest.name}, {"error", whole.error().message}});
    }
    return whole.has_value();
}

Result<bool> SnapshotEngine::keep_claim() {
    StoreClaim* const claim = parts_.claim;
    // Between a refusal and the next look nothing is kept.
    if (claim == nullptr || !(claim->held() || (claim->refused() && plan_.has_looked()))) {
        return true;
    }
    const auto kept = claim->keep(parts_.now());
    if (kept || kept.error().code != Code::conflict) {
        return true;  // a store that cannot be read tells nothing; the next upload says so
    }
    watch_.reset();
    sealed_.reset();
    CAPSTAN_TRY(look_failed("keeping the store", kept.error()));
    return false;
}

// Whose the prefix is comes first: a stranger's backups are none of this cluster.
Result<StoredChain> SnapshotEngine::look_at_store() {
    WallTime since{};
    if (parts_.claim != nullptr) {
        const auto after = [this]() -> Result<WallTime> {
            CAPSTAN_TRY(const SnapshotListing listing, parts_.vault.list());
            return next_history_since(listing, parts_.pace.wall_now());
        };
        CAPSTAN_TRY(since, parts_.claim->acquire(parts_.now(), after));
    }
    CAPSTAN_TRY(const SnapshotListing listing, parts_.vault.list());
    StoredChain chain = stored_chain(listing);
    chain.foreign = chain.full && chain.full->created < since;
    chain.newest = std::max(chain.newest, since);
    return chain;
}

Result<void> SnapshotEngine::look() {
    auto stored = look_at_store();
    if (!stored) {
        return look_failed("reading the store", stored.error());
    }
    StoredChain chain = std::move(stored).value();
    const auto head = parts_.etcd.head(true);
    if (!head) {
        return look_failed("asking etcd for its revision", head.error());
    }
    const auto noted =
        parts_.left_history ? parts_.left_history() : Result<std::string>(std::string());
    if (!noted) {
        return look_failed("reading which history the data has left", noted.error());
    }
    const std::string& left = noted.value();
    if (plan_.would_continue(chain, head.value().revision, moment(), left)) {
        const auto whole = verify_newest(chain);
        if (!whole) {
            return look_failed("reading back what is stored", whole.error());
        }
        if (!whole.value()) {
            return ok();  // the next look does not see it
        }
    }
    StoredChain present = chain;
    if (chain.foreign) {
        present = {};
        present.history = chain.history;
        present.since = chain.since;
        present.newest = chain.newest;
    }
    if (is_set_back(chain, head.value().revision, left)) {
        const auto begun = begin_history(head.value(), present);
        if (!begun) {
            return look_failed("marking the end of the history stored so far", begun.error());
        }
    }
    const FullReason reason =
        plan_.looked(chain, head.value().revision, moment(), parts_.pace.chance(), left);
    chain = std::move(present);
    if (!left.empty()) {
        parts_.forget_left_history();
    }
    not_before_ = not_before(chain, parts_.pace.wall_now());
    parts_.log(LogLevel::info,
               "snapshots are continued",
               {{"stored", chain.reaches},
                {"revision", head.value().revision},
                {"deltas", static_cast<std::int64_t>(chain.deltas.size())},
                {"full", to_string(reason)}});
    facts_ = {};
    facts_.full = std::move(chain.full);
    facts_.deltas = std::move(chain.deltas);
    facts_.delta_bytes = stored_bytes(facts_.deltas);
    facts_.reached = chain.reaches;
    facts_.set_back = set_back_ = chain.since != WallTime();
    sealed_.reset();
    watch_.reset();
    CAPSTAN_TRY(start_buffer(chain.reaches + 1));
    if (facts_.full) {
        confirm();
    } else {
        parts_.face.publish(facts_);  // what was there is of an earlier history, or gone
    }
    return ok();
}

Result<void> SnapshotEngine::begin_history(const EtcdHead& head, StoredChain& chain) {
    if (!head.leads) {
        return fail(Code::unavailable, "this member no longer leads");
    }
    CAPSTAN_TRY(const HistoryMark mark, parts_.vault.begin_history(head.revision, parts_.guard));
    parts_.log(LogLevel::warn,
               "etcd was set back; what is stored of before stays as an earlier history",
               {{"revision", head.revision}, {"stored", chain.end}, {"name", mark.name()}});
    chain = {};
    chain.history = mark.name();
    chain.since = mark.since;
    return ok();
}

Result<void> SnapshotEngine::start_buffer(std::int64_t start) {
    const DeltaBuffer::Options options{config_.compression, config_.delta_memory_bytes};
    CAPSTAN_TRY(buffer_,
                DeltaBuffer::create(start, options, parts_.digests, [this](std::int64_t id) {
                    return lease_ttl(id);
                }));
    leases_gone_.clear();
    return ok();
}

void SnapshotEngine::confirm() {
    facts_.observed_at = parts_.pace.wall_now();
    parts_.metrics.facts(facts_);
    parts_.face.publish(facts_);
    parts_.confirmed(facts_);
}

Result<void> SnapshotEngine::take_full(FullReason reason) {
    // The deltas up to here first: an older set then reaches as far as this full one.
    const bool continues = reason == FullReason::scheduled || reason == FullReason::asked;
    if (continues && config_.deltas() && buffer_ && (sealed_ || !buffer_->empty()) &&
        buffer_->settled()) {
        CAPSTAN_TRY(seal());
        CAPSTAN_TRY(store_sealed());
    }
    watch_.reset();
    const MonotonicTime begun = parts_.now();
    const bool final = final_asked_;
    const FullWish wish{
        final, config_.compression, facts_.full ? &*facts_.full : nullptr, not_before_};
    const auto taken =
        parts_.vault.take_full(parts_.etcd, wish, guard_until(begun + config_.snapshot_timeout));
    parts_.metrics.lasted(SnapshotKind::full, taken.has_value(), parts_.now() - begun);
    final_asked_ = false;
    if (!taken) {
        answer(full_asks_, fail(taken.error()));
        if (plan_.chain_broken()) {
            answer(delta_asks_, fail(taken.error()));  // none before a full
        }
        plan_.full_failed(moment(), parts_.pace.chance());
        return failed("full snapshot", taken.error());
    }
    plan_.full_taken(moment(), parts_.pace.chance());
    parts_.log(LogLevel::info,
               taken.value().repeated ? "full snapshot is there already" : "full snapshot stored",
               {{"reason", to_string(reason)},
                {"name", taken.value().record.name},
                {"bytes", static_cast<std::int64_t>(taken.value().record.bytes)}});
    full_stored(taken.value());
    return start_buffer(taken.value().record.last_revision + 1);
}

void SnapshotEngine::full_stored(const FullTaken& taken) {
    const SnapshotRecord& record = taken.record;
    facts_ = {};
    facts_.set_back = set_back_;
    facts_.full = record;
    facts_.full_bytes = taken.database_bytes;
    facts_.reached = record.last_revision;
    not_before_ = std::max(not_before_, record.created + std::chrono::seconds(1));
    sealed_.reset();
    stored_since_collect_ = true;
    parts_.metrics.taken(record, taken.repeated ? 0 : record.bytes);
    parts_.metrics.required(SnapshotKind::full, false);
    parts_.metrics.required(SnapshotKind::delta, false);
    confirm();
    answer(full_asks_, std::optional(record));
    if (!delta_asks_.empty()) {
        plan_.flush_soon();
    }
}

Result<void> SnapshotEngine::collect() {
    const MonotonicTime now = parts_.now();
    plan_.collected(moment());
    // A listing costs; without anything new only the clock can change what is to go.
    if (!facts_.full ||
        (!stored_since_collect_ && collected_at_ && now - *collected_at_ < kCollectAnywayAfter)) {
        return ok();
    }
    const bool uploads_too =
        !uploads_collected_at_ || now - *uploads_collected_at_ >= kCollectAnywayAfter;
    const RetentionOptions options{
        config_.policy, config_.max_backups, config_.delta_retention, facts_.reached};
    const auto collected = parts_.vault.collect(options, uploads_too, parts_.guard);
    if (!collected) {
        CAPSTAN_TRY(parts_.guard());
        parts_.metrics.failed(collected.error().code);
        parts_.log(
            LogLevel::warn, "retention could not run", {{"error", collected.error().message}});
        return ok();
    }
    stored_since_collect_ = false;
    collected_at_ = now;
    if (uploads_too) {
        uploads_collected_at_ = now;
    }
    std::int64_t removed = 0;
    for (const auto& [kind, count] : collected.value().objects) {
        parts_.metrics.collected(kind.first, kind.second, count);
        removed += kind.second ? static_cast<std::int64_t>(count) : 0;
    }
    if (removed > 0 || collected.value().uploads > 0) {
        parts_.log(LogLevel::info,
                   "retention removed snapshots",
                   {{"count", removed},
                    {"uploads", static_cast<std::int64_t>(collected.value().uploads)}});
    }
    if (!collected.value().problem.empty()) {
        parts_.metrics.failed(Code::unavailable);
        parts_.log(LogLevel::warn,
                   "retention could not remove everything",
                   {{"error", collected.value().problem}});
    }
    return ok();
}

}  // namespace capstan::steward
