// Inside of compact_copy: a place in a JSON text, and the values without members. Each function
// starts at the value and stands behind it afterwards; false: malformed or unusual.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace capstan::kube {

class CompactText {
protected:
    CompactText(std::string_view text, std::string& out)
        : at_(text.data()), end_(text.data() + text.size()), out_(out) {}

    bool string();
    bool integer();
    bool word(std::string_view expected);
    bool skip();  // any value, by its outline
    void space() noexcept {
        while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) {
            ++at_;
        }
    }
    bool take(char c) noexcept {
        space();
        if (at_ == end_ || *at_ != c) {
            return false;
        }
        ++at_;
        return true;
    }

    const char* at_;
    const char* const end_;
    std::string& out_;

private:
    bool escape(const char*& run);
    void copy(const char* from) { out_.append(from, static_cast<std::size_t>(at_ - from)); }
};

}  // namespace capstan::kube
