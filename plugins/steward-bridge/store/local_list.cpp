#include "plugins/steward-bridge/store/local_list.hpp"

#include "plugins/steward-bridge/store/local_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace capstan::steward::local {
namespace {

struct Entry {
    std::string name;  // folders end in "/", so that names sort as keys do
    struct stat info {};
};

int duplicate(int fd) {
    return ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

// Plain files and folders of one folder, sorted. Takes the descriptor.
Result<std::vector<Entry>> entries_of(int fd, const std::string& shown) {
    DIR* const folder = ::fdopendir(fd);
    if (folder == nullptr) {
        const int number = errno;
        ::close(fd);
        return fail(file_error(number, "list " + shown));
    }
    std::vector<Entry> out;
    errno = 0;
    while (const dirent* const item = ::readdir(folder)) {
        Entry entry{item->d_name, {}};
        if (entry.name == "." || entry.name == "..") {
            continue;
        }
        if (::fstatat(fd, item->d_name, &entry.info, AT_SYMLINK_NOFOLLOW) == 0) {
            if (S_ISDIR(entry.info.st_mode)) {
                entry.name += '/';
            }
            if (S_ISDIR(entry.info.st_mode) || S_ISREG(entry.info.st_mode)) {
                out.push_back(std::move(entry));
            }
        }
        errno = 0;
    }
    const int number = errno;
    ::closedir(folder);
    if (number != 0) {
        return fail(file_error(number, "list " + shown));
    }
    std::sort(
        out.begin(), out.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return out;
}

class Lister {
public:
    Lister(const std::string& directory, std::size_t page_keys, const OnPage& on_page)
        : directory_(directory),
          page_keys_(std::max<std::size_t>(page_keys, 1)),
          on_page_(on_page) {}

    // `fd` is taken. False: enough.
    Result<bool> walk(int fd, const std::string& prefix, int depth) {
        const std::string shown = directory_ + "/" + prefix;
        const FileDescriptor folder(fd);
        CAPSTAN_TRY(const std::vector<Entry> entries, entries_of(duplicate(fd), shown));
        for (const Entry& entry : entries) {
            if (!entry.name.ends_with('/')) {
                CAPSTAN_TRY(const bool more, add(prefix + entry.name, entry.info));
                if (!more) {
                    return false;
                }
                continue;
            }
            if (prefix.empty() && entry.name == std::string(kUnfinishedFolder) + "/") {
                continue;
            }
            if (depth >= kFolderDepthMax) {
                return fail(Code::invalid, "list " + shown + entry.name + ": over 32 folders deep");
            }
            CAPSTAN_TRY(const bool more, enter(folder.get(), entry.name, prefix, depth));
            if (!more) {
                return false;
            }
        }
        return true;
    }
    Result<void> finish() {
        if (!page_.empty()) {
            CAPSTAN_TRY(on_page_(page_));
        }
        return ok();
    }

private:
    Result<bool> enter(int parent, const std::string& name, const std::string& prefix, int depth) {
        const std::string plain = name.substr(0, name.size() - 1);
        const int fd =
            ::openat(parent, plain.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
            return true;
        }
        if (fd < 0) {
            return fail(file_error(errno, "list " + directory_ + "/" + prefix + plain));
        }
        return walk(fd, prefix + name, depth + 1);
    }
    Result<bool> add(std::string key, const struct stat& info) {
        ObjectInfo object;
        object.key = std::move(key);
        object.bytes = static_cast<std::uint64_t>(info.st_size);
        object.etag = etag_of(info);
        object.modified = modified_of(info);
        page_.push_back(std::move(object));
        if (page_.size() < page_keys_) {
            return true;
        }
        auto more = on_page_(page_);
        page_.clear();
        return more;
    }

    const std::string& directory_;
    const std::size_t page_keys_;
    const OnPage& on_page_;
    std::vector<ObjectInfo> page_;
};

}  // namespace

Result<void> list_files(int root,
                        const std::string& directory,
                        std::string_view prefix,
                        std::size_t page_keys,
                        const OnPage& on_page) {
    std::string folder_key(prefix);
    if (!folder_key.empty()) {
        CAPSTAN_TRY(check_key(folder_key));
        folder_key += '/';
    }
    auto place = find_place(root, directory + "/" + folder_key, folder_key, false);
    if (!place && place.error().code == Code::not_found) {
        return ok();
    }
    if (!place) {
        return fail(place.error());
    }
    // A descriptor of its own: reading a folder moves a position that copies share.
    const int fd = ::openat(place.value().folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return fail(file_error(errno, "list " + directory + "/" + folder_key));
    }
    Lister lister(directory, page_keys, on_page);
    CAPSTAN_TRY(const bool complete, lister.walk(fd, folder_key, 1));
    return complete ? lister.finish() : Result<void>(ok());
}

int remove_leftovers(int root) {
    FileDescriptor folder(
        ::openat(root, kUnfinishedFolder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    const int copy = folder.valid() ? duplicate(folder.get()) : -1;
    const auto entries = copy < 0 ? Result<std::vector<Entry>>(std::vector<Entry>())
                                  : entries_of(copy, kUnfinishedFolder);
    int removed = 0;
    for (const Entry& entry : entries ? entries.value() : std::vector<Entry>()) {
        const FileDescriptor file(
            ::openat(folder.get(), entry.name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
        // Whoever still writes it holds its lock.
        if (entry.name.starts_with("part.") && file.valid() &&
            ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 &&
            ::unlinkat(folder.get(), entry.name.c_str(), 0) == 0) {
            ++removed;
        }
    }
    return removed;
}

}  // namespace capstan::steward::local
