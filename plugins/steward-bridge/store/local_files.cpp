#include "plugins/steward-bridge/store/local_files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace capstan::steward::local {
namespace {

constexpr int kNamesMax = 100;     // tries for a free name of an unfinished file
constexpr int kPublishTries = 20;  // a folder may be removed between finding and using it
constexpr const char* kReplaceLock = "replace.lock";

auto failed(int number, const std::string& what, int fd = -1) {
    return fail(file_error(number, what, fd));
}

// "the disk of the backup store is full, 0 of 1048576 bytes are free"
std::string full_disk(int fd) {
    const std::string full = "the disk of the backup store is full";
    struct statvfs info {};
    if (fd < 0 || ::fstatvfs(fd, &info) != 0) {
        return full;
    }
    const auto bytes = [&info](std::uint64_t blocks) {
        return std::to_string(blocks * info.f_frsize);
    };
    const bool no_files = info.f_files > 0 && info.f_favail == 0;
    return full + ", " + bytes(info.f_bavail) + " of " + bytes(info.f_blocks) + " bytes are free" +
           (no_files ? " and no further file can be made" : "");
}

Result<FileDescriptor> open_folder(int parent, const std::string& name, bool make) {
    constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = ::openat(parent, name.c_str(), flags);
    if (fd < 0 && errno == ENOENT && make) {
        if (::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) {
            return failed(errno, "make folder " + name, parent);
        }
        if (::fsync(parent) != 0) {
            return failed(errno, "make folder " + name + " durable", parent);
        }
        fd = ::openat(parent, name.c_str(), flags);
    }
    struct stat info {};
    if (fd < 0 && errno == ENOTDIR && !make &&
        ::fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode)) {
        return fail(Code::not_found, "\"" + name + "\" is an object, nothing is below it");
    }
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) {
        return fail(Code::invalid,
                    "\"" + name +
                        "\" is a link or no folder, and links inside the container are not "
                        "followed; put a folder there");
    }
    if (fd < 0) {
        return failed(errno, "open folder " + name);
    }
    return FileDescriptor(fd);
}

}  // namespace

Error file_error(int number, const std::string& what, int fd) {
    const auto error = [&what](Code code, const std::string& why) {
        return Error{code, what + ": " + why, {}};
    };
    switch (number) {
        case ENOENT: return error(Code::not_found, "no such file or folder");
        case EACCES:
        case EPERM:
            return error(Code::forbidden,
                         "permission denied; user " + std::to_string(::geteuid()) +
                             " needs the right to read and write there");
        case EROFS:
            return error(Code::forbidden, "the file system is read-only; mount it writable");
        case ENOSPC:
            return error(Code::overloaded,
                         full_disk(fd) + "; free space there, or enlarge the volume");
        case EDQUOT:
            return error(Code::overloaded, "the quota is used up; free space or raise the quota");
        case EFBIG:
            return error(Code::too_large,
                         "the file would be over the size limit of this process or file system");
        case EIO: return error(Code::unavailable, "input/output error; check the disk");
        case EXDEV:
            return error(Code::invalid,
                         "another file system is mounted inside the container; use one for all");
        default: return error(Code::unavailable, std::strerror(number));
    }
}

Result<Place> find_place(int root, const std::string& shown, std::string_view key, bool make) {
    const int copy = ::fcntl(root, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) {
        return failed(errno, "open " + shown);
    }
    Place place{FileDescriptor(copy), {}};
    int depth = 0;
    while (true) {
        const std::size_t slash = key.find('/');
        if (slash == std::string_view::npos) {
            place.leaf = key;
            return place;
        }
        if (++depth > kFolderDepthMax) {
            return fail(Code::invalid, shown + ": over 32 folders deep");
        }
        auto next = open_folder(place.folder.get(), std::string(key.substr(0, slash)), make);
        if (!next) {
            return fail(with_context(next.error(), shown));
        }
        place.folder = std::move(next).value();
        key.remove_prefix(slash + 1);
    }
}

