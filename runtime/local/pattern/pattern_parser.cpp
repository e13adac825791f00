#include "runtime/local/pattern/pattern_parser.hpp"

#include <optional>

namespace capstan::local::pattern {

namespace {

using NodePtr = std::unique_ptr<Node>;
using Failure = decltype(fail(Code::invalid, std::string()));

NodePtr make(NodeKind kind) {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    return node;
}

class Parser {
public:
    explicit Parser(std::string_view text) : text_(text) {}

    Result<NodePtr> run() {
        CAPSTAN_TRY(NodePtr node, alternation(0));
        if (!at_end()) {
            return error("unexpected )");
        }
        return node;
    }

private:
    bool at_end() const { return offset_ >= text_.size(); }
    char peek() const { return at_end() ? '\0' : text_[offset_]; }
    bool take(std::string_view token) {
        if (text_.substr(offset_).starts_with(token)) {
            offset_ += token.size();
            return true;
        }
        return false;
    }
    Failure error(std::string_view what) const {
        return fail(Code::invalid,
                    "pattern offset " + std::to_string(offset_) + ": " + std::string(what));
    }
    Failure unsupported(std::string_view what) const {
        return fail(Code::unsupported,
                    "pattern offset " + std::to_string(offset_) + ": " + std::string(what));
    }

    Result<NodePtr> alternation(std::size_t depth) {
        if (depth > kPatternDepthMax) {
            return fail(
                Code::too_large,
                "pattern: more than " + std::to_string(kPatternDepthMax) + " nested groups");
        }
        const bool fold_outside = fold_case_;
        CAPSTAN_TRY(NodePtr first, concatenation(depth));
        if (peek() != '|' || at_end()) {
            fold_case_ = fold_outside;
            return first;
        }
        NodePtr node = make(NodeKind::alternate);
        node->children.push_back(std::move(first));
        while (take("|")) {
            CAPSTAN_TRY(NodePtr branch, concatenation(depth));
            node->children.push_back(std::move(branch));
        }
        fold_case_ = fold_outside;
        return node;
    }

    Result<NodePtr> concatenation(std::size_t depth) {
        NodePtr node = make(NodeKind::concat);
        while (!at_end() && peek() != '|' && peek() != ')') {
            CAPSTAN_TRY(NodePtr item, atom(depth));
            CAPSTAN_TRY(NodePtr repeated, repetition(std::move(item)));
            node->children.push_back(std::move(repeated));
        }
        return node;
    }

    Result<NodePtr> repetition(NodePtr item) {
        int min = 0;
        int max = kUnbounded;
        if (take("*")) {
        } else if (take("+")) {
            min = 1;
        } else if (take("?")) {
            max = 1;
        } else if (!counted(min, max)) {
            return item;
        }
        if (max != kUnbounded && max < min) {
            return error("invalid repeat count");
        }
        if (min > static_cast<int>(kPatternRepeatMax) ||
            max > static_cast<int>(kPatternRepeatMax)) {
            return error("invalid repeat count");
        }
        take("?");  // lazy: the same set of matching texts
        int ignored_min = 0;
        int ignored_max = 0;
        if (peek() == '*' || peek() == '+' || peek() == '?' || counted(ignored_min, ignored_max)) {
            return error("invalid nested repetition operator");
        }
        NodePtr node = make(NodeKind::repeat);
        node->repeat_min = min;
        node->repeat_max = max;
        node->children.push_back(std::move(item));
        return node;
    }

    // {n}, {n,}, {n,m}; anything else after "{" is a literal brace, as in Go.
    bool counted(int& min, int& max) {
        const std::size_t start = offset_;
        if (!take("{")) {
            return false;
        }
        std::optional<int> low = number();
        std::optional<int> high = low;
        if (low && take(",")) {
            high = peek() == '}' ? std::optional<int>(kUnbounded) : number();
        }
        if (!low || !high || !take("}")) {
            offset_ = start;
            return false;
        }
        min = *low;
        max = *high;
        return true;
    }

