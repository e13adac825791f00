#include "plugins/steward-bridge/restore/replay.hpp"

#include "plugins/steward-bridge/restore/raft_files.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace capstan::steward {
namespace {

// Above it further leases are not made anew; their keys stay.
constexpr std::size_t kLeasesMax = 1'000'000;
constexpr std::size_t kLeasesKeptMax = 100'000;  // of the base, found there once

// Of etcd's buckets those that restoring writes itself.
constexpr std::string_view kOwnBuckets[] = {
    mvcc::kKeyBucket, mvcc::kLeaseBucket, mvcc::kMetaBucket, mvcc::kAlarmBucket};

bool is_membership(std::string_view bucket) {
    return bucket == mvcc::kMembersBucket || bucket == mvcc::kMembersRemovedBucket;
}

std::string revisions(std::int64_t from, std::int64_t to) {
    return from == to ? "revision " + std::to_string(from)
                      : "revisions " + std::to_string(from) + " to " + std::to_string(to);
}

}  // namespace

Replay::Replay(bolt::Writer* writer,
               bolt::Reader& reader,
               const BaseFacts& base,
               std::optional<std::int64_t> to_revision)
    : writer_(writer),
      reader_(reader),
      base_(base),
      to_revision_(to_revision.value_or(std::numeric_limits<std::int64_t>::max())) {}

Result<void> Replay::write(std::string_view key, std::string_view value) {
    if (writer_ == nullptr) {
        return ok();
    }
    return writer_->put(bolt::bytes(key), bolt::bytes(value));
}

Result<void> Replay::add_base_entry(const mvcc::Revision& revision,
                                    bolt::Bytes key,
                                    bolt::Bytes value) {
    auto decoded = mvcc::decode_key_value(bolt::text(value));
    if (!decoded) {
        return fail(with_context(decoded.error(),
                                 "the value of " + revisions(revision.main, revision.main)));
    }
    const mvcc::KeyValue& pair = decoded.value();
    if (pair.key.empty()) {
        return fail(Code::invalid,
                    "the value of " + revisions(revision.main, revision.main) + " has no key");
    }
    if (revision.tombstone) {
        history_.erase(pair.key);
    } else {
        history_.put(pair.key, pair.create_revision, pair.version);
    }
    ++counts_.base_entries;
    return write(bolt::text(key), bolt::text(value));
}

Result<void> Replay::add_base() {
    if (base_.compacted > to_revision_) {
        return fail(Code::invalid,
                    "its history begins after revision " + std::to_string(base_.compacted) +
                        ", so revision " + std::to_string(to_revision_) +
                        " cannot be restored from it");
    }
    if (writer_ != nullptr) {
        CAPSTAN_TRY(writer_->begin_bucket(mvcc::kKeyBucket));
    }
    bolt::Cursor cursor(reader_, *find_bucket(base_, mvcc::kKeyBucket));
    CAPSTAN_TRY(bool more, cursor.first());
    while (more) {
        const auto revision = mvcc::decode_revision(bolt::text(cursor.key()));
        if (!revision) {
            return fail(Code::invalid, "a key of bucket \"key\" is no revision");
        }
        if (revision->main > to_revision_) {
            break;
        }
        CAPSTAN_TRY(add_base_entry(*revision, cursor.key(), cursor.value()));
        CAPSTAN_TRY(more, cursor.next());
    }
    revision_ = std::min(base_.revision, to_revision_);
    return ok();
}

Result<void> Replay::check(const DeltaEvent& event) {
    const Result<void> fits =
        event.deleted ? history_.check_erase(event.key)
                      : history_.check_put(
                            event.key, event.create_revision, event.mod_revision, event.version);
    if (fits) {
        return ok();
    }
    if (!unfit_accepted_) {
        return fail(with_context(fits.error(),
                                 "at revision " + std::to_string(event.mod_revision) +
                                     " it does not continue what is before it, so it belongs to "
                                     "another cluster or to another history"));
    }
    ++counts_.events_unfit;
    if (event.deleted) {
        history_.erase(event.key);
    } else {
        history_.put(event.key, event.create_revision, event.version);
    }
    return ok();
}

Result<void> Replay::add_event(const DeltaEvent& event) {
    const std::int64_t main = event.mod_revision;
    // Sub revisions count from 0 inside the revision that is being added.
    const bool same = main == revision_ && next_sub_ > 0;
    if ((main <= revision_ && !same) || main > to_revision_) {
        counts_.events_known += main <= to_revision_ ? 1 : 0;
        return ok();
    }
    if (!same && main != revision_ + 1) {
        return fail(Code::invalid, revisions(revision_ + 1, main - 1) + " missing before it");
    }
    next_sub_ = same ? next_sub_ : 0;
    revision_ = main;
    CAPSTAN_TRY(check(event));
    mvcc::KeyValue pair;
    pair.key = event.key;
    if (!event.deleted) {
        pair = {event.key, event.create_revision, main, event.version, event.value, event.lease};
        CAPSTAN_TRY(note_leases(event));
    }
    mvcc::encode_key_value(pair, message_);
    ++counts_.events;
    return write(mvcc::encode_revision({main, next_sub_++, event.deleted}), message_);
}

