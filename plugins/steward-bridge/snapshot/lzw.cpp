#include "plugins/steward-bridge/snapshot/lzw.hpp"

#include "plugins/steward-bridge/snapshot/damaged.hpp"

#include <algorithm>
#include <cstring>

namespace capstan::steward {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{64} * 1024;
constexpr unsigned kClear = 256, kEnd = 257;
constexpr unsigned kWidthMin = 9;
constexpr unsigned kCodeMax = kLzwCodes - 1;
constexpr unsigned kNone = ~0u;
// Four times as many places as codes.
constexpr std::uint32_t kTableBits = 14, kTableMask = (1u << kTableBits) - 1;
constexpr std::uint32_t kFree = ~0u;

std::uint32_t place(std::uint32_t key) {
    return (key * 2654435761u) >> (32 - kTableBits);
}

}  // namespace

LzwSource::LzwSource(Source& from, std::string object)
    : from_(from), object_(std::move(object)), packed_(kBufferBytes), last_(kNone) {}

Error LzwSource::damaged_here(const std::string& what) const {
    return damaged(object_, what + " at byte " + std::to_string(offset_));
}

Result<bool> LzwSource::fill() {
    CAPSTAN_TRY(size_, from_.read(packed_));
    at_ = 0;
    return size_ > 0;
}

Result<bool> LzwSource::next_code(unsigned& code) {
    while (bit_count_ < width_) {
        if (at_ == size_) {
            CAPSTAN_TRY(const bool more, fill());
            if (!more) {
                return false;
            }
        }
        bits_ |= std::uint32_t{packed_[at_++]} << bit_count_;
        bit_count_ += 8;
        ++offset_;
    }
    code = bits_ & ((1u << width_) - 1);
    bits_ >>= width_;
    bit_count_ -= width_;
    return true;
}

Result<void> LzwSource::expect_end() {
    if (at_ == size_) {
        CAPSTAN_TRY(const bool more, fill());
        if (!more) {
            return ok();
        }
    }
    return fail(damaged_here("bytes follow the end of its lzw stream"));
}

Result<void> LzwSource::decode() {
    unsigned code = 0;
    CAPSTAN_TRY(const bool more, next_code(code));
    if (!more) {
        return fail(offset_ == 0 ? damaged(object_, "it is empty (0 bytes)")
                                 : damaged_here("its lzw stream ends too early"));
    }
    if (code == kEnd) {
        ended_ = true;
        return expect_end();
    }
    if (code == kClear) {
        width_ = kWidthMin;
        high_ = kEnd;
        last_ = kNone;
        return ok();
    }
    if (code > high_) {
        return fail(damaged_here("lzw code " + std::to_string(code) + " is not defined"));
    }
    unsigned link = code;
    if (code == high_ && last_ != kNone) {
        // The entry being made by this very code: the text before plus its own first byte.
        link = last_;
        --text_at_;  // filled in below
    }
    const std::size_t own_byte = text_at_;
    while (link >= kClear) {
        text_[--text_at_] = suffix_[link];
        link = prefix_[link];
    }
    text_[--text_at_] = static_cast<std::uint8_t>(link);
    if (own_byte != kLzwCodes) {
        text_[own_byte] = static_cast<std::uint8_t>(link);
    }
    if (last_ != kNone) {
        suffix_[high_] = static_cast<std::uint8_t>(link);
        prefix_[high_] = static_cast<std::uint16_t>(last_);
    }
    last_ = code;
    if (high_ == kCodeMax) {
        last_ = kNone;  // the table is full: nothing is added until it is cleared
    } else if (++high_ == 1u << width_) {
        ++width_;
    }
    return ok();
}

Result<std::size_t> LzwSource::read(std::span<std::uint8_t> into) {
    std::size_t count = 0;
    while (count < into.size()) {
        if (text_at_ == kLzwCodes) {
            if (ended_) {
                break;
            }
            CAPSTAN_TRY(decode());
            continue;
        }
        const std::size_t size = std::min(kLzwCodes - text_at_, into.size() - count);
        std::memcpy(into.data() + count, text_.data() + text_at_, size);
        count += size;
        text_at_ += size;
    }
    return count;
}

LzwSink::LzwSink(Sink& to) : to_(to), table_(kTableMask + 1, kFree), code_(kNone) {
    packed_.reserve(kBufferBytes + 8);
}

Result<void> LzwSink::emit(unsigned code) {
    bits_ |= code << bit_count_;
    bit_count_ += width_;
    while (bit_count_ >= 8) {
        packed_.push_back(static_cast<std::uint8_t>(bits_));
        bits_ >>= 8;
        bit_count_ -= 8;
    }
    return packed_.size() < kBufferBytes ? Result<void>(ok()) : flush();
}

Result<void> LzwSink::flush() {
    CAPSTAN_TRY(to_.write(packed_));
    packed_.clear();
    return ok();
}

Result<bool> LzwSink::count_code() {
    if (++high_ == 1u << width_) {
        ++width_;
    }
    if (high_ < kCodeMax) {
        return true;
    }
    CAPSTAN_TRY(emit(kClear));
    width_ = kWidthMin;
    high_ = kEnd;
    std::fill(table_.begin(), table_.end(), kFree);
    return false;
}

Result<void> LzwSink::write(std::span<const std::uint8_t> bytes) {
    if (bytes.empty()) {
        return ok();
    }
    if (code_ == kNone) {
        CAPSTAN_TRY(emit(kClear));
        code_ = bytes.front();
        bytes = bytes.subspan(1);
    }
    for (const std::uint8_t byte : bytes) {
        const std::uint32_t key = code_ << 8 | byte;
        std::uint32_t at = place(key);
        while (table_[at] != kFree && table_[at] >> kLzwWidthMax != key) {
            at = (at + 1) & kTableMask;
        }
        if (table_[at] != kFree) {
            code_ = table_[at] & kCodeMax;
            continue;
        }
        CAPSTAN_TRY(emit(code_));
        code_ = byte;
        CAPSTAN_TRY(const bool room, count_code());
        if (room) {
            table_[at] = key << kLzwWidthMax | high_;
        }
    }
    return ok();
}

Result<void> LzwSink::finish() {
    if (code_ == kNone) {
        CAPSTAN_TRY(emit(kClear));
    } else {
        CAPSTAN_TRY(emit(code_));
        CAPSTAN_TRY(count_code());
    }
    CAPSTAN_TRY(emit(kEnd));
    if (bit_count_ > 0) {
        packed_.push_back(static_cast<std::uint8_t>(bits_));
    }
    CAPSTAN_TRY(flush());
    return to_.finish();
}

}  // namespace capstan::steward
