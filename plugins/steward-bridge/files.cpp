#include "plugins/steward-bridge/files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace capstan::steward {
namespace {

auto failed(int error, const std::string& what) {
    const bool absent = error == ENOENT || error == ENOTDIR;
    const bool full = error == ENOSPC || error == EDQUOT;
    return fail(absent ? Code::not_found
                : full ? Code::overloaded
                       : Code::unavailable,
                what + ": " + std::strerror(error));
}

// errno, or 0. What takes no more bytes without an error is full.
int write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t count = ::write(fd, text.data(), text.size());
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return count < 0 ? errno : ENOSPC;
        }
        text.remove_prefix(static_cast<std::size_t>(count));
    }
    return ::fsync(fd) == 0 ? 0 : errno;
}

// What was renamed in it is there after a power cut. errno, or 0.
int sync_directory_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int error = fd < 0 || ::fsync(fd) != 0 ? errno : 0;
    if (fd >= 0) {
        ::close(fd);
    }
    return error;
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return failed(errno, path);
    }
    std::string text;
    std::array<char, 16 * 1024> buffer;
    ssize_t count = 0;
    while (text.size() <= kFileBytesMax) {
        count = ::read(fd, buffer.data(), buffer.size());
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            break;
        }
        text.append(buffer.data(), static_cast<std::size_t>(count));
    }
    const int error = errno;
    ::close(fd);
    if (count < 0) {
        return failed(error, path);
    }
    if (text.size() > kFileBytesMax) {
        return fail(Code::too_large, path + " is over " + std::to_string(kFileBytesMax) + " bytes");
    }
    return text;
}

Result<void> write_file(const std::string& path, std::string_view text) {
    const std::string temporary = path + ".tmp";
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return failed(errno, "cannot write " + temporary);
    }
    const int error = write_all(fd, text);
    ::close(fd);
    if (error != 0) {
        return failed(error, "cannot write " + temporary);
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
        return failed(errno, "cannot replace " + path);
    }
    if (const int unsynced = sync_directory_of(path); unsynced != 0) {
        return failed(unsynced, "cannot write the directory of " + path);
    }
    return ok();
}

}  // namespace capstan::steward
