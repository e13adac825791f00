#include "plugins/steward-bridge/restore/compaction.hpp"

#include "plugins/steward-bridge/bolt/reader.hpp"
#include "plugins/steward-bridge/bolt/writer.hpp"
#include "plugins/steward-bridge/restore/base.hpp"
#include "plugins/steward-bridge/restore/key_hash.hpp"
#include "plugins/steward-bridge/restore/mvcc.hpp"
#include "plugins/steward-bridge/restore/sorted_runs.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace capstan::steward {
namespace {

Result<mvcc::Revision> revision_at(const bolt::Cursor& cursor) {
    const auto revision = mvcc::decode_revision(bolt::text(cursor.key()));
    if (!revision) {
        return fail(Code::invalid, "a key of bucket \"key\" is no revision");
    }
    return *revision;
}

// By entry of the bucket `key`: whether it stays. Entries above `revision` are not in it.
struct Survivors {
    std::vector<bool> stays;
};

// The last entry of each key, unless it deletes the key.
Result<Survivors> find_survivors(bolt::Reader& reader,
                                 const bolt::Bucket& keys,
                                 std::int64_t revision,
                                 SortedRuns& records) {
    const KeyHash hash;
    std::vector<bool> deletes;
    bolt::Cursor cursor(reader, keys);
    CAPSTAN_TRY(bool more, cursor.first());
    while (more) {
        CAPSTAN_TRY(const mvcc::Revision at, revision_at(cursor));
        if (at.main > revision) {
            break;
        }
        CAPSTAN_TRY(const mvcc::KeyValue pair, mvcc::decode_key_value(bolt::text(cursor.value())));
        CAPSTAN_TRY(records.add({hash.wide(pair.key), deletes.size()}));
        deletes.push_back(at.tombstone);
        CAPSTAN_TRY(more, cursor.next());
    }
    Survivors survivors;
    survivors.stays.resize(deletes.size());
    std::optional<KeyRecord> previous;
    const auto settle = [&] {
        if (previous && !deletes[previous->entry]) {
            survivors.stays[previous->entry] = true;
        }
    };
    CAPSTAN_TRY(records.for_each([&](const KeyRecord& record) {
        if (previous && previous->key_hash != record.key_hash) {
            settle();
        }
        previous = record;
    }));
    settle();
    return survivors;
}

Result<void> copy_keys(bolt::Reader& reader,
                       const bolt::Bucket& keys,
                       const Survivors& survivors,
                       bolt::Writer& writer,
                       CompactionResult& result) {
    bolt::Cursor cursor(reader, keys);
    CAPSTAN_TRY(bool more, cursor.first());
    for (std::size_t entry = 0; more; ++entry) {
        if (entry >= survivors.stays.size() || survivors.stays[entry]) {
            CAPSTAN_TRY(writer.put(cursor.key(), cursor.value()));
            ++result.entries;
        }
        ++result.entries_before;
        CAPSTAN_TRY(more, cursor.next());
    }
    return ok();
}

Result<void> copy_meta(BaseFacts& base, std::int64_t revision, bolt::Writer& writer) {
    const std::string compacted = mvcc::encode_revision({revision, 0, false});
    base.meta.insert_or_assign(std::string(mvcc::kFinishedCompact), compacted);
    base.meta.insert_or_assign(std::string(mvcc::kScheduledCompact), compacted);
    for (const auto& [name, value] : base.meta) {
        CAPSTAN_TRY(writer.put(bolt::bytes(name), bolt::bytes(value)));
    }
    return ok();
}

Result<void> copy_bucket(bolt::Reader& reader, const bolt::Bucket& bucket, bolt::Writer& writer) {
    bolt::Cursor cursor(reader, bucket);
    CAPSTAN_TRY(bool more, cursor.first());
    while (more) {
        CAPSTAN_TRY(writer.put(cursor.key(), cursor.value()));
        CAPSTAN_TRY(more, cursor.next());
    }
    return ok();
}

}  // namespace

Result<CompactionResult> compact_database(const std::string& from,
                                          const std::string& to,
                                          std::int64_t revision,
                                          std::size_t memory_bytes) {
    CAPSTAN_TRY(const auto reader, bolt::Reader::open(from));
    CAPSTAN_TRY(BaseFacts base, read_base(*reader));
    if (revision > base.revision) {
        return fail(Code::invalid,
                    "it cannot be compacted to revision " + std::to_string(revision) +
                        ", it ends at " + std::to_string(base.revision));
    }
    revision = std::max(revision, base.compacted);
    CAPSTAN_TRY(const auto writer, bolt::Writer::create(to, reader->page_size()));
    CompactionResult result;
    bool meta_written = false;
    for (const bolt::Bucket& bucket : base.buckets) {
        CAPSTAN_TRY(writer->begin_bucket(bucket.name));
        if (bucket.name == mvcc::kKeyBucket) {
            SortedRuns records(to + ".runs", memory_bytes);
            CAPSTAN_TRY(const Survivors survivors,
                        find_survivors(*reader, bucket, revision, records));
            CAPSTAN_TRY(copy_keys(*reader, bucket, survivors, *writer, result));
        } else if (bucket.name == mvcc::kMetaBucket) {
            CAPSTAN_TRY(copy_meta(base, revision, *writer));
            meta_written = true;
        } else {
            CAPSTAN_TRY(copy_bucket(*reader, bucket, *writer));
        }
    }
    if (!meta_written) {
        CAPSTAN_TRY(writer->begin_bucket(mvcc::kMetaBucket));
        CAPSTAN_TRY(copy_meta(base, revision, *writer));
    }
    CAPSTAN_TRY(writer->finish());
    result.bytes = writer->bytes();
    return result;
}

}  // namespace capstan::steward
