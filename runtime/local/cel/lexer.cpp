#include "runtime/local/cel/lexer.hpp"

#include "runtime/local/cel/ast.hpp"

#include <array>

namespace capstan::local::cel {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_hex(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

void add_code_point(std::string& out, std::uint32_t c) {
    const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
    if (c < 0x80) {
        put(c);
    } else if (c < 0x800) {
        put(0xC0 | (c >> 6));
        put(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        put(0xE0 | (c >> 12));
        put(0x80 | ((c >> 6) & 0x3F));
        put(0x80 | (c & 0x3F));
    } else {
        put(0xF0 | (c >> 18));
        put(0x80 | ((c >> 12) & 0x3F));
        put(0x80 | ((c >> 6) & 0x3F));
        put(0x80 | (c & 0x3F));
    }
}

class Lexer {
public:
    explicit Lexer(std::string_view text) : text_(text) {}

    Result<std::vector<Token>> run() {
        std::vector<Token> tokens;
        while (true) {
            skip_blanks();
            Token token;
            token.offset = static_cast<std::uint32_t>(at_);
            if (at_ == text_.size()) {
                tokens.push_back(std::move(token));
                return tokens;
            }
            CAPSTAN_TRY(read(token));
            token.word = text_.substr(token.offset, at_ - token.offset);
            tokens.push_back(std::move(token));
        }
    }

private:
    char peek(std::size_t ahead = 0) const {
        return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
    }
    bool starts(std::string_view word) const { return text_.substr(at_).starts_with(word); }

    void skip_blanks() {
        while (at_ < text_.size()) {
            if (starts("//")) {
                at_ = std::min(text_.find('\n', at_), text_.size());
            } else if (std::string_view(" \t\n\r\f").find(text_[at_]) != std::string_view::npos) {
                ++at_;
            } else {
                return;
            }
        }
    }

    Result<void> read(Token& token) {
        const char c = peek();
        const bool raw = (c == 'r' || c == 'R') && (peek(1) == '"' || peek(1) == '\'');
        if (c == '"' || c == '\'' || raw) {
            token.kind = TokenKind::string;
            at_ += raw ? 1 : 0;
            return read_string(token, raw);
        }
        if ((c == 'b' || c == 'B') && (peek(1) == '"' || peek(1) == '\'')) {
            return fail_at(at_, "bytes are not supported");
        }
        if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
            return read_number(token);
        }
        if (is_letter(c)) {
            token.kind = TokenKind::name;
            while (is_letter(peek()) || is_digit(peek())) {
                ++at_;
            }
            return ok();
        }
        return read_sign(token);
    }

    Result<void> read_sign(Token& token) {
        token.kind = TokenKind::sign;
        for (const std::string_view sign : {"&&", "||", "==", "!=", "<=", ">="}) {
            if (starts(sign)) {
                at_ += 2;
                return ok();
            }
        }
        if (std::string_view("+-*/%!<>?:.,()[]{}").find(peek()) == std::string_view::npos) {
            return fail_at(at_, "unexpected character");
        }
        ++at_;
        return ok();
    }

    Result<void> read_number(Token& token) {
        token.kind = TokenKind::integer;
        if (peek() == '0' && (peek(1) == 'x' || peek(1) == 'X') && is_hex(peek(2))) {
            for (at_ += 2; is_hex(peek());) {
                ++at_;
            }
        } else {
            skip_digits();
            if (peek() == '.' && is_digit(peek(1))) {
                token.kind = TokenKind::real;
                ++at_;
                skip_digits();
            }
            const std::size_t sign = peek(1) == '+' || peek(1) == '-' ? 2 : 1;
            if ((peek() == 'e' || peek() == 'E') && is_digit(peek(sign))) {
                token.kind = TokenKind::real;
                at_ += sign;
                skip_digits();
            }
        }
        if (peek() == 'u' || peek() == 'U') {
            return fail_at(at_, "unsigned numbers are not supported");
        }
        return is_letter(peek()) ? Result<void>(fail_at(at_, "a number ends with a letter")) : ok();
    }
    void skip_digits() {
        while (is_digit(peek())) {
            ++at_;
        }
    }

    Result<void> read_string(Token& token, bool raw) {
        const std::size_t begin = at_;
        const bool triple = starts(R"(""")") || starts("'''");
        const std::string quote(triple ? 3 : 1, peek());
        at_ += quote.size();
        while (at_ < text_.size()) {
            if (starts(quote)) {
                at_ += quote.size();
                return ok();
            }
            if (!triple && (peek() == '\n' || peek() == '\r')) {
                break;
            }
            if (peek() == '\\' && !raw) {
                CAPSTAN_TRY(read_escape(token.text));
            } else {
                token.text += text_[at_++];
            }
        }
        return fail_at(begin, "the string does not end");
    }

    Result<void> read_escape(std::string& out) {
        static constexpr std::string_view kNames = "abfnrtv\\?\"'`";
        static constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\?\"'`";
        const std::size_t begin = at_++;
        const char c = peek();
        if (const std::size_t found = kNames.find(c);
            c != '\0' && found != std::string_view::npos) {
            out += kMeanings[found];
            ++at_;
            return ok();
        }
        std::size_t digits = 0;
        std::uint32_t base = 16;
        switch (c) {
            case 'x':
            case 'X': digits = 2; break;
            case 'u': digits = 4; break;
            case 'U': digits = 8; break;
            default: digits = c >= '0' && c <= '3' ? 3 : 0; base = 8;
        }
        at_ += base == 16 ? 1 : 0;
        std::uint32_t value = 0;
        for (std::size_t i = 0; i < digits; ++i, ++at_) {
            const char digit = peek();
            if (!is_hex(digit) || (base == 8 && (digit < '0' || digit > '7'))) {
                return fail_at(begin, "malformed escape");
            }
            const auto low = static_cast<std::uint32_t>(digit | 0x20);
            value = value * base +
                    (is_digit(digit) ? static_cast<std::uint32_t>(digit - '0') : low - 'a' + 10);
        }
        if (digits == 0 || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
            return fail_at(begin, "malformed escape");
        }
        add_code_point(out, value);
        return ok();
    }

    std::string_view text_;
    std::size_t at_{0};
};

}  // namespace

Failure fail_at(std::size_t offset, std::string_view what) {
    return fail(Code::invalid, "offset " + std::to_string(offset) + ": " + std::string(what));
}

Result<std::vector<Token>> read_tokens(std::string_view text) {
    return Lexer(text).run();
}

}  // namespace capstan::local::cel
