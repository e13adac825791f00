// A snapshot as its object's key tells it, and back.
//
//     <prefix>/v2/Full-00000000-00000027-1796003195.gz.final
//     <prefix>/v1/Backup-1796003195/Incr-00000028-00000040-1796003200
//
// Kind, first and last revision, second of creation, compression, and whether the source was closed
// with it. Keys that could be read in two ways are refused, with the reason; nothing that any known
// writer makes is among them. Thread: any (values).
#pragma once

#include "plugins/steward-bridge/snapshot/compression.hpp"

#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::steward {

enum class SnapshotKind : std::uint8_t { full, delta };

struct SnapshotRecord {
    SnapshotKind kind{SnapshotKind::full};
    std::string prefix;  // up to and with "v1/" or "v2/"; empty on one not listed yet
    std::string dir;     // "" in layout v2, "Backup-<second>" in v1
    std::string name;    // with "/<number>" for a part
    Compression compression{Compression::none};
    std::int64_t start_revision{0};  // 0 for a full
    std::int64_t last_revision{0};   // of a full: a lower bound of what is inside
    WallTime created{};
    std::optional<WallTime> immutable_until;
    std::optional<std::string> version_id;  // of the object, where the store has versions
    bool part{false};                       // of an upload in pieces (Google, Swift)
    bool final{false};                      // the source was closed after it
    std::uint64_t bytes{0};                 // as stored; 0: not known

    std::string key() const;  // prefix, dir and name
    // The time of the lock is over, or there never was one.
    bool deletable(WallTime now) const { return !immutable_until || now > *immutable_until; }

    friend bool operator==(const SnapshotRecord&, const SnapshotRecord&) = default;
};

// The name a snapshot of these facts is stored under; `record.name` is not looked at.
std::string snapshot_name(const SnapshotRecord& record);

// The name a copy gets: the store it goes to is not closed. Equal names are the same snapshot.
std::string name_of_copy(const SnapshotRecord& record);

// Errors: invalid, one clause that says why the key is no snapshot, to stand after the key.
Result<SnapshotRecord> parse_snapshot_key(std::string_view key);

// The record as the HTTP API shows it, members in the order clients know.
json::Value to_json(const SnapshotRecord& record);

// RFC 3339 with nanoseconds, zeros at the end left out: "2026-11-30T01:45:50.7Z".
std::string to_rfc3339_nano(WallTime time);

// An object as a store lists it.
struct ListedObject {
    std::string key;
    std::uint64_t bytes{0};
    std::optional<WallTime> immutable_until;
    std::optional<std::string> version_id;
};

struct SkippedKey {
    std::string key;
    std::string reason;
    // What a name promises that is right but for a suffix nobody here knows; 0 otherwise, and for
    // what uploads leave behind (.tmp, .part, .partial).
    std::int64_t last_revision{0};
    WallTime created{};  // likewise
};

// Keeps deltas that start at one revision from being written twice.
struct Fence {
    std::string key;
    std::int64_t start_revision{0};
    std::string version{};  // empty where the store has none
    std::optional<WallTime> immutable_until{};

    bool deletable(WallTime now) const { return !immutable_until || now > *immutable_until; }
};

// Where one history of a cluster ends and the next begins: what was created before `since` is of an
// earlier one. Written when etcd stands before what is stored, so after a rollback.
struct HistoryMark {
    std::string key;
    std::int64_t revision{0};  // etcd's at that time
    WallTime since{};          // whole seconds; above the times of all that was stored then
    std::string version{};     // empty where the store has none
    std::optional<WallTime> immutable_until{};

    std::string name() const { return key.substr(key.rfind('/') + 1); }
    bool deletable(WallTime now) const { return !immutable_until || now > *immutable_until; }
};

// What a listing of a prefix holds.
struct SnapshotListing {
    std::vector<SnapshotRecord> snapshots;  // without parts, ordered by before()
    std::vector<SnapshotRecord> parts;      // ordered by before()
    std::vector<Fence> fences;
    std::vector<HistoryMark> marks;   // ordered by time
    std::vector<SkippedKey> skipped;  // everything else, with the reason
};
SnapshotListing read_listing(const std::vector<ListedObject>& objects);

// By last revision, whole objects before parts, then by time; the rest (a full after deltas, then
// by key) only makes the order total.
bool before(const SnapshotRecord& a, const SnapshotRecord& b);

// The key of a fence; `prefix` is the store's, without the layout.
std::string fence_key(std::string_view prefix, std::int64_t start_revision);
// Likewise of a mark: "<prefix>/capstan/history-1000-1796003195".
std::string history_key(std::string_view prefix, std::int64_t revision, WallTime since);

}  // namespace capstan::steward