    std::optional<int> number() {
        int value = 0;
        const std::size_t start = offset_;
        while (peek() >= '0' && peek() <= '9' && value <= 100'000) {
            value = value * 10 + (peek() - '0');
            ++offset_;
        }
        return offset_ == start ? std::nullopt : std::optional<int>(value);
    }

    Result<NodePtr> atom(std::size_t depth) {
        if (take("(")) {
            return group(depth);
        }
        if (take("[")) {
            return bracket();
        }
        if (take("\\")) {
            return escape();
        }
        if (take(".")) {
            return make(NodeKind::any);
        }
        if (take("^")) {
            return make(NodeKind::begin);
        }
        if (take("$")) {
            return make(NodeKind::end);
        }
        if (peek() == '*' || peek() == '+' || peek() == '?') {
            return error("missing argument to repetition operator");
        }
        return literal(next_code_point(text_, offset_));
    }

    Result<NodePtr> group(std::size_t depth) {
        const bool fold_outside = fold_case_;
        bool flags_only = false;
        if (take("?")) {
            if (take("P<") || take("<")) {
                const std::size_t close = text_.find('>', offset_);
                if (close == std::string_view::npos || peek() == '=' || peek() == '!') {
                    return error("invalid named group");
                }
                offset_ = close + 1;
            } else if (take("i)")) {
                fold_case_ = true;
                flags_only = true;
            } else if (take("i:")) {
                fold_case_ = true;
            } else if (!take(":")) {
                return peek() == '=' || peek() == '!' ? error("invalid or unsupported group syntax")
                                                      : unsupported("group flags other than (?i)");
            }
        }
        if (flags_only) {
            return make(NodeKind::empty);
        }
        CAPSTAN_TRY(NodePtr node, alternation(depth + 1));
        if (!take(")")) {
            return error("missing closing )");
        }
        fold_case_ = fold_outside;
        return node;
    }

    NodePtr literal(char32_t c) const {
        if (fold_case_ && is_letter(c)) {
            NodePtr node = make(NodeKind::one_of);
            node->ranges = {{c | 0x20u, c | 0x20u}, {c & ~0x20u, c & ~0x20u}};
            return node;
        }
        NodePtr node = make(NodeKind::character);
        node->character = c;
        return node;
    }

    NodePtr class_node(const Ranges& ranges, bool negated) const {
        NodePtr node = make(NodeKind::one_of);
        node->ranges = ranges;
        node->negated = negated;
        return node;
    }

    Result<NodePtr> escape() {
        switch (peek()) {
            case 'b': ++offset_; return make(NodeKind::word_edge);
            case 'B': ++offset_; return make(NodeKind::not_word_edge);
            case 'A': ++offset_; return make(NodeKind::begin);
            case 'z': ++offset_; return make(NodeKind::end);
            default: break;
        }
        Ranges ranges;
        if (class_escape(ranges)) {
            return class_node(ranges, false);
        }
        CAPSTAN_TRY(char32_t c, character_escape());
        return literal(c);
    }

    // \d \D \s \S \w \W after the backslash.
    bool class_escape(Ranges& out) {
        const char c = peek();
        const Ranges* ranges = perl_class(c);
        if (ranges == nullptr) {
            return false;
        }
        ++offset_;
        const bool negated = c < 'a';
        const Ranges used = negated ? complement(*ranges) : *ranges;
        out.insert(out.end(), used.begin(), used.end());
        return true;
    }

    Result<char32_t> character_escape() {
        if (at_end()) {
            return error("trailing backslash");
        }
        const char32_t c = next_code_point(text_, offset_);
        switch (c) {
            case 'a': return U'\a';
            case 'f': return U'\f';
            case 'n': return U'\n';
            case 'r': return U'\r';
            case 't': return U'\t';
            case 'v': return U'\v';
            case 'x': return hex_escape();
            case 'p':
            case 'P':
            case 'Q':
            case 'C': return unsupported("this escape");
            default: break;
        }
        if (c >= 0x80 || is_word(c)) {
            return error("invalid escape sequence");
        }
        return c;
    }

