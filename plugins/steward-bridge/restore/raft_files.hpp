// The write-ahead log and the snapshot file of a cluster that starts anew: each member added by one
// entry, all of them committed in term 1, a snapshot right after them.
//
// Log: frames of 8 bytes length (little endian; the top byte tells the padding to 8 bytes) and a
// record with a running CRC-32C. Snapshot: the same checksum over one message. Thread: any.
#pragma once

#include "plugins/steward-bridge/restore/cluster.hpp"

#include "capstan/error.hpp"

#include <cstdint>
#include <string>

namespace capstan::steward {

inline constexpr std::uint64_t kFirstTerm = 1;

// Index of the last entry: one per member.
std::uint64_t committed_index(const NewCluster& cluster);

// As `meta` keeps it: {"voters":[…],"auto_leave":false}.
std::string conf_state_json(const NewCluster& cluster);

std::string encode_log(const NewCluster& cluster);
std::string encode_snapshot(const NewCluster& cluster);

// Both files below `member_directory` (…/member), whose parts wal and snap exist; durable.
// Errors: exists, unavailable.
Result<void> write_raft_files(const std::string& member_directory, const NewCluster& cluster);

}  // namespace capstan::steward
