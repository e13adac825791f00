#include "plugins/steward-bridge/restore/base.hpp"

#include <algorithm>

namespace capstan::steward {
namespace {

// etcd writes seven entries.
constexpr std::size_t kMetaEntriesMax = 1000;

std::int64_t meta_revision(const BaseFacts& base, std::string_view name) {
    const auto found = base.meta.find(name);
    if (found == base.meta.end()) {
        return 0;
    }
    const auto revision = mvcc::decode_revision(found->second);
    return revision ? revision->main : 0;
}

Result<void> read_meta(bolt::Reader& reader, BaseFacts& base) {
    const bolt::Bucket* bucket = find_bucket(base, mvcc::kMetaBucket);
    if (bucket == nullptr) {
        return ok();
    }
    bolt::Cursor cursor(reader, *bucket);
    CAPSTAN_TRY(bool more, cursor.first());
    while (more) {
        if (base.meta.size() == kMetaEntriesMax) {
            return fail(Code::invalid, "bucket meta holds too many entries");
        }
        base.meta.emplace(bolt::text(cursor.key()), bolt::text(cursor.value()));
        CAPSTAN_TRY(more, cursor.next());
    }
    return ok();
}

}  // namespace

const bolt::Bucket* find_bucket(const BaseFacts& base, std::string_view name) {
    const auto found = std::find_if(base.buckets.begin(),
                                    base.buckets.end(),
                                    [&](const bolt::Bucket& each) { return each.name == name; });
    return found == base.buckets.end() ? nullptr : &*found;
}

Result<BaseFacts> read_base(bolt::Reader& reader) {
    BaseFacts base;
    CAPSTAN_TRY(base.buckets, reader.buckets());
    CAPSTAN_TRY(read_meta(reader, base));
    const bolt::Bucket* keys = find_bucket(base, mvcc::kKeyBucket);
    if (keys == nullptr) {
        return fail(Code::invalid, "there is no bucket \"key\": not a database of etcd");
    }
    bolt::Cursor cursor(reader, *keys);
    CAPSTAN_TRY(const bool any, cursor.last());
    if (any) {
        const auto last = mvcc::decode_revision(bolt::text(cursor.key()));
        if (!last) {
            return fail(Code::invalid, "the last key of bucket \"key\" is no revision");
        }
        base.revision = std::max(base.revision, last->main);
    }
    base.compacted = std::max(meta_revision(base, mvcc::kFinishedCompact),
                              meta_revision(base, mvcc::kScheduledCompact));
    base.revision = std::max(base.revision, base.compacted);
    return base;
}

}  // namespace capstan::steward
