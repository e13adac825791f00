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
    return fail(error == ENOENT ? Code::not_found : Code::unavailable,
                what + ": " + std::strerror(error));
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
    while ((count = ::read(fd, buffer.data(), buffer.size())) > 0 && text.size() <= kFileBytesMax) {
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
    const bool written =
        ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
        ::fsync(fd) == 0;
    const int error = errno;
    ::close(fd);
    if (!written) {
        return failed(error, "cannot write " + temporary);
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
        return failed(errno, "cannot replace " + path);
    }
    return ok();
}

}  // namespace capstan::steward