Result<bool> Replay::base_has_lease(const std::string& id) {
    const bolt::Bucket* bucket = find_bucket(base_, mvcc::kLeaseBucket);
    if (bucket == nullptr || leases_kept_.contains(id)) {
        return bucket != nullptr;
    }
    bolt::Cursor cursor(reader_, *bucket);
    CAPSTAN_TRY(const bool found, cursor.seek(bolt::bytes(id)));
    const bool kept = found && bolt::text(cursor.key()) == id;
    if (kept && leases_kept_.size() < kLeasesKeptMax) {
        leases_kept_.insert(id);
    }
    return kept;
}

// Of the keys of a lease only the first one in an object tells what it was granted.
Result<void> Replay::note_leases(const DeltaEvent& event) {
    for (const DeltaLease& lease : event.leases) {
        const std::string id = mvcc::encode_number(static_cast<std::uint64_t>(lease.id));
        CAPSTAN_TRY(const bool kept, base_has_lease(id));
        if (lease.id == 0 || kept || leases_.size() == kLeasesMax) {
            continue;
        }
        counts_.leases += leases_.emplace(id, lease.ttl_seconds).second ? 1u : 0u;
        if (const auto unknown = leases_unknown_.find(id); unknown != leases_unknown_.end()) {
            counts_.leases_unknown -= unknown->second;
            leases_unknown_.erase(unknown);
        }
    }
    if (event.lease == 0) {
        return ok();
    }
    const std::string id = mvcc::encode_number(static_cast<std::uint64_t>(event.lease));
    CAPSTAN_TRY(const bool kept, base_has_lease(id));
    if (!kept && !leases_.contains(id) && leases_unknown_.size() < kLeasesMax) {
        ++leases_unknown_[id];
        ++counts_.leases_unknown;
    }
    return ok();
}

// Those of the base as they are, and those that only deltas know.
Result<void> Replay::write_leases() {
    CAPSTAN_TRY(writer_->begin_bucket(mvcc::kLeaseBucket));
    auto next = leases_.begin();
    auto write_until = [&](std::string_view id) -> Result<void> {
        for (; next != leases_.end() && (id.empty() || next->first < id); ++next) {
            const auto number = mvcc::decode_number(next->first);
            CAPSTAN_TRY(write(
                next->first,
                mvcc::encode_lease({static_cast<std::int64_t>(number.value_or(0)), next->second})));
        }
        return ok();
    };
    if (const bolt::Bucket* bucket = find_bucket(base_, mvcc::kLeaseBucket)) {
        bolt::Cursor cursor(reader_, *bucket);
        CAPSTAN_TRY(bool more, cursor.first());
        while (more) {
            const std::string_view id = bolt::text(cursor.key());
            CAPSTAN_TRY(write_until(id));
            if (next != leases_.end() && next->first == id) {
                ++next;
            }
            CAPSTAN_TRY(write(id, bolt::text(cursor.value())));
            CAPSTAN_TRY(more, cursor.next());
        }
    }
    return write_until({});
}

Result<void> Replay::write_meta(const NewCluster* cluster) {
    auto meta = base_.meta;
    if (cluster != nullptr) {
        meta.insert_or_assign(std::string(mvcc::kConsistentIndex),
                              mvcc::encode_number(committed_index(*cluster)));
        meta.insert_or_assign(std::string(mvcc::kTerm), mvcc::encode_number(kFirstTerm));
        meta.insert_or_assign(std::string(mvcc::kConfState), conf_state_json(*cluster));
    }
    CAPSTAN_TRY(writer_->begin_bucket(mvcc::kMetaBucket));
    for (const auto& [name, value] : meta) {
        CAPSTAN_TRY(write(name, value));
    }
    return ok();
}

Result<void> Replay::write_members(const NewCluster& cluster) {
    std::map<std::string, std::string> members;
    for (const NewMember& member : cluster.members) {
        members.emplace(member.hex_id(), member.json());
    }
    CAPSTAN_TRY(writer_->begin_bucket(mvcc::kMembersBucket));
    for (const auto& [id, member] : members) {
        CAPSTAN_TRY(write(id, member));
    }
    return writer_->begin_bucket(mvcc::kMembersRemovedBucket);
}

Result<void> Replay::copy_bucket(const bolt::Bucket& bucket) {
    CAPSTAN_TRY(writer_->begin_bucket(bucket.name));
    bolt::Cursor cursor(reader_, bucket);
    CAPSTAN_TRY(bool more, cursor.first());
    while (more) {
        if (cursor.is_bucket()) {
            return fail(Code::invalid, "bucket " + bucket.name + " holds a bucket");
        }
        CAPSTAN_TRY(write(bolt::text(cursor.key()), bolt::text(cursor.value())));
        CAPSTAN_TRY(more, cursor.next());
    }
    return ok();
}

Result<void> Replay::finish(const NewCluster* cluster) {
    if (writer_ == nullptr) {
        return ok();
    }
    CAPSTAN_TRY(write_leases());
    CAPSTAN_TRY(write_meta(cluster));
    CAPSTAN_TRY(writer_->begin_bucket(mvcc::kAlarmBucket));
    if (cluster != nullptr) {
        CAPSTAN_TRY(write_members(*cluster));
    }
    for (const bolt::Bucket& bucket : base_.buckets) {
        const bool own = std::find(std::begin(kOwnBuckets), std::end(kOwnBuckets), bucket.name) !=
                         std::end(kOwnBuckets);
        if (!own && (cluster == nullptr || !is_membership(bucket.name))) {
            CAPSTAN_TRY(copy_bucket(bucket));
        }
    }
    return ok();
}

}  // namespace capstan::steward
