#include "plugins/steward-bridge/data/data_aside.hpp"

#include "plugins/steward-bridge/bolt/new_file.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace capstan::steward {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "member.damaged-";

std::string volume_of(const std::string& data_directory) {
    return fs::path(data_directory).parent_path().string();
}

// "2026-11-30T18:45:00Z" without what a file's name had better not hold.
std::string stamp(WallTime now) {
    std::string text = to_rfc3339(now);
    std::erase_if(text, [](char c) { return c == '-' || c == ':'; });
    return text;
}

}  // namespace

Result<std::string> move_aside(const std::string& data_directory, WallTime now) {
    const std::string from = data_directory + "/member";
    std::error_code error;
    if (!fs::exists(from, error)) {
        return std::string();
    }
    const std::string name = volume_of(data_directory) + "/" + std::string(kPrefix) + stamp(now);
    std::string to = name;
    for (int number = 1; fs::exists(to, error); ++number) {
        to = name + "-" + std::to_string(number);
    }
    fs::rename(from, to, error);
    if (error) {
        return fail(Code::unavailable,
                    "cannot move " + from + " to " + to + ": " + error.message());
    }
    CAPSTAN_TRY(bolt::sync_directory(data_directory));
    CAPSTAN_TRY(bolt::sync_directory(volume_of(data_directory)));
    return to;
}

std::vector<std::string> list_aside(const std::string& data_directory) {
    std::vector<std::string> found;
    std::error_code error;
    for (fs::directory_iterator at(volume_of(data_directory), error), end; !error && at != end;
         at.increment(error)) {
        if (at->path().filename().string().starts_with(kPrefix)) {
            found.push_back(at->path().string());
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

std::size_t remove_aside(const std::string& data_directory, std::size_t keep) {
    const std::vector<std::string> all = list_aside(data_directory);
    std::size_t removed = 0;
    for (std::size_t i = 0; i + keep < all.size(); ++i) {
        std::error_code error;
        fs::remove_all(all[i], error);
        removed += error ? 0u : 1u;
    }
    return removed;
}

std::uint64_t free_bytes(const std::string& data_directory) {
    struct statvfs info {};
    if (::statvfs(volume_of(data_directory).c_str(), &info) != 0) {
        return 0;
    }
    return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

}  // namespace capstan::steward
