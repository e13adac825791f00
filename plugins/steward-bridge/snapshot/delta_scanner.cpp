#include "plugins/steward-bridge/snapshot/delta_scanner.hpp"

#include "plugins/steward-bridge/snapshot/damaged.hpp"
#include "plugins/steward-bridge/stream/base64.hpp"

#include <bitset>
#include <charconv>
#include <cstring>

namespace capstan::steward {
namespace {

constexpr std::size_t kWindowBytes = std::size_t{128} * 1024;
constexpr std::size_t kGroupsAtOnce = 1024;  // of base64, four characters each
constexpr std::size_t kIntegerCharsMax = 20;

bool is_space(std::uint8_t c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
bool is_scalar(std::uint8_t c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' ||
           c == 'E';
}

}  // namespace

DeltaScanner::DeltaScanner(Source& from, std::string object, std::size_t value_bytes_max)
    : from_(from),
      object_(std::move(object)),
      value_bytes_max_(value_bytes_max),
      window_(kWindowBytes + 1),
      at_(window_.data()),
      end_(window_.data()),
      groups_(kGroupsAtOnce * 3, '\0') {}

std::uint64_t DeltaScanner::offset() const {
    return window_start_ + static_cast<std::uint64_t>(at_ - window_.data());
}

bool DeltaScanner::fail(std::string_view what) {
    if (!error_) {
        std::string text(what);
        text += " at byte " + std::to_string(offset()) + " of its payload";
        error_ = damaged(object_, text);
    }
    return false;
}

bool DeltaScanner::unexpected_here(std::string_view wanted) {
    std::string text = at_ == end_ ? "it ends" : "there is ";
    if (at_ != end_) {
        const char c = static_cast<char>(*at_);
        text += c > ' ' && c < 127 ? "'" + std::string(1, c) + "'"
                                   : "a byte of value " + std::to_string(*at_);
    }
    text += " where ";
    text += wanted;
    return fail(text + " must be");
}

bool DeltaScanner::unexpected(char c) {
    return !error_ && unexpected_here("'" + std::string(1, c) + "'");
}

bool DeltaScanner::fill() {
    if (source_ended_ || error_) {
        return false;
    }
    const std::size_t kept = static_cast<std::size_t>(end_ - at_);
    window_start_ += static_cast<std::uint64_t>(at_ - window_.data());
    std::memmove(window_.data(), at_, kept);
    at_ = window_.data();
    end_ = window_.data() + kept;
    auto count = from_.read({end_, kWindowBytes - kept});
    if (!count) {
        error_ = std::move(count).error();
        *end_ = 0;
        return false;
    }
    source_ended_ = count.value() == 0;
    end_ += count.value();
    *end_ = 0;
    return !source_ended_;
}

bool DeltaScanner::skip_space() {
    while (true) {
        while (is_space(*at_)) {
            ++at_;
        }
        if (at_ != end_ || !fill()) {
            return !error_;
        }
    }
}

bool DeltaScanner::found_behind_space(char c) {
    return *at_ <= ' ' && skip_space() && static_cast<char>(*at_) == c;
}

bool DeltaScanner::take_null(bool& taken) {
    if (!take('n', taken) || !taken) {
        return !error_;
    }
    for (const char c : {'u', 'l', 'l'}) {
        if (at_ == end_ && !fill() && error_) {
            return false;
        }
        if (static_cast<char>(*at_) != c) {
            return unexpected_here("null");
        }
        ++at_;
    }
    return true;
}

bool DeltaScanner::read_name(std::string_view& name) {
    if (!expect('"')) {
        return false;
    }
    const std::uint8_t* end = at_;
    while (true) {
        while (*end > ' ' && *end != '"' && *end != '\\') {
            ++end;
        }
        const std::size_t size = static_cast<std::size_t>(end - at_);
        if (*end == '"' && size <= kDeltaNameBytesMax) {
            name = {reinterpret_cast<const char*>(at_), size};
            at_ = end + 1;
            break;
        }
        if (end == end_ && size <= kDeltaNameBytesMax && fill()) {
            end = at_ + size;
            continue;
        }
        // Rare: escaped, with a space, too long to be known, or not ended.
        bool escaped = false;
        long_name_.clear();
        for (char c = 0; next_in_string(c, escaped) && (c != '"' || escaped);) {
            long_name_.append(long_name_.size() <= kDeltaNameBytesMax ? 1 : 0, c);
        }
        name = long_name_;
        break;
    }
    if (error_) {
        return false;
    }
    if (*at_ == ':') {
        ++at_;
        return true;
    }
    // Looking for the colon may move the window.
    long_name_ = std::string(name);
    name = long_name_;
    return expect(':');
}

bool DeltaScanner::read_integer(std::int64_t& value) {
    if (*at_ <= ' ' && !skip_space()) {
        return false;
    }
    const std::uint8_t* end = at_;
    while (true) {
        while (is_scalar(*end)) {
            ++end;
        }
        const std::size_t size = static_cast<std::size_t>(end - at_);
        if (end != end_ || size > kIntegerCharsMax) {
            break;
        }
        const bool more = fill();
        end = at_ + size;  // the window has moved, also at the end
        if (!more) {
            break;
        }
    }
    if (error_) {
        return false;
    }
    const char* const first = reinterpret_cast<const char*>(at_);
    const char* const last = reinterpret_cast<const char*>(end);
    const auto [stop, error] = std::from_chars(first, last, value);
    const bool negative = first != last && *first == '-';
    const bool zeros = last - first > (negative ? 2 : 1) && first[negative ? 1 : 0] == '0';
    if (error != std::errc{} || stop != last || zeros) {
        return first == last ? unexpected_here("a number") : fail("there is no 64-bit integer");
    }
    at_ = end;
    return true;
}

bool DeltaScanner::read_escape(char& c) {
    if (at_ == end_ && !fill()) {
        return unexpected_here("the rest of an escape");
    }
    const char kind = static_cast<char>(*at_);
    constexpr std::string_view kKinds = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const std::size_t known = kKinds.find(kind);
    if (known != std::string_view::npos) {
        ++at_;
        c = kMeanings[known];
        return true;
    }
    if (kind != 'u') {
        return unexpected_here("an escape");
    }
    ++at_;
    unsigned value = 0;
    for (int i = 0; i < 4; ++i) {
        if (at_ == end_ && !fill() && error_) {
            return false;
        }
        const char digit = static_cast<char>(*at_);
        unsigned nibble = 0;
        if (std::from_chars(&digit, &digit + 1, nibble, 16).ec != std::errc{}) {
            return unexpected_here("a hexadecimal digit");
        }
        value = value * 16 + nibble;
        ++at_;
    }
    c = value < 128 ? static_cast<char>(value) : '\x7f';  // none of ours is above
    return true;
}

bool DeltaScanner::next_in_string(char& c, bool& escaped) {
    if (at_ == end_ && !fill()) {
        return unexpected_here("the rest of a string");
    }
    if (*at_ < ' ') {
        return unexpected_here("a character of a string");
    }
    c = static_cast<char>(*at_++);
    escaped = c == '\\';
    return !escaped || read_escape(c);
}

// Whole groups of four characters, as many as the window has.
void DeltaScanner::decode_groups(std::string& bytes) {
    const std::uint8_t* const values = kBase64Values.data();
    while (true) {
        const std::size_t ready = static_cast<std::size_t>(end_ - at_) / 4;
        const std::size_t most = ready < kGroupsAtOnce ? ready : kGroupsAtOnce;
        const std::uint8_t* from = at_;
        char* to = groups_.data();
        std::size_t done = 0;
        for (; done < most; ++done, from += 4, to += 3) {
            const std::uint32_t a = values[from[0]], b = values[from[1]], c = values[from[2]],
                                d = values[from[3]];
            if ((a | b | c | d) > 63) {
                break;
            }
            const std::uint32_t group = a << 18 | b << 12 | c << 6 | d;
            to[0] = static_cast<char>(group >> 16);
            to[1] = static_cast<char>(group >> 8);
            to[2] = static_cast<char>(group);
        }
        at_ = from;
        bytes.append(groups_.data(), done * 3);
        if (done < kGroupsAtOnce || bytes.size() > value_bytes_max_) {
            return;
        }
    }
}

bool DeltaScanner::read_base64(std::string& bytes) {
    bytes.clear();
    if (!expect('"')) {
        return false;
    }
    std::uint32_t group = 0;
    unsigned count = 0, padding = 0;
    while (true) {
        if (count == 0 && padding == 0) {
            decode_groups(bytes);
        }
        if (bytes.size() > value_bytes_max_) {
            error_ = Error{Code::too_large,
                           object_ + ": a value of more than " + std::to_string(value_bytes_max_) +
                               " bytes at byte " + std::to_string(offset()) + " of its payload",
                           {}};
            return false;
        }
        char c = 0;
        bool escaped = false;
        if (!next_in_string(c, escaped)) {
            return false;
        }
        if (c == '"' && !escaped) {
            return count == 0 || fail("base64 ends inside a group of four");
        }
        const std::uint32_t value = kBase64Values[static_cast<unsigned char>(c)];
        const bool pad = c == '=' && count >= 2;
        if ((value > 63 && !pad) || (padding > 0 && !pad)) {
            return fail("there is no base64");
        }
        group = group << 6 | (pad ? 0 : value);
        padding += pad ? 1 : 0;
        if (++count == 4) {
            const char text[3] = {static_cast<char>(group >> 16),
                                  static_cast<char>(group >> 8),
                                  static_cast<char>(group)};
            bytes.append(text, 3 - padding);
            group = 0;
            count = 0;
        }
    }
}

bool DeltaScanner::skip_string() {
    while (true) {
        while (*at_ >= ' ' && *at_ != '"' && *at_ != '\\') {
            ++at_;
        }
        char c = 0;
        bool escaped = false;
        if (!next_in_string(c, escaped)) {
            return false;
        }
        if (c == '"' && !escaped) {
            return true;
        }
    }
}

bool DeltaScanner::skip_scalar() {
    if (!is_scalar(*at_)) {
        return unexpected_here("a value");
    }
    do {
        while (is_scalar(*at_)) {
            ++at_;
        }
    } while (at_ == end_ && fill());
    return !error_;
}

bool DeltaScanner::skip_value() {
    std::bitset<kDeltaDepthMax> arrays;
    std::size_t depth = 0;
    std::string_view name;
    while (true) {
        bool object = false, array = false, string = false, closed = false;
        if (!take('{', object) || (!object && !take('[', array))) {
            return false;
        }
        if (object || array) {
            if (depth == kDeltaDepthMax) {
                return fail("it is nested deeper than " + std::to_string(kDeltaDepthMax));
            }
            arrays.set(depth++, array);
            if (!take(array ? ']' : '}', closed)) {
                return false;
            }
            if (!closed) {
                if (object && !read_name(name)) {
                    return false;
                }
                continue;
            }
            --depth;
        } else if (!take('"', string) || !(string ? skip_string() : skip_scalar())) {
            return false;
        }
        // Behind a value: what encloses it goes on or ends.
        bool more = false;
        while (depth > 0 && !more) {
            const bool in_array = arrays[depth - 1];
            if (!take(',', more)) {
                return false;
            }
            if (!more) {
                if (!expect(in_array ? ']' : '}')) {
                    return false;
                }
                --depth;
            } else if (!in_array && !read_name(name)) {
                return false;
            }
        }
        if (depth == 0) {
            return true;
        }
    }
}

bool DeltaScanner::expect_end() {
    return skip_space() && (at_ == end_ || unexpected_here("the end"));
}

}  // namespace capstan::steward
