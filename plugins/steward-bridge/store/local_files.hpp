// What the local store does with files: one door to each system call, errors with a remedy.
#pragma once

#include "plugins/steward-bridge/store/file_descriptor.hpp"
#include "plugins/steward-bridge/store/store.hpp"

#include <sys/stat.h>

#include <string>
#include <string_view>

namespace capstan::steward::local {

inline constexpr const char* kUnfinishedFolder = ".capstan-tmp";
inline constexpr int kFolderDepthMax = 32;

// `number`: errno. `what`: "write /backups/a". ENOSPC and EDQUOT are overloaded, EROFS and EACCES
// forbidden. `fd`: of any file beside it, so that a full disk can be told with its bytes.
Error file_error(int number, const std::string& what, int fd = -1);

// The folder that `key` lies in, step by step without following links; `leaf`: its last part.
struct Place {
    FileDescriptor folder;
    std::string leaf;
};
// `make`: missing folders are made, durably. Errors: not_found, invalid (a link on the way).
Result<Place> find_place(int root, const std::string& shown, std::string_view key, bool make);

// An open regular file. `shown`: its path for messages.
Result<FileDescriptor> open_file(const Place& place, const std::string& shown, struct stat& info);
std::string etag_of(const struct stat& info);
WallTime modified_of(const struct stat& info);

// A file in the folder of unfinished ones, locked; gone with this object unless it was published.
class Unfinished {
public:
    static Result<Unfinished> make(int root, const std::string& directory);
    Unfinished(Unfinished&& other) noexcept;
    Unfinished& operator=(Unfinished&&) = delete;
    ~Unfinished();

    Result<void> write(std::span<const std::uint8_t> bytes);
    // Durable under `key` afterwards. Errors: exists (`if_absent`).
    Result<std::string> publish(int root, const std::string& key, bool if_absent);
    const std::string& shown() const noexcept { return shown_; }

private:
    Unfinished(FileDescriptor folder, FileDescriptor file, std::string name, std::string directory)
        : folder_(std::move(folder)),
          file_(std::move(file)),
          name_(std::move(name)),
          directory_(std::move(directory)),
          shown_(directory_ + "/" + kUnfinishedFolder + "/" + name_) {}
    Result<bool> move_to(const Place& place, const std::string& target, bool if_absent);
    FileDescriptor folder_, file_;
    std::string name_;  // empty: no longer ours
    std::string directory_, shown_;
};

// Removes what no living process is writing; how many files.
int remove_leftovers(int root);

// Keeps other replacers out while it lives. Errors: conflict (somebody else is in).
Result<FileDescriptor> lock_replacing(int root, const std::string& directory);

}  // namespace capstan::steward::local
