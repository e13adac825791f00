#include "runtime/local/node/dir_lock.hpp"

#include "runtime/local/node/files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <cerrno>

namespace capstan::local {

Result<DirLock> DirLock::take(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return fail(Code::unavailable, file_error("open", path, errno).message);
    }
    // A child of the node before us may hold a copy for the instant between
    // fork and its first close.
    for (int tries = 0; ::flock(fd, LOCK_EX | LOCK_NB) != 0; ++tries) {
        if (tries == 20) {
            const auto holder = read_file(path);
            ::close(fd);
            return fail(Code::conflict,
                        "another node (pid " + (holder.has_value() ? holder.value() : "?") +
                            ") holds " + path + "; stop it or choose another --dir");
        }
        ::usleep(10'000);
    }
    const auto pid = std::to_string(::getpid());
    [[maybe_unused]] const int cut = ::ftruncate(fd, 0);
    [[maybe_unused]] const auto written = ::pwrite(fd, pid.data(), pid.size(), 0);
    return DirLock(fd);
}

DirLock::~DirLock() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

}  // namespace capstan::local
