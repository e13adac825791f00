#include "launcher/files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace capstan::launcher {

void say(const std::string& text) {
    std::fprintf(stderr, "capstan-launcher: %s\n", text.c_str());
}

std::string read_small_file(const std::string& path) {
    std::string text;
    if (std::FILE* file = std::fopen(path.c_str(), "re")) {
        char buffer[4096];
        std::size_t count = 0;
        while (text.size() < 64 * 1024 &&
               (count = std::fread(buffer, 1, sizeof buffer, file)) > 0) {
            text.append(buffer, count);
        }
        std::fclose(file);
    }
    return text;
}

std::string write_file(const std::string& path, std::string_view text) {
    const std::string temporary = path + ".tmp";
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const bool written =
        fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
        ::fsync(fd) == 0;
    const int error = errno;
    if (fd >= 0) {
        ::close(fd);
    }
    if (!written || ::rename(temporary.c_str(), path.c_str()) != 0) {
        return "cannot write " + path + ": " + std::strerror(written ? errno : error);
    }
    return {};
}

}  // namespace capstan::launcher