Result<FileDescriptor> open_file(const Place& place, const std::string& shown, struct stat& info) {
    // O_NONBLOCK: a pipe somebody put there must not stop us.
    FileDescriptor file(::openat(
        place.folder.get(), place.leaf.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file.valid() && errno != ELOOP) {
        return failed(errno, "open " + shown);
    }
    if (!file.valid() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
        return fail(Code::invalid,
                    "open " + shown +
                        ": a link, a folder or a special file; the store keeps plain files only");
    }
    return file;
}

std::string etag_of(const struct stat& info) {
    return std::to_string(info.st_ino) + "-" + std::to_string(info.st_mtim.tv_sec) + "." +
           std::to_string(info.st_mtim.tv_nsec) + "-" + std::to_string(info.st_size);
}

WallTime modified_of(const struct stat& info) {
    return WallTime(std::chrono::seconds(info.st_mtim.tv_sec) +
                    std::chrono::nanoseconds(info.st_mtim.tv_nsec));
}

Result<Unfinished> Unfinished::make(int root, const std::string& directory) {
    auto folder = open_folder(root, kUnfinishedFolder, true);
    if (!folder) {
        return fail(with_context(folder.error(), directory));
    }
    for (int attempt = 0; attempt < kNamesMax; ++attempt) {
        const std::string name =
            "part." + std::to_string(::getpid()) + "." + std::to_string(attempt);
        FileDescriptor file(::openat(folder.value().get(),
                                     name.c_str(),
                                     O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                     0600));
        if (!file.valid() && errno != EEXIST) {
            return failed(errno, "make a file in " + directory + "/" + kUnfinishedFolder, root);
        }
        // Taken: somebody cleans up and saw the file before its lock. A file system without locks
        // is cleaned by nobody.
        if (file.valid() && (::flock(file.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)) {
            return Unfinished(std::move(folder).value(), std::move(file), name, directory);
        }
    }
    return fail(Code::unavailable, "no name is free in " + directory + "/" + kUnfinishedFolder);
}

Unfinished::Unfinished(Unfinished&& other) noexcept
    : folder_(std::move(other.folder_)),
      file_(std::move(other.file_)),
      name_(std::exchange(other.name_, {})),
      directory_(std::move(other.directory_)),
      shown_(std::move(other.shown_)) {}

Unfinished::~Unfinished() {
    if (!name_.empty()) {
        ::unlinkat(folder_.get(), name_.c_str(), 0);
    }
}

Result<void> Unfinished::write(std::span<const std::uint8_t> bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(file_.get(), bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return failed(n < 0 ? errno : ENOSPC, "write " + shown_, file_.get());
        }
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return ok();
}

// False: the folder is gone.
Result<bool> Unfinished::move_to(const Place& place, const std::string& target, bool if_absent) {
    const int from = folder_.get();
    const int to = place.folder.get();
    int rc = 0;
    if (if_absent) {
        rc = ::linkat(from, name_.c_str(), to, place.leaf.c_str(), 0);
        if (rc != 0 && (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS)) {
            // A file system without hard links.
            rc = ::renameat2(from, name_.c_str(), to, place.leaf.c_str(), RENAME_NOREPLACE);
        } else if (rc == 0) {
            ::unlinkat(from, name_.c_str(), 0);
        }
    } else {
        rc = ::renameat(from, name_.c_str(), to, place.leaf.c_str());
    }
    if (rc != 0 && errno == ENOENT) {
        return false;
    }
    if (rc != 0 && errno == EEXIST) {
        return fail(Code::exists, target + " is there already");
    }
    if (rc != 0) {
        return failed(errno, "publish " + target, to);
    }
    name_.clear();
    return true;
}

Result<std::string> Unfinished::publish(int root, const std::string& key, bool if_absent) {
    const std::string target = directory_ + "/" + key;
    struct stat info {};
    if (::fsync(file_.get()) != 0 || ::fstat(file_.get(), &info) != 0) {
        return failed(errno, "make durable " + shown_, file_.get());
    }
    for (int attempt = 0; attempt < kPublishTries; ++attempt) {
        const auto place = find_place(root, target, key, true);
        if (!place && place.error().code != Code::not_found) {
            return fail(place.error());
        }
        bool moved = false;
        if (place) {
            CAPSTAN_TRY(moved, move_to(place.value(), target, if_absent));
        }
        if (moved) {
            if (::fsync(place.value().folder.get()) != 0) {
                return failed(errno, "make durable the folder of " + target, root);
            }
            return etag_of(info);
        }
    }
    return fail(Code::unavailable, "publish " + target + ": its folder keeps disappearing");
}

Result<FileDescriptor> lock_replacing(int root, const std::string& directory) {
    CAPSTAN_TRY(const FileDescriptor folder, open_folder(root, kUnfinishedFolder, true));
    FileDescriptor file(
        ::openat(folder.get(), kReplaceLock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.valid()) {
        return failed(
            errno, "open " + directory + "/" + kUnfinishedFolder + "/" + kReplaceLock, root);
    }
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) {
            return failed(errno, "lock " + directory + "/" + kUnfinishedFolder);
        }
        return fail(Code::conflict, directory + ": another process is replacing an object");
    }
    return file;
}

}  // namespace capstan::steward::local
