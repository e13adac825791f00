#include "runtime/local/pattern/pattern_parser.hpp"

namespace capstan::local::pattern {

namespace {

const Ranges kDigit{{'0', '9'}};
const Ranges kSpace{{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
const Ranges kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};

struct NamedClass {
    std::string_view name;
    Ranges ranges;
};

const std::vector<NamedClass>& posix_classes() {
    static const std::vector<NamedClass> classes{
        {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
        {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
        {"ascii", {{0, 0x7F}}},
        {"blank", {{'\t', '\t'}, {' ', ' '}}},
        {"cntrl", {{0, 0x1F}, {0x7F, 0x7F}}},
        {"digit", kDigit},
        {"graph", {{'!', '~'}}},
        {"lower", {{'a', 'z'}}},
        {"print", {{' ', '~'}}},
        {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
        {"space", {{'\t', '\r'}, {' ', ' '}}},
        {"upper", {{'A', 'Z'}}},
        {"word", kWord},
        {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
    };
    return classes;
}

}  // namespace

const Ranges* perl_class(char c) {
    switch (c) {
        case 'd':
        case 'D': return &kDigit;
        case 's':
        case 'S': return &kSpace;
        case 'w':
        case 'W': return &kWord;
        default: return nullptr;
    }
}

const Ranges* posix_class(std::string_view name) {
    for (const NamedClass& known : posix_classes()) {
        if (known.name == name) {
            return &known.ranges;
        }
    }
    return nullptr;
}

Ranges complement(const Ranges& ranges) {
    Ranges out;
    char32_t next = 0;
    for (const Pattern::Range& range : ranges) {
        if (range.first > next) {
            out.push_back({next, range.first - 1});
        }
        next = range.last + 1;
    }
    if (next <= kCodePointMax) {
        out.push_back({next, kCodePointMax});
    }
    return out;
}

bool is_letter(char32_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_word(char32_t c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
}

char32_t next_code_point(std::string_view text, std::size_t& offset) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(offset);
    std::size_t more = 0;
    char32_t value = lead;
    if (lead >= 0xF0 && lead < 0xF8) {
        more = 3;
        value = lead & 0x07u;
    } else if (lead >= 0xE0) {
        more = 2;
        value = lead & 0x0Fu;
    } else if (lead >= 0xC0) {
        more = 1;
        value = lead & 0x1Fu;
    } else {
        ++offset;
        return lead < 0x80 ? value : U'\uFFFD';
    }
    if (offset + more >= text.size()) {
        ++offset;
        return U'\uFFFD';
    }
    for (std::size_t i = 1; i <= more; ++i) {
        if ((byte(offset + i) & 0xC0u) != 0x80u) {
            ++offset;
            return U'\uFFFD';
        }
        value = (value << 6) | (byte(offset + i) & 0x3Fu);
    }
    offset += more + 1;
    return value;
}

}  // namespace capstan::local::pattern
