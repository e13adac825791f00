#include "plugins/steward-bridge/restore/sorted_runs.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <queue>
#include <utility>

namespace capstan::steward {
namespace {

constexpr std::size_t kRecordsMin = 1024;
constexpr std::size_t kReadRecords = 2048;  // per run, 48 KiB

std::span<const std::uint8_t> as_bytes(const std::vector<KeyRecord>& records) {
    return {reinterpret_cast<const std::uint8_t*>(records.data()),
            records.size() * sizeof(KeyRecord)};
}

struct Closer {
    const int fd;
    ~Closer() { ::close(fd); }
};

}  // namespace

SortedRuns::SortedRuns(std::string path, std::size_t memory_bytes)
    : path_(std::move(path)),
      records_max_(std::max(kRecordsMin, memory_bytes / sizeof(KeyRecord))) {}

SortedRuns::~SortedRuns() {
    if (file_) {
        ::unlink(path_.c_str());
    }
}

Result<void> SortedRuns::add(const KeyRecord& record) {
    if (records_.size() == records_max_) {
        CAPSTAN_TRY(write_run());
    }
    records_.push_back(record);
    return ok();
}

Result<void> SortedRuns::write_run() {
    if (!file_) {
        CAPSTAN_TRY(file_, bolt::NewFile::create(path_));
    }
    std::sort(records_.begin(), records_.end());
    CAPSTAN_TRY(file_->append(as_bytes(records_)));
    ends_.push_back(file_->bytes() / sizeof(KeyRecord));
    records_.clear();
    return ok();
}

Result<void> SortedRuns::for_each(const std::function<void(const KeyRecord&)>& visit) {
    if (!file_) {
        std::sort(records_.begin(), records_.end());
        std::for_each(records_.begin(), records_.end(), visit);
        return ok();
    }
    CAPSTAN_TRY(write_run());
    records_ = {};  // its memory is the buffers' now
    CAPSTAN_TRY(file_->sync());
    return merge(visit);
}

Result<bool> SortedRuns::fill(int fd, Run& run) const {
    const std::uint64_t count = std::min<std::uint64_t>(kReadRecords, run.end - run.at);
    run.buffer.resize(count);
    run.next = 0;
    auto* into = reinterpret_cast<std::uint8_t*>(run.buffer.data());
    std::size_t missing = count * sizeof(KeyRecord);
    off_t offset = static_cast<off_t>(run.at * sizeof(KeyRecord));
    while (missing > 0) {
        const ssize_t n = ::pread(fd, into, missing, offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return fail(Code::unavailable,
                        "cannot read " + path_ + ": " +
                            (n < 0 ? std::strerror(errno) : "it became shorter"));
        }
        into += n;
        missing -= static_cast<std::size_t>(n);
        offset += n;
    }
    run.at += count;
    return count > 0;
}

Result<void> SortedRuns::merge(const std::function<void(const KeyRecord&)>& visit) {
    const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail(Code::unavailable, "cannot read " + path_ + ": " + std::strerror(errno));
    }
    const Closer closer{fd};
    std::vector<Run> runs;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
        runs.push_back({i == 0 ? 0 : ends_[i - 1], ends_[i], {}, 0});
    }
    using Head = std::pair<KeyRecord, std::size_t>;
    std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
    for (std::size_t i = 0; i < runs.size(); ++i) {
        CAPSTAN_TRY(const bool any, fill(fd, runs[i]));
        if (any) {
            heads.emplace(runs[i].buffer[0], i);
        }
    }
    while (!heads.empty()) {
        const auto [record, i] = heads.top();
        heads.pop();
        visit(record);
        Run& run = runs[i];
        if (++run.next == run.buffer.size()) {
            CAPSTAN_TRY(const bool more, fill(fd, run));
            if (!more) {
                continue;
            }
        }
        heads.emplace(run.buffer[run.next], i);
    }
    return ok();
}

}  // namespace capstan::steward
