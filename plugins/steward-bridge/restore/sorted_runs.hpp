// Sorts more records than fit into memory: runs are sorted in memory and wait in one file, then all
// of them are merged. What fits never touches the disk. Thread: one at a time.
#pragma once

#include "plugins/steward-bridge/bolt/new_file.hpp"

#include "capstan/error.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace capstan::steward {

// A key's entry number `entry` of the bucket, in the order of revisions.
struct KeyRecord {
    std::array<std::uint64_t, 2> key_hash{};
    std::uint64_t entry{0};

    friend auto operator<=>(const KeyRecord&, const KeyRecord&) = default;
};

class SortedRuns {
public:
    // `path`: a file to be made when memory does not do, removed at the end.
    SortedRuns(std::string path, std::size_t memory_bytes);
    ~SortedRuns();
    SortedRuns(const SortedRuns&) = delete;
    SortedRuns& operator=(const SortedRuns&) = delete;

    // Errors: unavailable (disk).
    Result<void> add(const KeyRecord& record);

    // All records in rising order; once, nothing after it.
    Result<void> for_each(const std::function<void(const KeyRecord&)>& visit);

    std::size_t runs() const { return ends_.size(); }  // on disk

private:
    struct Run {
        std::uint64_t at{0}, end{0};  // in records
        std::vector<KeyRecord> buffer;
        std::size_t next{0};
    };

    Result<void> write_run();
    Result<bool> fill(int fd, Run& run) const;
    Result<void> merge(const std::function<void(const KeyRecord&)>& visit);

    const std::string path_;
    const std::size_t records_max_;
    std::vector<KeyRecord> records_;
    std::unique_ptr<bolt::NewFile> file_;
    std::vector<std::uint64_t> ends_;  // of the runs, in records
};

}  // namespace capstan::steward
