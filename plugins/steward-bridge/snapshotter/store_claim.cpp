#include "plugins/steward-bridge/snapshotter/store_claim.hpp"

#include "plugins/steward-bridge/restore/stored_owner.hpp"

#include <utility>

namespace capstan::steward {

Result<std::optional<StoreClaim::Seen>> StoreClaim::read() {
    const auto info = parts_.store.stat({key_});
    if (!info && info.error().code == Code::not_found) {
        return std::optional<Seen>();
    }
    CAPSTAN_TRY(const ObjectInfo found, info);
    CAPSTAN_TRY(std::optional<PrefixOwner> owner, read_owner(parts_.store, parts_.prefix));
    if (!owner) {
        return std::optional<Seen>();
    }
    return std::optional<Seen>(Seen{std::move(*owner), found.etag});
}

PrefixOwner StoreClaim::mine() const {
    PrefixOwner mine = parts_.me;
    mine.since = since_;
    mine.asks.clear();
    return mine;
}

// Somebody else who is quicker is seen with the next look.
Result<void> StoreClaim::write_anew() {
    auto written = parts_.store.put_if_absent(key_, to_text(mine()));
    if (!written && written.error().code == Code::unsupported) {
        // Without conditions two may write it in one moment; the later look tells.
        CAPSTAN_TRY(write_object(parts_.store, key_, to_text(mine())));
        written = std::string();
    }
    CAPSTAN_TRY(etag_, std::move(written));
    held_ = true;
    return ok();
}

// Another process of this Etcd may have written it, or somebody has asked.
Result<void> StoreClaim::adopt(const Seen& seen) {
    refused_ = false;
    held_ = true;
    since_ = seen.owner.since;
    etag_ = seen.etag;
    PrefixOwner wanted = mine();
    wanted.uid = wanted.uid.empty() ? seen.owner.uid : wanted.uid;
    wanted.cluster = wanted.cluster.empty() ? seen.owner.cluster : wanted.cluster;
    if (to_text(seen.owner) != to_text(wanted)) {
        CAPSTAN_TRY(etag_, parts_.store.put_if_match(key_, to_text(wanted), seen.etag));
    }
    return ok();
}

Error StoreClaim::conflict(const PrefixOwner& other, std::string_view state) const {
    const PrefixOwner& me = parts_.me;
    return {Code::conflict,
            "the backups below prefix \"" + parts_.prefix + "\" of " + parts_.store.describe() +
                " are those of " + other.described() + ", " + std::string(state) +
                "; two clusters in one prefix would mix their data, so nothing of this one is "
                "stored there: set spec.backup.store.prefix of Etcd " +
                me.ns + "/" + me.name + " to a prefix of its own",
            {}};
}

Result<WallTime> StoreClaim::succeed(const Seen& seen, MonotonicTime now, const After& after) {
    refused_ = true;
    held_ = false;
    const std::chrono::nanoseconds patience = kinship(parts_.me, seen.owner) == Kinship::namesake
                                                  ? std::chrono::nanoseconds(kNamesakePatience)
                                                  : std::chrono::nanoseconds(kStrangerPatience);
    const bool asked = seen.owner.asks == parts_.process && seen.etag == asked_etag_;
    if (asked && now - asked_at_ >= patience) {
        CAPSTAN_TRY(since_, after());
        CAPSTAN_TRY(etag_, parts_.store.put_if_match(key_, to_text(mine()), seen.etag));
        refused_ = false;
        held_ = true;
        asked_etag_.clear();
        return since_;
    }
    if (!asked && !asked_etag_.empty() && now - asked_at_ < kAskAgain) {
        return fail(conflict(seen.owner, "which is alive: it has answered when asked"));
    }
    if (!asked) {
        PrefixOwner question = seen.owner;
        question.asks = parts_.process;
        CAPSTAN_TRY(asked_etag_, parts_.store.put_if_match(key_, to_text(question), seen.etag));
        asked_at_ = now;
    }
    const auto left = std::chrono::floor<std::chrono::seconds>(asked_at_ + patience - now);
    return fail(conflict(seen.owner,
                         "which has been asked whether it still stores there; when it does not "
                         "answer until " +
                             to_rfc3339(parts_.pace.wall_now() + left) +
                             " this Etcd takes over, and at once when " + key_ +
                             " is removed from the store"));
}

Result<WallTime> StoreClaim::acquire(MonotonicTime now, const After& after) {
    refused_ = false;
    next_look_ = now + kOwnerLook;
    CAPSTAN_TRY(const std::optional<Seen> seen, read());
    if (!seen && !asked_etag_.empty()) {
        CAPSTAN_TRY(since_, after());  // somebody gave it to this Etcd
    }
    if (!seen) {
        CAPSTAN_TRY(write_anew());
        asked_etag_.clear();
        return since_;
    }
    if (kinship(parts_.me, seen->owner) != Kinship::same) {
        return succeed(*seen, now, after);
    }
    CAPSTAN_TRY(adopt(*seen));
    return since_;
}

Result<void> StoreClaim::keep(MonotonicTime now) {
    if (now < next_look_) {
        return ok();
    }
    next_look_ = now + kOwnerLook;
    return still_ours();
}

Result<void> StoreClaim::still_ours() {
    const auto info = parts_.store.stat({key_});
    if (info && !etag_.empty() && info.value().etag == etag_) {
        return ok();
    }
    if (!info && info.error().code != Code::not_found) {
        return fail(info.error());
    }
    CAPSTAN_TRY(const std::optional<Seen> seen, read());
    if (!seen) {
        return write_anew();
    }
    if (kinship(parts_.me, seen->owner) == Kinship::same) {
        return adopt(*seen);
    }
    refused_ = true;
    held_ = false;
    next_look_ = {};  // whoever asks next is told again
    return fail(conflict(seen->owner, "which took over while this one was silent"));
}

}  // namespace capstan::steward
