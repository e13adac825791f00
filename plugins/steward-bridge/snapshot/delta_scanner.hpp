// The JSON tokens of a delta, from a stream: what is inline here runs for every byte of it.
//
// A window of the stream ends in a zero byte, which no token contains, so only a token that meets
// it looks for more. Every function returns false on failure; error() then says what and where.
#pragma once

#include "plugins/steward-bridge/stream/stream.hpp"

#include "capstan/error.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::steward {

inline constexpr std::size_t kDeltaDepthMax = 128;     // of what is skipped
inline constexpr std::size_t kDeltaNameBytesMax = 64;  // longer member names are unknown ones

class DeltaScanner {
public:
    DeltaScanner(Source& from, std::string object, std::size_t value_bytes_max);

    // The character must come next, after white space.
    bool expect(char c) {
        if (static_cast<char>(*at_) != c && !found_behind_space(c)) {
            return unexpected(c);
        }
        ++at_;
        return true;
    }
    // Takes the character if it comes next; `taken` says so.
    bool take(char c, bool& taken) {
        taken = static_cast<char>(*at_) == c || found_behind_space(c);
        at_ += taken ? 1 : 0;
        return !error_;
    }
    // "null", which stands for a member that is left out.
    bool take_null(bool& taken);

    // Name and colon of a member; the name is valid until the next call.
    bool read_name(std::string_view& name);
    bool read_integer(std::int64_t& value);
    bool read_base64(std::string& bytes);
    bool skip_value();
    // Nothing but white space follows, and the stream has ended well.
    bool expect_end();

    // The members of an object; `member` reads the value of a name.
    template <class Member>
    bool read_object(Member&& member) {
        bool more = false;
        if (!expect('{') || !take('}', more) || more) {
            return !error_;
        }
        do {
            std::string_view name;
            if (!read_name(name) || !member(name) || !take(',', more)) {
                return false;
            }
        } while (more);
        return expect('}');
    }
    // The items of an array.
    template <class Item>
    bool read_array(Item&& item) {
        bool more = false;
        if (!expect('[') || !take(']', more) || more) {
            return !error_;
        }
        do {
            if (!item() || !take(',', more)) {
                return false;
            }
        } while (more);
        return expect(']');
    }

    bool fail(std::string_view what);               // damaged(), with the offset; always false
    const Error& error() const { return *error_; }  // requires: something returned false

private:
    bool found_behind_space(char c);
    bool skip_space();  // false: an error; stands at the zero byte at the end of the stream
    bool fill();        // keeps what is not scanned; false: the stream has ended, or an error
    bool unexpected(char c);
    bool unexpected_here(std::string_view wanted);
    bool read_escape(char& c);  // behind the backslash
    bool skip_string();         // behind the quote
    bool skip_scalar();
    bool next_in_string(char& c, bool& escaped);
    void decode_groups(std::string& bytes);
    std::uint64_t offset() const;

    Source& from_;
    const std::string object_;
    const std::size_t value_bytes_max_;
    std::vector<std::uint8_t> window_;
    const std::uint8_t* at_;
    std::uint8_t* end_;              // *end_ is 0
    std::uint64_t window_start_{0};  // its offset in the stream
    bool source_ended_{false};
    std::string long_name_;
    std::string groups_;  // decoded, before it is appended to a value
    std::optional<Error> error_;
};

}  // namespace capstan::steward
