// What etcd keeps in its database: revisions and the values under them, leases, the names of
// buckets and of entries in `meta`. Thread: any (values).
#pragma once

#include "capstan/error.hpp"

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::steward::mvcc {

inline constexpr std::string_view kKeyBucket = "key";
inline constexpr std::string_view kLeaseBucket = "lease";
inline constexpr std::string_view kMetaBucket = "meta";
inline constexpr std::string_view kAlarmBucket = "alarm";
inline constexpr std::string_view kMembersBucket = "members";
inline constexpr std::string_view kMembersRemovedBucket = "members_removed";

inline constexpr std::string_view kConsistentIndex = "consistent_index";
inline constexpr std::string_view kTerm = "term";
inline constexpr std::string_view kConfState = "confState";
inline constexpr std::string_view kFinishedCompact = "finishedCompactRev";
inline constexpr std::string_view kScheduledCompact = "scheduledCompactRev";

// A key of the bucket `key`: main and sub revision, and whether it deletes.
struct Revision {
    std::int64_t main{0};
    std::int64_t sub{0};
    bool tombstone{false};

    friend auto operator<=>(const Revision&, const Revision&) = default;
};

inline constexpr std::size_t kRevisionBytes = 17;  // one more for a tombstone's "t"

// Nothing when it is no such key.
std::optional<Revision> decode_revision(std::string_view key);
std::string encode_revision(const Revision& revision);

// Entries of `meta` that hold a number are 8 bytes, big endian, or a revision's 17.
std::string encode_number(std::uint64_t value);
std::optional<std::uint64_t> decode_number(std::string_view bytes);  // exactly 8

// mvccpb.KeyValue. Borrowed from the message, or from what is to be encoded.
struct KeyValue {
    std::string_view key;
    std::int64_t create_revision{0};
    std::int64_t mod_revision{0};
    std::int64_t version{0};
    std::string_view value;
    std::int64_t lease{0};
};

// Unknown fields are passed over. Errors: invalid.
Result<KeyValue> decode_key_value(std::string_view message);
void encode_key_value(const KeyValue& from, std::string& to);  // replaces `to`

// leasepb.Lease.
struct Lease {
    std::int64_t id{0};
    std::int64_t ttl_seconds{0};
};
std::string encode_lease(const Lease& lease);

}  // namespace capstan::steward::mvcc
