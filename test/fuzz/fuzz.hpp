// What the fuzz targets share: choices read off the input, and saying which property broke.
//
// A target is one file with LLVMFuzzerTestOneInput. clang links it with libFuzzer (tools/fuzz),
// every build with replay_main.cpp, which runs a directory of inputs as a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace capstan::fuzz {

// Stops the process; the fuzzer then keeps the input, the replay names it.
inline void require(bool holds, const char* property) {
    if (!holds) {
        std::fprintf(stderr, "broken property: %s\n", property);
        std::abort();
    }
}

// Takes choices from the front; zeros once the input is used up, so that every input means
// something.
class Input {
public:
    Input(const std::uint8_t* data, std::size_t size)
        : rest_(reinterpret_cast<const char*>(data), size) {}

    std::uint8_t byte() {
        if (rest_.empty()) {
            return 0;
        }
        const auto first = static_cast<std::uint8_t>(rest_.front());
        rest_.remove_prefix(1);
        return first;
    }
    std::size_t below(std::size_t bound) { return byte() % bound; }  // requires: bound > 0
    bool flag() { return (byte() & 1) != 0; }
    bool empty() const { return rest_.empty(); }
    std::string_view rest() const { return rest_; }

private:
    std::string_view rest_;
};

// Cuts `text` into pieces whose sizes follow from `seed`: many of one byte, some long.
class Pieces {
public:
    Pieces(std::string_view text, std::uint32_t seed) : text_(text), state_(seed * 2 + 1) {}

    bool next(std::string_view& piece) {
        if (text_.empty()) {
            return false;
        }
        state_ = state_ * 1664525u + 1013904223u;
        const std::size_t want = (state_ >> 28) < 8 ? 1 : 1 + (state_ >> 24) % 97;
        piece = text_.substr(0, want);
        text_.remove_prefix(piece.size());
        return true;
    }

private:
    std::string_view text_;
    std::uint32_t state_;
};

}  // namespace capstan::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
