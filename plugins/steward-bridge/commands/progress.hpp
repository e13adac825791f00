// How far a command is, on standard error: one line that is written over on a terminal, else a line
// every two seconds. Thread: one.
#pragma once

#include "plugins/steward-bridge/restore/restoration.hpp"
#include "plugins/steward-bridge/stream/stream.hpp"

#include "capstan/cli.hpp"
#include "capstan/clock.hpp"
#include "capstan/error.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::steward {

inline constexpr std::chrono::milliseconds kOnTerminalEvery{200};
inline constexpr std::chrono::seconds kInLinesEvery{2};

class Progress {
public:
    // `wanted`: nothing means on a terminal only.
    Progress(CommandCall& command, std::optional<bool> wanted);
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void begin_object(std::string_view what, std::string_view key);
    void add_bytes(std::uint64_t count);
    // Takes the line off the terminal, before anything else is written there.
    void clear();

private:
    void show();

    CommandCall& command_;
    const bool wanted_, on_terminal_;
    MonotonicTime next_{0};
    std::string what_, key_;
    std::uint64_t objects_{0}, bytes_{0};
    bool shown_{false};
};

// Objects of a store that tell how far reading is, and whether it was the store that failed.
class ObservedObjects final : public SnapshotObjects {
public:
    ObservedObjects(SnapshotObjects& objects, Progress& progress)
        : objects_(objects), progress_(progress) {}

    Result<std::unique_ptr<Source>> open(const SnapshotRecord& record) override;
    // The last error of opening or reading an object.
    const std::optional<Error>& error() const noexcept { return error_; }

private:
    friend class ObservedSource;
    SnapshotObjects& objects_;
    Progress& progress_;
    std::optional<Error> error_;
};

// "12.3 MiB"
std::string size_text(std::uint64_t bytes);

}  // namespace capstan::steward
