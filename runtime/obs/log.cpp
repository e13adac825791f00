#include "runtime/obs/log.hpp"

#include "runtime/obs/line_writer.hpp"
#include "runtime/obs/utf8.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace capstan::obs {

namespace {

// above it the oldest knowledge is dropped, lines pass
constexpr std::size_t kRepeatEntriesMax = 512;
constexpr std::size_t kFixedBytesMax = 2 * 1024;
constexpr std::chrono::seconds kFlushMax{1};  // for a reader of stderr that sleeps
constexpr std::size_t kTailBytes = 64;        // room for "repeats", "truncated" and the brace

void append_escape(std::string& out, unsigned char c) {
    switch (c) {
        case '"': out += "\\\""; return;
        case '\\': out += "\\\\"; return;
        case '\n': out += "\\n"; return;
        case '\r': out += "\\r"; return;
        case '\t': out += "\\t"; return;
        default: break;
    }
    static constexpr std::string_view kHex = "0123456789abcdef";
    out += "\\u00";
    out += kHex[c >> 4];
    out += kHex[c & 0xF];
}

// A JSON string, cut at kTextBytesMax input bytes on a character border;
// malformed bytes become U+FFFD.
void append_text(std::string& out, std::string_view text) {
    out += '"';
    std::size_t at = 0;
    while (at < text.size() && at < kTextBytesMax) {
        const std::size_t length = utf8_length(text, at);
        const auto c = static_cast<unsigned char>(text[at]);
        if (length == 0) {
            out += "\xEF\xBF\xBD";
            ++at;
            continue;
        }
        if (length == 1 && (c < 0x20 || c == '"' || c == '\\' || c == 0x7F)) {
            append_escape(out, c);
        } else {
            out.append(text, at, length);
        }
        at += length;
    }
    if (at < text.size()) {
        out += "\xE2\x80\xA6";
    }
    out += '"';
}

void append_number(std::string& out, double value) {
    if (!std::isfinite(value)) {
        out += std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"+Inf\"" : "\"-Inf\"";
        return;
    }
    std::array<char, 32> buffer{};
    const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
    out.append(buffer.data(), result.ptr);
}

void append_field(std::string& out, const Field& field) {
    out += ',';
    append_text(out, field.key);
    out += ':';
    if (const auto* text = std::get_if<std::string_view>(&field.value)) {
        append_text(out, *text);
    } else if (const auto* integer = std::get_if<std::int64_t>(&field.value)) {
        out += std::to_string(*integer);
    } else if (const auto* real = std::get_if<double>(&field.value)) {
        append_number(out, *real);
    } else {
        out += std::get<bool>(field.value) ? "true" : "false";
    }
}

struct Repeat {
    MonotonicTime window_start{};
    std::size_t passed{0};
    std::size_t held{0};
    std::string line;  // everything but time and brace; only kept once something was held back
};

}  // namespace

std::string_view to_string(Level level) noexcept {
    static constexpr std::array<std::string_view, 4> kNames{"debug", "info", "warn", "error"};
    return kNames[static_cast<std::size_t>(level)];
}

std::optional<Level> parse_level(std::string_view text) noexcept {
    for (const Level level : {Level::debug, Level::info, Level::warn, Level::error}) {
        if (to_string(level) == text) {
            return level;
        }
    }
    return std::nullopt;
}

struct Log::Core {
    Core(const Clock& c, Sink s, const LogOptions& o)
        : clock(c), options(o), sink(std::move(s)), level(o.level) {}

    void emit(std::string_view body, std::size_t repeats, bool truncated) {
        std::string line = "{\"ts\":\"" + to_rfc3339_micro(clock.wall_now()) + "\"";
        line += body;
        if (repeats != 0) {
            line += ",\"repeats\":" + std::to_string(repeats);
        }
        if (truncated) {
            line += ",\"truncated\":true";
        }
        line += '}';
        sink(line);
    }

    // True when the line may pass; `repeats` gets what was held back of it in earlier windows.
    bool admit(const std::string& key,
               std::size_t passed_max,
               std::string_view body,
               std::size_t& repeats) {
        const MonotonicTime now = clock.now();
        Repeat& entry = table[key];
        if (now - entry.window_start >= options.repeat_window) {
            repeats += std::exchange(entry.held, 0);
            entry.window_start = now;
            entry.passed = 0;
        }
        if (entry.passed < passed_max) {
            ++entry.passed;
            return true;
        }
        if (entry.held++ == 0) {
            entry.line = body;
        }
        return false;
    }

