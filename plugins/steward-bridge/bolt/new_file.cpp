#include "plugins/steward-bridge/bolt/new_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace capstan::steward::bolt {
namespace {

constexpr std::size_t kBufferBytes = 256 * 1024;

Error file_error(const std::string& path, int error) {
    return {code_of_errno(error),
            "cannot write " + path + ": " + std::strerror(error),
            std::chrono::milliseconds{0}};
}

// errno, or 0.
int write_all(int fd, const std::uint8_t* from, std::size_t count, off_t offset) {
    while (count > 0) {
        const ssize_t n = offset < 0 ? ::write(fd, from, count) : ::pwrite(fd, from, count, offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno;
        }
        from += n;
        count -= static_cast<std::size_t>(n);
        offset += offset < 0 ? 0 : n;
    }
    return 0;
}

}  // namespace

NewFile::NewFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {
    buffer_.reserve(kBufferBytes);
}

NewFile::~NewFile() {
    ::close(fd_);
}

Result<std::unique_ptr<NewFile>> NewFile::create(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return fail(file_error(path, errno));
    }
    // tidy: allow new, private constructor
    return std::unique_ptr<NewFile>(new NewFile(fd, path));
}

Error NewFile::failed(int error) const {
    return file_error(path_, error);
}

Result<void> NewFile::append(std::span<const std::uint8_t> bytes) {
    bytes_ += bytes.size();
    if (buffer_.size() + bytes.size() > kBufferBytes) {
        CAPSTAN_TRY(flush());
    }
    if (bytes.size() >= kBufferBytes) {
        const int error = write_all(fd_, bytes.data(), bytes.size(), -1);
        if (error != 0) {
            return fail(failed(error));
        }
        return ok();
    }
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return ok();
}

Result<void> NewFile::overwrite(std::uint64_t offset, std::span<const std::uint8_t> bytes) {
    CAPSTAN_TRY(flush());
    const int error = write_all(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (error != 0) {
        return fail(failed(error));
    }
    return ok();
}

Result<void> NewFile::flush() {
    const int error = write_all(fd_, buffer_.data(), buffer_.size(), -1);
    if (error != 0) {
        return fail(failed(error));
    }
    buffer_.clear();
    return ok();
}

Result<void> NewFile::sync() {
    CAPSTAN_TRY(flush());
    if (::fsync(fd_) != 0) {
        return fail(failed(errno));
    }
    return ok();
}

Code code_of_errno(int error) {
    switch (error) {
        case EEXIST: return Code::exists;
        case EFBIG:
        case ENOSPC:
        case EDQUOT: return Code::overloaded;
        default: return Code::unavailable;
    }
}

Result<void> sync_directory(const std::string& directory) {
    const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int error = fd < 0 || ::fsync(fd) != 0 ? errno : 0;
    if (fd >= 0) {
        ::close(fd);
    }
    if (error != 0) {
        return fail(file_error(directory, error));
    }
    return ok();
}

}  // namespace capstan::steward::bolt
