#include "runtime/kube/compact_text.hpp"

#include "runtime/kube/json_scan.hpp"
#include "runtime/kube/raw_json.hpp"
#include "runtime/obs/utf8.hpp"

#include <algorithm>

namespace capstan::kube {
namespace {

constexpr std::string_view kIntegerMax = "9223372036854775807";

}  // namespace

bool CompactText::string() {
    const char* run = at_++;
    for (;;) {
        at_ = scan::plain_end(at_, end_);
        if (at_ == end_) {
            return false;
        }
        if (*at_ == '"') {
            ++at_;
            copy(run);
            return true;
        }
        if (*at_ == '\\') {
            if (!escape(run)) {
                return false;
            }
            continue;
        }
        const std::size_t length =
            static_cast<unsigned char>(*at_) < 0x20
                ? 0
                : obs::utf8_length({at_, static_cast<std::size_t>(end_ - at_)}, 0);
        if (length == 0) {
            return false;
        }
        at_ += length;
    }
}

// At a backslash. Short escapes stay as they are; Go's < > & become the characters.
bool CompactText::escape(const char*& run) {
    if (end_ - at_ < 2) {
        return false;
    }
    if (std::string_view("\"\\bfnrt").find(at_[1]) != std::string_view::npos) {
        at_ += 2;
        return true;
    }
    const std::string_view text(at_,
                                std::min<std::size_t>(6, static_cast<std::size_t>(end_ - at_)));
    const char plain = text == "\\u003c"   ? '<'
                       : text == "\\u003e" ? '>'
                       : text == "\\u0026" ? '&'
                                           : '\0';
    if (plain == '\0') {
        return false;
    }
    copy(run);
    out_ += plain;
    at_ += text.size();
    run = at_;
    return true;
}

bool CompactText::integer() {
    const char* const from = at_;
    at_ += *at_ == '-' ? 1 : 0;
    const char* const digits = at_;
    while (at_ < end_ && *at_ >= '0' && *at_ <= '9') {
        ++at_;
    }
    const auto count = static_cast<std::size_t>(at_ - digits);
    const bool zero_first = count > 0 && *digits == '0' && (count > 1 || digits != from);
    const bool too_long =
        count > kIntegerMax.size() ||
        (count == kIntegerMax.size() && std::string_view(digits, count) > kIntegerMax);
    if (count == 0 || too_long || zero_first) {
        return false;
    }
    if (at_ < end_ && (*at_ == '.' || *at_ == 'e' || *at_ == 'E')) {
        return false;
    }
    copy(from);
    return true;
}

bool CompactText::word(std::string_view expected) {
    if (static_cast<std::size_t>(end_ - at_) < expected.size() ||
        std::string_view(at_, expected.size()) != expected) {
        return false;
    }
    out_ += expected;
    at_ += expected.size();
    return true;
}

bool CompactText::skip() {
    space();
    const std::size_t length = raw::value_length({at_, static_cast<std::size_t>(end_ - at_)});
    at_ += length;
    return length > 0;
}

}  // namespace capstan::kube
