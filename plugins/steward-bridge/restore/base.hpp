// What is to be known of a full snapshot's database before anything is done with it. Thread: any.
#pragma once

#include "plugins/steward-bridge/bolt/reader.hpp"
#include "plugins/steward-bridge/restore/mvcc.hpp"

#include "capstan/error.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace capstan::steward {

struct BaseFacts {
    std::vector<bolt::Bucket> buckets;
    std::map<std::string, std::string, std::less<>> meta;
    // The newest revision inside: of the last entry, or of a later compaction that removed it.
    std::int64_t revision{1};
    std::int64_t compacted{0};  // history may begin after it: of a compaction, finished or not
};

// Errors: invalid (damage, or not a database of etcd), with the page.
Result<BaseFacts> read_base(bolt::Reader& reader);

// Nothing when there is no bucket of that name.
const bolt::Bucket* find_bucket(const BaseFacts& base, std::string_view name);

}  // namespace capstan::steward
