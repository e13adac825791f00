// A database without the revisions a compaction would remove: of every key up to the compact
// revision only the newest stays, and none of a key that is deleted there.
//
// Reads the bucket `key` twice. Memory: one bit per revision and `memory_bytes` for sorting, runs
// on disk beyond that. Thread: one at a time.
#pragma once

#include "capstan/error.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace capstan::steward {

inline constexpr std::size_t kCompactionMemoryBytes = std::size_t{128} << 20;

struct CompactionResult {
    std::uint64_t entries_before{0};
    std::uint64_t entries{0};
    std::uint64_t bytes{0};  // of the new database
};

// `from` is a database of etcd; `to` must not exist, and `to` + ".runs" neither. `revision`: at
// most the newest inside. Everything but the removed revisions is copied; `meta` says that history
// begins after `revision`. Errors: invalid (damage), exists, unavailable.
Result<CompactionResult> compact_database(const std::string& from,
                                          const std::string& to,
                                          std::int64_t revision,
                                          std::size_t memory_bytes = kCompactionMemoryBytes);

}  // namespace capstan::steward
