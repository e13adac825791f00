#include "plugins/steward-bridge/data/data_aside.hpp"

#include "plugins/steward-bridge/bolt/new_file.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
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

// The clock may have been set back meanwhile, so the time in a name is not all: of two with the
// same one the higher number is newer, and no new name is older than the newest there.
struct Aside {
    std::string time;
    unsigned long number{0};
    auto operator<=>(const Aside&) const = default;

    std::string name() const {
        return std::string(kPrefix) + time + (number == 0 ? "" : "-" + std::to_string(number));
    }
};

Aside parse_aside(std::string_view name) {
    name.remove_prefix(kPrefix.size());
    const std::size_t dash = std::min(name.find('-'), name.size());
    Aside aside{std::string(name.substr(0, dash)), 0};
    const std::string_view digits = name.substr(std::min(dash + 1, name.size()));
    std::from_chars(digits.data(), digits.data() + digits.size(), aside.number);
    return aside;
}

}  // namespace

Result<std::string> move_aside(const std::string& data_directory, WallTime now) {
    const std::string from = data_directory + "/member";
    std::error_code error;
    if (!fs::exists(from, error)) {
        return error ? Result<std::string>(
                           Error{Code::unavailable, from + ": " + error.message(), {}})
                     : Result<std::string>(std::string());
    }
    Aside aside{stamp(now), 0};
    if (const auto all = list_aside(data_directory); !all.empty()) {
        Aside newest = parse_aside(fs::path(all.back()).filename().string());
        ++newest.number;
        aside = std::max(aside, newest);
    }
    const std::string to = volume_of(data_directory) + "/" + aside.name();
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
    std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
        return parse_aside(a.filename().string()) < parse_aside(b.filename().string());
    });
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
