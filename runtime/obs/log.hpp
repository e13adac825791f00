// Logs: one JSON line per event on stderr, written by a handle that is passed down.
//
//     obs::Log log = root.with({{"controller", "etcd/etcd"}});
//     log.info("created object", {{"namespace", ns}, {"name", name}, {"attempt", 3}});
//
// The message is a constant; what varies goes into fields, whose keys are listed in
// docs/operations.md. Never log secrets, bodies or tokens. error: a human must act; warn: degraded,
// self-healing; info: a state change; debug: per request. Repeats are held back and counted
// ("repeats": n on the next line that passes). A line is valid JSON and at most kLineBytesMax
// bytes: long texts are cut, further fields dropped and "truncated": true added.
// Thread: any; copies share one core, which lives as long as the last copy.
#pragma once

#include "capstan/clock.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace capstan::obs {

inline constexpr std::size_t kLineBytesMax = 8 * 1024;
inline constexpr std::size_t kTextBytesMax = 2 * 1024;  // of a message or of one text field

enum class Level : std::uint8_t { debug, info, warn, error };
std::string_view to_string(Level level) noexcept;
// "debug", "info", "warn", "error"
std::optional<Level> parse_level(std::string_view text) noexcept;

// One key and its value; texts are borrowed for the call.
struct Field {
    using Value = std::variant<std::string_view, std::int64_t, double, bool>;

    Field(std::string_view k, std::string_view v) noexcept : key(k), value(v) {}
    Field(std::string_view k, const std::string& v) noexcept : key(k), value(std::string_view(v)) {}
    Field(std::string_view k, const char* v) noexcept : key(k), value(std::string_view(v)) {}
    Field(std::string_view k, bool v) noexcept : key(k), value(v) {}
    Field(std::string_view k, double v) noexcept : key(k), value(v) {}
    template <std::integral I>
        requires(!std::same_as<I, bool>)
    Field(std::string_view k, I v) noexcept : key(k), value(static_cast<std::int64_t>(v)) {}

    std::string_view key;
    Value value;
};
using Fields = std::initializer_list<Field>;

struct LogOptions {
    // lines below it are dropped before they are formatted
    Level level{Level::info};
    std::size_t identical_max{5};       // equal lines (time aside) per window
    std::size_t same_message_max{200};  // lines of one level and message per window
    std::chrono::seconds repeat_window{10};
};

class Log {
public:
    // Gets whole lines without the newline, one at a time.
    using Sink = std::function<void(std::string_view line)>;

    Log() noexcept = default;  // drops everything
    // clock: borrowed, outlives every copy
    Log(const Clock& clock, Sink sink, const LogOptions& options = {});
    // Costs nobody's time when stderr is not read: line_writer.hpp.
    static Log to_stderr(const Clock& clock, const LogOptions& options = {});

    // A handle that writes `fields` on each of its lines, after those of *this.
    Log with(Fields fields) const;
    // Affects every copy of this log.
    void set_level(Level level) const noexcept;
    bool enabled(Level level) const noexcept;

    void debug(std::string_view message, Fields fields = {}) const {
        write(Level::debug, message, fields);
    }
    void info(std::string_view message, Fields fields = {}) const {
        write(Level::info, message, fields);
    }
    void warn(std::string_view message, Fields fields = {}) const {
        write(Level::warn, message, fields);
    }
    void error(std::string_view message, Fields fields = {}) const {
        write(Level::error, message, fields);
    }
    void write(Level level, std::string_view message, Fields fields = {}) const {
        write(level, message, fields.begin(), fields.size());
    }
    // For callers whose fields are not written in place (plugins).
    void write(Level level, std::string_view message, const Field* fields, std::size_t count) const;

    // Writes what was held back and counted so far, and what waits for the reader of stderr if it
    // reads within a second. Call once before the process ends.
    void flush() const;

private:
    struct Core;
    // shared: handles are copied into every part; the core is the sink they share
    std::shared_ptr<Core> core_;
    std::string fixed_;  // fields of with(), already encoded: ,"key":value…
};

// Keeps lines for assertions. Thread: any.
class LogCapture {
public:
    LogCapture();
    Log::Sink sink() const;
    std::vector<std::string> lines() const;
    // True when some line contains every one of `parts`.
    bool contains(std::initializer_list<std::string_view> parts) const;
    std::size_t count(std::string_view part) const;  // lines that contain it
    void clear();

private:
    struct State;
    std::shared_ptr<State> state_;  // shared with the sink, which the log owns
};

}  // namespace capstan::obs
