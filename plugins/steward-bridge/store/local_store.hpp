// Backups in a directory: the container is the directory, keys are paths below it.
//
// Unfinished files live in <directory>/.capstan-tmp, locked by their writer; what a dead process
// left there is removed at open. Symbolic links inside the container are neither followed nor
// listed. Directories are made with mode 0700, files with 0600.
#pragma once

#include "plugins/steward-bridge/store/file_descriptor.hpp"
#include "plugins/steward-bridge/store/store.hpp"

namespace capstan::steward {

struct LocalOptions {
    std::string directory;
    bool make_directory{false};  // else a missing one is not_found
};

class LocalStore final : public ObjectStore {
    struct Opening {};  // only open_directory() makes stores

public:
    LocalStore(Opening, std::string directory, FileDescriptor root)
        : directory_(std::move(directory)), root_(std::move(root)) {}
    // Errors: not_found, forbidden, invalid (no directory).
    static Result<std::unique_ptr<LocalStore>> open_directory(const LocalOptions& options);

    Result<void> list(std::string_view prefix,
                      const ListOptions& options,
                      const OnPage& on_page) override;
    Result<std::unique_ptr<Source>> open(const ObjectName& name, std::uint64_t offset) override;
    Result<std::unique_ptr<Sink>> create(const std::string& key,
                                         const CreateOptions& options) override;
    Result<std::string> put_if_absent(const std::string& key, std::string_view bytes) override;
    Result<std::string> put_if_match(const std::string& key,
                                     std::string_view bytes,
                                     const std::string& etag) override;
    Result<ObjectInfo> stat(const ObjectName& name) override;
    Result<void> remove(const ObjectName& name) override;
    Result<std::size_t> remove_unfinished(std::string_view, WallTime) override {
        return std::size_t{0};
    }
    Result<std::optional<std::chrono::days>> default_retention() override {
        return std::optional<std::chrono::days>();
    }
    std::string describe() const override { return "directory " + directory_; }

private:
    const std::string directory_;
    const FileDescriptor root_;
};

}  // namespace capstan::steward