    // Reports and forgets entries whose window is over; all of them when `everything`.
    void sweep(bool everything) {
        const MonotonicTime now = clock.now();
        if (!everything && table.size() < kRepeatEntriesMax &&
            now - last_sweep < options.repeat_window) {
            return;
        }
        last_sweep = now;
        for (auto it = table.begin(); it != table.end();) {
            const bool over = now - it->second.window_start >= options.repeat_window;
            if (!over && !everything) {
                ++it;
                continue;
            }
            if (it->second.held != 0) {
                emit(it->second.line, it->second.held, false);
            }
            it = table.erase(it);
        }
        if (table.size() >= kRepeatEntriesMax) {
            table.clear();
        }
    }

    // Constant after construction.
    const Clock& clock;
    const LogOptions options;
    const Sink sink;
    std::shared_ptr<LineWriter> writer;  // shared with the sink; null: it writes at once

    std::atomic<Level> level;
    std::mutex mutex;  // guards what follows, and the sink
    std::unordered_map<std::string, Repeat> table;
    MonotonicTime last_sweep{};
};

Log::Log(const Clock& clock, Sink sink, const LogOptions& options)
    : core_(std::make_shared<Core>(clock, std::move(sink), options)) {}

Log Log::to_stderr(const Clock& clock, const LogOptions& options) {
    const auto told = [&clock](std::uint64_t count) {
        return "{\"ts\":\"" + to_rfc3339_micro(clock.wall_now()) +
               "\",\"level\":\"warn\",\"msg\":\"log lines were dropped: stderr is not read\","
               "\"count\":" +
               std::to_string(count) + "}";
    };
    // shared by the sink and the core, which flushes it
    auto writer = std::make_shared<LineWriter>(STDERR_FILENO, told);
    Log log(
        clock, [writer](std::string_view line) { writer->write(line); }, options);
    log.core_->writer = std::move(writer);
    return log;
}

Log Log::with(Fields fields) const {
    Log child = *this;
    for (const Field& field : fields) {
        std::string encoded;
        append_field(encoded, field);
        if (child.fixed_.size() + encoded.size() <= kFixedBytesMax) {
            child.fixed_ += encoded;
        }
    }
    return child;
}

void Log::set_level(Level level) const noexcept {
    if (core_) {
        core_->level.store(level, std::memory_order_relaxed);
    }
}

bool Log::enabled(Level level) const noexcept {
    return core_ && level >= core_->level.load(std::memory_order_relaxed);
}

void Log::write(Level level,
                std::string_view message,
                const Field* fields,
                std::size_t count) const {
    if (!enabled(level)) {
        return;
    }
    std::string body = ",\"level\":\"";
    body += to_string(level);
    body += "\",\"msg\":";
    append_text(body, message);
    const std::string message_key = body;
    body += fixed_;
    bool truncated = false;
    for (std::size_t i = 0; i < count; ++i) {
        std::string encoded;
        append_field(encoded, fields[i]);
        if (body.size() + encoded.size() + kTailBytes + 40 > kLineBytesMax) {
            truncated = true;
            continue;
        }
        body += encoded;
    }
    const std::scoped_lock lock(core_->mutex);
    core_->sweep(false);
    std::size_t repeats = 0;
    if (!core_->admit(body, core_->options.identical_max, body, repeats)) {
        return;
    }
    if (!core_->admit(
            "same" + message_key, core_->options.same_message_max, message_key, repeats)) {
        return;
    }
    core_->emit(body, repeats, truncated);
}

void Log::flush() const {
    if (!core_) {
        return;
    }
    const std::scoped_lock lock(core_->mutex);
    core_->sweep(true);
    if (core_->writer) {
        core_->writer->flush(kFlushMax);
    }
}

struct LogCapture::State {
    mutable std::mutex mutex;
    std::vector<std::string> lines;
};

LogCapture::LogCapture() : state_(std::make_shared<State>()) {}

Log::Sink LogCapture::sink() const {
    return [state = state_](std::string_view line) {
        const std::scoped_lock lock(state->mutex);
        state->lines.emplace_back(line);
    };
}

std::vector<std::string> LogCapture::lines() const {
    const std::scoped_lock lock(state_->mutex);
    return state_->lines;
}

bool LogCapture::contains(std::initializer_list<std::string_view> parts) const {
    const std::scoped_lock lock(state_->mutex);
    return std::any_of(state_->lines.begin(), state_->lines.end(), [&](const std::string& line) {
        return std::all_of(parts.begin(), parts.end(), [&](std::string_view part) {
            return line.find(part) != std::string::npos;
        });
    });
}

std::size_t LogCapture::count(std::string_view part) const {
    const std::scoped_lock lock(state_->mutex);
    return static_cast<std::size_t>(
        std::count_if(state_->lines.begin(), state_->lines.end(), [&](const std::string& line) {
            return line.find(part) != std::string::npos;
        }));
}

void LogCapture::clear() {
    const std::scoped_lock lock(state_->mutex);
    state_->lines.clear();
}

}  // namespace capstan::obs
