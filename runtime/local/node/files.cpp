#include "runtime/local/node/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace capstan::local {
namespace {

Result<void> write_all(int fd, const std::string& path, std::string_view bytes) {
    while (!bytes.empty()) {
        const auto n = ::write(fd, bytes.data(), bytes.size());
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return fail(file_error("write", path, errno));
        }
        bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return ok();
}

}  // namespace

Error file_error(std::string_view action, const std::string& path, int system_error) {
    std::string text = std::string(action) + " " + path + ": " + std::strerror(system_error);
    if (system_error == ENOSPC || system_error == EDQUOT) {
        text += "; free some space";
    } else if (system_error == EACCES || system_error == EPERM || system_error == EROFS) {
        text += "; make it writable for this user or choose another --dir";
    }
    return Error{system_error == ENOENT ? Code::not_found : Code::unavailable, std::move(text), {}};
}

Result<void> write_file(const std::string& path, std::string_view bytes, mode_t mode) {
    const std::string beside = path + ".tmp";
    const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0) {
        return fail(file_error("create", beside, errno));
    }
    ::fchmod(fd, mode);
    auto written = write_all(fd, beside, bytes);
    if (::close(fd) != 0 && written.has_value()) {
        written = fail(file_error("write", beside, errno));
    }
    if (written.has_value() && ::rename(beside.c_str(), path.c_str()) != 0) {
        written = fail(file_error("rename", path, errno));
    }
    if (!written.has_value()) {
        ::unlink(beside.c_str());
    }
    return written;
}

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail(file_error("read", path, errno));
    }
    std::string text;
    char buffer[16 * 1024];
    while (true) {
        const auto n = ::read(fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            auto error = file_error("read", path, errno);
            ::close(fd);
            return fail(std::move(error));
        }
        if (n == 0) {
            break;
        }
        text.append(buffer, static_cast<std::size_t>(n));
        if (text.size() > bytes_max) {
            ::close(fd);
            return fail(Code::too_large,
                        "read " + path + ": larger than " + std::to_string(bytes_max) + " bytes");
        }
    }
    ::close(fd);
    return text;
}

Result<void> make_dirs(const std::string& path) {
    for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
        const std::string part = path.substr(0, slash);
        if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
            return fail(Code::unavailable, file_error("create directory", part, errno).message);
        }
        if (slash == std::string::npos) {
            break;
        }
    }
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
        return fail(Code::unavailable, "create directory " + path + ": a file is in its place");
    }
    return ok();
}

Result<void> remove_tree(const std::string& path) {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) {
        return fail(file_error("remove", path, error.value()));
    }
    return ok();
}

std::vector<std::string> list_dir(const std::string& path) {
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator it(path, error);
    for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
        names.push_back(it->path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace capstan::local
