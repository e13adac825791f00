// A new file that is written front to back through one buffer. Thread: one at a time.
#pragma once

#include "capstan/error.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace capstan::steward::bolt {

class NewFile {
public:
    // Mode 0600. Errors: exists, unavailable (with path and reason).
    static Result<std::unique_ptr<NewFile>> create(const std::string& path);
    ~NewFile();
    NewFile(const NewFile&) = delete;
    NewFile& operator=(const NewFile&) = delete;

    Result<void> append(std::span<const std::uint8_t> bytes);
    // Over what is there already, in the first bytes appended.
    Result<void> overwrite(std::uint64_t offset, std::span<const std::uint8_t> bytes);
    // Readers of the file see everything that was appended.
    Result<void> flush();
    // Everything is on the disk; the name of a new file only once its directory is synced too.
    Result<void> sync();

    std::uint64_t bytes() const { return bytes_; }
    const std::string& path() const { return path_; }

private:
    NewFile(int fd, std::string path);
    Error failed(int error) const;

    const int fd_;
    const std::string path_;
    std::vector<std::uint8_t> buffer_;
    std::uint64_t bytes_{0};
};

// Makes names created, renamed or removed in `directory` durable.
// For a write that failed: overloaded when the disk or the quota is full, exists, unavailable.
Code code_of_errno(int error);

Result<void> sync_directory(const std::string& directory);

}  // namespace capstan::steward::bolt
