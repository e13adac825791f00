#include "plugins/steward-bridge/restore/dump.hpp"

#include "plugins/steward-bridge/restore/chain_reader.hpp"
#include "plugins/steward-bridge/stream/base64.hpp"

#include <unistd.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace capstan::steward {
namespace {

// Of a key beside its own bytes, in a hash table.
constexpr std::size_t kEntryBytes = 64;

// Key -> the entry of the bucket `key` that holds its value.
using LiveEntries = std::unordered_map<std::string, mvcc::Revision>;

Result<LiveEntries> find_live(bolt::Reader& reader, const bolt::Bucket& keys) {
    LiveEntries live;
    std::size_t bytes = 0;
    bolt::Cursor cursor(reader, keys);
    CAPSTAN_TRY(bool more, cursor.first());
    while (more) {
        const auto revision = mvcc::decode_revision(bolt::text(cursor.key()));
        if (!revision) {
            return fail(Code::invalid, "a key of bucket \"key\" is no revision");
        }
        CAPSTAN_TRY(const mvcc::KeyValue pair, mvcc::decode_key_value(bolt::text(cursor.value())));
        std::string key(pair.key);
        const std::size_t own = key.size() + kEntryBytes;
        if (revision->tombstone) {
            bytes -= live.erase(key) > 0 ? own : 0;
        } else if (live.insert_or_assign(std::move(key), *revision).second) {
            bytes += own;
        }
        if (bytes > kDumpKeyBytesMax) {
            return fail(Code::too_large,
                        "the keys need more than " + std::to_string(kDumpKeyBytesMax) +
                            " bytes; restore the backup and list them with etcdctl");
        }
        CAPSTAN_TRY(more, cursor.next());
    }
    return live;
}

void append_number(std::string& json, std::string_view name, std::int64_t value) {
    if (value != 0) {
        json += ",\"";
        json += name;
        json += "\":" + std::to_string(value);
    }
}

std::string to_json(const mvcc::KeyValue& pair) {
    std::string json = "{\"key\":\"";
    append_base64(json, pair.key);
    json += '"';
    append_number(json, "create_revision", pair.create_revision);
    append_number(json, "mod_revision", pair.mod_revision);
    append_number(json, "version", pair.version);
    if (!pair.value.empty()) {
        json += ",\"value\":\"";
        append_base64(json, pair.value);
        json += '"';
    }
    append_number(json, "lease", pair.lease);
    return json + "}";
}

Result<void> write_json(const std::string& database, std::int64_t revision, Sink& to) {
    CAPSTAN_TRY(const auto reader, bolt::Reader::open(database));
    CAPSTAN_TRY(const BaseFacts base, read_base(*reader));
    const bolt::Bucket& keys = *find_bucket(base, mvcc::kKeyBucket);
    CAPSTAN_TRY(const LiveEntries live, find_live(*reader, keys));
    std::vector<const LiveEntries::value_type*> sorted;
    sorted.reserve(live.size());
    for (const auto& entry : live) {
        sorted.push_back(&entry);
    }
    std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
        return a->first < b->first;
    });
    std::string json = "{\"revision\":" + std::to_string(revision) +
                       ",\"count\":" + std::to_string(live.size()) + ",\"kvs\":[";
    bolt::Cursor cursor(*reader, keys);
    for (const auto* entry : sorted) {
        CAPSTAN_TRY(const bool found,
                    cursor.seek(bolt::bytes(mvcc::encode_revision(entry->second))));
        CAPSTAN_CHECK(found, "an entry that was there is gone");
        CAPSTAN_TRY(const mvcc::KeyValue pair, mvcc::decode_key_value(bolt::text(cursor.value())));
        json += entry == sorted.front() ? "" : ",";
        json += to_json(pair);
        CAPSTAN_TRY(to.write(bolt::bytes(json)));
        json.clear();
    }
    json += "]}\n";
    CAPSTAN_TRY(to.write(bolt::bytes(json)));
    return to.finish();
}

}  // namespace

Result<RestoreReport> dump(const SnapshotListing& listing,
                           SnapshotObjects& objects,
                           Digests& digests,
                           Sink& to,
                           const RestoreOptions& options) {
    const std::string database = options.work_directory + ".whole.db";
    ::unlink(database.c_str());  // of a run that was killed
    RestoreReport report;
    {
        ChainReader reader(listing, objects, digests, options);
        CAPSTAN_TRY(report, reader.run(database, nullptr));
    }
    const Result<void> written = write_json(database, report.revision, to);
    ::unlink(database.c_str());
    if (!written) {
        return fail(written.error());
    }
    return report;
}

}  // namespace capstan::steward
