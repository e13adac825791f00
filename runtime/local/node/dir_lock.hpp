// One node per directory: an flock on a file that names its holder, kept as long as this object.
#pragma once

#include "capstan/error.hpp"

#include <string>
#include <utility>

namespace capstan::local {

class DirLock {
public:
    // Errors: conflict (another process holds it; names its pid), unavailable. Blocks up to 0.2 s.
    static Result<DirLock> take(const std::string& path);
    DirLock(DirLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    DirLock& operator=(DirLock&&) = delete;
    ~DirLock();

private:
    explicit DirLock(int fd) : fd_(fd) {}
    int fd_;
};

}  // namespace capstan::local
