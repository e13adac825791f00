// For tests: streams in memory, cut into pieces as small as one likes.
#pragma once

#include "plugins/steward-bridge/stream/digest.hpp"
#include "plugins/steward-bridge/stream/stream.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::steward {

class TextSource final : public Source {
public:
    // At most `piece` bytes a time; 0: as many as are asked for.
    explicit TextSource(std::string text, std::size_t piece = 0)
        : text_(std::move(text)), piece_(piece == 0 ? text_.size() + 1 : piece) {}

    void fail_at_end(Error error) { error_ = std::move(error); }

    Result<std::size_t> read(std::span<std::uint8_t> into) override {
        const std::size_t count = std::min({into.size(), piece_, text_.size() - at_});
        if (count == 0 && error_) {
            return fail(*error_);
        }
        std::memcpy(into.data(), text_.data() + at_, count);
        at_ += count;
        return count;
    }

private:
    const std::string text_;
    const std::size_t piece_;
    std::size_t at_{0};
    std::optional<Error> error_;
};

class TextSink final : public Sink {
public:
    Result<void> write(std::span<const std::uint8_t> bytes) override {
        text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return ok();
    }
    Result<void> finish() override {
        finished = true;
        return ok();
    }

    std::string text;
    bool finished{false};
};

// Everything a source gives, read `piece` bytes a time, or its error.
inline Result<std::string> read_all(Source& from, std::size_t piece = 4096) {
    std::string text;
    std::string buffer(piece, '\0');
    while (true) {
        CAPSTAN_TRY(const std::size_t count,
                    from.read({reinterpret_cast<std::uint8_t*>(buffer.data()), piece}));
        if (count == 0) {
            return text;
        }
        text.append(buffer, 0, count);
    }
}

inline std::string from_hex(std::string_view text) {
    std::string bytes;
    for (std::size_t at = 0; at + 2 <= text.size(); at += 2) {
        bytes += static_cast<char>(std::stoi(std::string(text.substr(at, 2)), nullptr, 16));
    }
    return bytes;
}

// Bytes that look like nothing, the same for the same seed.
inline std::string noise(std::size_t size, std::uint32_t seed) {
    std::string bytes(size, '\0');
    for (char& c : bytes) {
        seed = seed * 1664525u + 1013904223u;
        c = static_cast<char>(seed >> 24);
    }
    return bytes;
}

}  // namespace capstan::steward
