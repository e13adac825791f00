#include "plugins/steward-bridge/commands/progress.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <span>
#include <utility>

namespace capstan::steward {

// Counts what is read of one object.
class ObservedSource final : public Source {
public:
    ObservedSource(std::unique_ptr<Source> from, ObservedObjects& objects)
        : from_(std::move(from)), objects_(objects) {}

    Result<std::size_t> read(std::span<std::uint8_t> into) override {
        auto count = from_->read(into);
        if (count) {
            objects_.progress_.add_bytes(count.value());
        } else {
            objects_.error_ = count.error();
        }
        return count;
    }

private:
    const std::unique_ptr<Source> from_;
    ObservedObjects& objects_;
};

Progress::Progress(CommandCall& command, std::optional<bool> wanted)
    : command_(command),
      wanted_(wanted.value_or(command.is_terminal(CAPSTAN_STDERR))),
      on_terminal_(command.is_terminal(CAPSTAN_STDERR)) {}

void Progress::begin_object(std::string_view what, std::string_view key) {
    what_ = what;
    key_ = key.substr(key.rfind('/') + 1);
    ++objects_;
    show();
}

void Progress::add_bytes(std::uint64_t count) {
    bytes_ += count;
    show();
}

void Progress::show() {
    if (!wanted_ || command_.call().now() < next_) {
        return;
    }
    next_ = command_.call().now();
    next_ += on_terminal_ ? MonotonicTime(kOnTerminalEvery) : MonotonicTime(kInLinesEvery);
    std::string line =
        what_ + " object " + std::to_string(objects_) + ", " + size_text(bytes_) + ": " + key_;
    if (on_terminal_ && command_.columns() > 1) {
        line.resize(std::min<std::size_t>(line.size(), command_.columns() - 1));
    }
    command_.complain(on_terminal_ ? "\r\x1b[K" + line : line + "\n");
    shown_ = true;
}

void Progress::clear() {
    if (shown_ && on_terminal_) {
        command_.complain("\r\x1b[K");
    }
    shown_ = false;
}

Result<std::unique_ptr<Source>> ObservedObjects::open(const SnapshotRecord& record) {
    progress_.begin_object("reading", record.key());
    auto source = objects_.open(record);
    if (!source) {
        error_ = source.error();
        return source;
    }
    return std::unique_ptr<Source>(
        std::make_unique<ObservedSource>(std::move(source).value(), *this));
}

std::string size_text(std::uint64_t bytes) {
    constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes < 1024) {
        return std::to_string(bytes) + " B";
    }
    double size = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    while (size >= 1024 && unit + 1 < std::size(kUnits)) {
        size /= 1024;
        ++unit;
    }
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %s", size, kUnits[unit]);
    return text;
}

}  // namespace capstan::steward
