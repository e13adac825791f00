// A plugin file opened for checking: one descriptor, so that what is checked is
// what is copied. Internal.
#pragma once

#include "runtime/plugin/elf_reader.hpp"

#include <memory>
#include <string>
#include <vector>

namespace capstan::plugin {

class PluginFile final : public ByteSource {
public:
    // Regular file, no symbolic link as its last part. Errors: not_found, invalid, unavailable; one
    // sentence without the path.
    static Result<std::unique_ptr<PluginFile>> open(const std::string& path);
    ~PluginFile() override;
    PluginFile(const PluginFile&) = delete;
    PluginFile& operator=(const PluginFile&) = delete;

    std::uint64_t size() const noexcept override { return size_; }
    Result<void> read_at(std::uint64_t offset, std::span<std::byte> out) const override;

    Result<std::string> sha256_hex() const;  // of the bytes as they are now
    // Writes a copy to `path` (temporary file, fsync, rename) and returns the
    // digest of what was written.
    Result<std::string> copy_to(const std::string& path) const;
    std::uint32_t mode() const noexcept { return mode_; }

private:
    PluginFile(int descriptor, std::uint64_t size, std::uint32_t mode) noexcept
        : descriptor_(descriptor), size_(size), mode_(mode) {}
    int descriptor_;
    std::uint64_t size_;
    std::uint32_t mode_;
};

// Reasons why somebody else could change the file: it, or the directory it lies in, is writable by
// everyone. A sticky directory such as /tmp counts as writable.
std::vector<std::string> permission_problems(const PluginFile& file, const std::string& path);

}  // namespace capstan::plugin