    Result<char32_t> hex_escape() {
        const bool braces = take("{");
        char32_t value = 0;
        std::size_t digits = 0;
        for (; digits < (braces ? 6u : 2u) && !at_end(); ++digits, ++offset_) {
            const char c = peek();
            if (c >= '0' && c <= '9') {
                value = value * 16 + static_cast<char32_t>(c - '0');
            } else if (is_letter(static_cast<unsigned char>(c)) && (c | 0x20) <= 'f') {
                value = value * 16 + static_cast<char32_t>((c | 0x20) - 'a' + 10);
            } else {
                break;
            }
        }
        if (digits == 0 || (!braces && digits != 2) || (braces && !take("}")) ||
            value > kCodePointMax) {
            return error("invalid escape sequence");
        }
        return value;
    }

    Result<NodePtr> bracket() {
        const bool negated = take("^");
        Ranges ranges;
        bool first = true;
        while (first || peek() != ']') {
            if (at_end()) {
                return error("missing closing ]");
            }
            first = false;
            CAPSTAN_TRY(bracket_item(ranges));
        }
        ++offset_;
        return class_node(ranges, negated);
    }

    Result<void> bracket_item(Ranges& ranges) {
        if (text_.substr(offset_).starts_with("[:")) {
            return posix_item(ranges);
        }
        if (peek() == '\\') {
            ++offset_;
            if (class_escape(ranges)) {
                return ok();
            }
            --offset_;
        }
        CAPSTAN_TRY(char32_t low, bracket_character());
        char32_t high = low;
        const std::string_view rest = text_.substr(offset_);
        if (rest.size() >= 2 && rest[0] == '-' && rest[1] != ']') {
            ++offset_;
            CAPSTAN_TRY(char32_t end, bracket_character());
            high = end;
        }
        if (high < low) {
            return error("invalid character class range");
        }
        ranges.push_back({low, high});
        if (fold_case_) {
            fold_range(low, high, ranges);
        }
        return ok();
    }

    static void fold_range(char32_t low, char32_t high, Ranges& ranges) {
        for (char32_t c = U'A'; c <= U'Z'; ++c) {
            const char32_t lower = c | 0x20u;
            if (c >= low && c <= high) {
                ranges.push_back({lower, lower});
            }
            if (lower >= low && lower <= high) {
                ranges.push_back({c, c});
            }
        }
    }

    Result<char32_t> bracket_character() {
        if (at_end()) {
            return error("missing closing ]");
        }
        if (take("\\")) {
            return character_escape();
        }
        return next_code_point(text_, offset_);
    }

    Result<void> posix_item(Ranges& ranges) {
        const std::size_t close = text_.find(":]", offset_ + 2);
        if (close == std::string_view::npos) {
            return error("invalid character class range");
        }
        std::string_view name = text_.substr(offset_ + 2, close - offset_ - 2);
        const bool negated = name.starts_with('^');
        if (negated) {
            name.remove_prefix(1);
        }
        const Ranges* known = posix_class(name);
        if (known == nullptr) {
            return error("invalid character class range");
        }
        const Ranges used = negated ? complement(*known) : *known;
        ranges.insert(ranges.end(), used.begin(), used.end());
        offset_ = close + 2;
        return ok();
    }

    std::string_view text_;
    std::size_t offset_{0};
    bool fold_case_{false};
};

}  // namespace

Result<std::unique_ptr<Node>> parse(std::string_view expression) {
    if (expression.size() > kPatternBytesMax) {
        return fail(Code::too_large,
                    "pattern: longer than " + std::to_string(kPatternBytesMax) + " bytes");
    }
    return Parser(expression).run();
}

}  // namespace capstan::local::pattern
