#include "plugins/steward-bridge/store/local_store.hpp"

#include "plugins/steward-bridge/store/local_files.hpp"
#include "plugins/steward-bridge/store/local_list.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace capstan::steward {
namespace {

class LocalSource final : public Source {
public:
    LocalSource(FileDescriptor file, std::string shown)
        : file_(std::move(file)), shown_(std::move(shown)) {}

    Result<std::size_t> read(std::span<std::uint8_t> into) override {
        while (true) {
            const ssize_t n = ::read(file_.get(), into.data(), into.size());
            if (n >= 0) {
                return static_cast<std::size_t>(n);
            }
            if (errno != EINTR) {
                return fail(local::file_error(errno, "read " + shown_));
            }
        }
    }

private:
    const FileDescriptor file_;
    const std::string shown_;
};

class LocalSink final : public Sink {
public:
    LocalSink(local::Unfinished file, int root, std::string key, bool if_absent)
        : file_(std::move(file)), root_(root), key_(std::move(key)), if_absent_(if_absent) {}

    Result<void> write(std::span<const std::uint8_t> bytes) override {
        auto written = file_.write(bytes);
        broken_ = broken_ || !written;
        return written;
    }
    Result<void> finish() override {
        if (broken_) {
            return fail(Code::unavailable, key_ + " was not written whole, so it is not published");
        }
        CAPSTAN_TRY(file_.publish(root_, key_, if_absent_));
        return ok();
    }

private:
    local::Unfinished file_;
    const int root_;
    const std::string key_;
    const bool if_absent_;
    bool broken_{false};
};

Result<void> make_folders(const std::string& path) {
    for (std::size_t slash = path.find('/', 1); true; slash = path.find('/', slash + 1)) {
        const std::string part = path.substr(0, slash);
        if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
            return fail(local::file_error(errno, "make directory " + part));
        }
        if (slash == std::string::npos) {
            return ok();
        }
    }
}

}  // namespace

Result<std::unique_ptr<LocalStore>> LocalStore::open_directory(const LocalOptions& options) {
    const std::string& directory = options.directory;
    if (directory.empty()) {
        return fail(Code::invalid, "the container of a Local store is a directory; none is named");
    }
    if (options.make_directory) {
        CAPSTAN_TRY(make_folders(directory));
    }
    FileDescriptor root(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root.valid() && errno == ENOTDIR) {
        return fail(Code::invalid, directory + " is no directory; a Local store needs one");
    }
    if (!root.valid()) {
        return fail(local::file_error(errno, "open directory " + directory));
    }
    local::remove_leftovers(root.get());
    return std::unique_ptr<LocalStore>(
        std::make_unique<LocalStore>(Opening{}, directory, std::move(root)));
}

Result<void> LocalStore::list(std::string_view prefix,
                              const ListOptions& options,
                              const OnPage& on_page) {
    return local::list_files(root_.get(), directory_, prefix, options.page_keys, on_page);
}

Result<std::unique_ptr<Source>> LocalStore::open(const ObjectName& name, std::uint64_t offset) {
    CAPSTAN_TRY(check_key(name.key));
    const std::string shown = directory_ + "/" + name.key;
    CAPSTAN_TRY(const local::Place place, local::find_place(root_.get(), shown, name.key, false));
    struct stat info {};
    CAPSTAN_TRY(FileDescriptor file, local::open_file(place, shown, info));
    if (offset > static_cast<std::uint64_t>(info.st_size)) {
        return fail(Code::invalid,
                    "read " + shown + " from " + std::to_string(offset) + ": it has only " +
                        std::to_string(info.st_size) + " bytes");
    }
    if (::lseek(file.get(), static_cast<off_t>(offset), SEEK_SET) < 0) {
        return fail(local::file_error(errno, "read " + shown));
    }
    return std::unique_ptr<Source>(std::make_unique<LocalSource>(std::move(file), shown));
}

Result<std::unique_ptr<Sink>> LocalStore::create(const std::string& key,
                                                 const CreateOptions& options) {
    CAPSTAN_TRY(check_key(key));
    CAPSTAN_TRY(auto file, local::Unfinished::make(root_.get(), directory_));
    return std::unique_ptr<Sink>(
        std::make_unique<LocalSink>(std::move(file), root_.get(), key, options.if_absent));
}

Result<std::string> LocalStore::put_if_absent(const std::string& key, std::string_view bytes) {
    CAPSTAN_TRY(check_key(key));
    CAPSTAN_TRY(auto file, local::Unfinished::make(root_.get(), directory_));
    CAPSTAN_TRY(file.write(bytes_of(bytes)));
    return file.publish(root_.get(), key, true);
}

Result<std::string> LocalStore::put_if_match(const std::string& key,
                                             std::string_view bytes,
                                             const std::string& etag) {
    CAPSTAN_TRY(check_key(key));
    CAPSTAN_TRY(const FileDescriptor lock, local::lock_replacing(root_.get(), directory_));
    CAPSTAN_TRY(const ObjectInfo now, stat({key}));
    if (now.etag != etag) {
        return fail(Code::conflict, directory_ + "/" + key + " was replaced by somebody else");
    }
    CAPSTAN_TRY(auto file, local::Unfinished::make(root_.get(), directory_));
    CAPSTAN_TRY(file.write(bytes_of(bytes)));
    return file.publish(root_.get(), key, false);
}

Result<ObjectInfo> LocalStore::stat(const ObjectName& name) {
    CAPSTAN_TRY(check_key(name.key));
    const std::string shown = directory_ + "/" + name.key;
    CAPSTAN_TRY(const local::Place place, local::find_place(root_.get(), shown, name.key, false));
    struct stat info {};
    CAPSTAN_TRY(const FileDescriptor file, local::open_file(place, shown, info));
    ObjectInfo out;
    out.key = name.key;
    out.bytes = static_cast<std::uint64_t>(info.st_size);
    out.etag = local::etag_of(info);
    out.modified = local::modified_of(info);
    return out;
}

Result<void> LocalStore::remove(const ObjectName& name) {
    CAPSTAN_TRY(check_key(name.key));
    const std::string shown = directory_ + "/" + name.key;
    const auto place = local::find_place(root_.get(), shown, name.key, false);
    if (!place && place.error().code == Code::not_found) {
        return ok();
    }
    if (!place) {
        return fail(place.error());
    }
    const int folder = place.value().folder.get();
    if (::unlinkat(folder, place.value().leaf.c_str(), 0) != 0) {
        return errno == ENOENT ? Result<void>(ok())
                               : Result<void>(fail(local::file_error(errno, "remove " + shown)));
    }
    if (::fsync(folder) != 0) {
        return fail(local::file_error(errno, "make the removal of " + shown + " durable"));
    }
    // A folder that is empty now goes too; one that is not stays, and a writer makes it again.
    const std::size_t slash = name.key.rfind('/');
    if (slash != std::string::npos) {
        const auto parent = local::find_place(root_.get(), shown, name.key.substr(0, slash), false);
        if (parent) {
            ::unlinkat(parent.value().folder.get(), parent.value().leaf.c_str(), AT_REMOVEDIR);
        }
    }
    return ok();
}

}  // namespace capstan::steward
