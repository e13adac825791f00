// etcd's write-ahead log and .snap files, read only: are they whole, whose are they, how far do
// they go.
//
// Files are named by sequence and first index; each is a row of frames (8 bytes length, padding in
// the top byte) with records under one running CRC-32C. What a crash leaves at the end of the last
// file, a frame that is cut off or holds sectors of zeros, is no damage: etcd cuts it off. Memory:
// one record. Thread: any.
#pragma once

#include "capstan/error.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace capstan::steward {

inline constexpr std::uint64_t kWalRecordBytesMax = 512u * 1024 * 1024;
inline constexpr std::size_t kSnapFileBytesMax = 256u * 1024 * 1024;

struct WalMark {
    std::uint64_t index{0}, term{0};
    friend bool operator==(const WalMark&, const WalMark&) = default;
};

struct WalFacts {
    std::uint64_t member_id{0}, cluster_id{0};
    std::uint64_t first_index{0};  // of the first file read, by its name
    std::uint64_t last_index{0};   // of the last whole entry
    std::uint64_t commit{0};
    std::vector<WalMark> marks;  // of snapshots, in order
    bool torn{false};            // the end was cut off by a crash
};

struct WalFile {
    std::string name;
    std::uint64_t sequence{0}, first_index{0};
};

// By sequence; other names are passed over. Errors: not_found, unavailable.
Result<std::vector<WalFile>> list_wal(const std::string& directory);

// From the last file that may hold what follows `from_index`; 0: all of them. Errors: invalid
// (names file and offset), not_found (no log), unavailable.
Result<WalFacts> read_wal(const std::string& directory, std::uint64_t from_index);

// The .snap files by term and index of their names, newest first.
struct SnapFile {
    std::string name;
    WalMark mark;
};
Result<std::vector<SnapFile>> list_snaps(const std::string& directory);
// Checksum, and that the content is of that term and index. Errors: invalid, unavailable.
Result<void> check_snap(const std::string& directory, const SnapFile& file);

}  // namespace capstan::steward
