#include "runtime/kube/selector.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace capstan::kube {
namespace {

// Tokens of the label grammar: words, and the marks = == != ( ) , ! < >.
class Scanner {
public:
    explicit Scanner(std::string_view text) : text_(text) {}

    std::string_view peek() {
        const std::size_t saved = at_;
        const std::string_view token = next();
        at_ = saved;
        return token;
    }
    std::string_view next() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) {
            ++at_;
        }
        const std::size_t start = at_;
        if (at_ == text_.size()) {
            return {};
        }
        if (is_mark(text_[at_])) {
            const char first = text_[at_++];
            if ((first == '=' || first == '!') && at_ < text_.size() && text_[at_] == '=') {
                ++at_;
            }
        } else {
            while (at_ < text_.size() && !is_mark(text_[at_]) && text_[at_] != ' ' &&
                   text_[at_] != '\t') {
                ++at_;
            }
        }
        return text_.substr(start, at_ - start);
    }
    bool skip(std::string_view token) {
        if (peek() != token) {
            return false;
        }
        next();
        return true;
    }
    bool at_end() { return peek().empty(); }
    Error error(std::string_view what) const {
        return Error{
            Code::invalid, "selector offset " + std::to_string(at_) + ": " + std::string(what), {}};
    }
    static bool is_mark(char c) {
        return std::string_view("=!(),<>").find(c) != std::string_view::npos;
    }

private:
    std::string_view text_;
    std::size_t at_{0};
};

bool is_name_text(std::string_view text) {
    const auto alnum = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    };
    const auto inside = [&](char c) { return alnum(c) || c == '-' || c == '_' || c == '.'; };
    return !text.empty() && text.size() <= 63 && alnum(text.front()) && alnum(text.back()) &&
           std::all_of(text.begin(), text.end(), inside);
}

bool is_key(std::string_view text) {
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos) {
        return is_name_text(text);
    }
    const std::string_view prefix = text.substr(0, slash);
    const auto inside = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '.';
    };
    return !prefix.empty() && prefix.size() <= 253 &&
           std::all_of(prefix.begin(), prefix.end(), inside) &&
           is_name_text(text.substr(slash + 1));
}

std::optional<std::int64_t> to_integer(std::string_view text) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(number)
                                                                    : std::nullopt;
}

Result<std::string> parse_value(Scanner& scanner) {
    const std::string_view token = scanner.peek();
    if (token.empty() || Scanner::is_mark(token.front())) {
        return std::string();  // "a=" matches the empty value
    }
    scanner.next();
    if (!is_name_text(token)) {
        return fail(
            scanner.error("\"" + std::string(token.substr(0, 80)) + "\" is not a label value"));
    }
    return std::string(token);
}

Result<void> parse_set(Scanner& scanner, LabelTerm& term) {
    if (!scanner.skip("(")) {
        return fail(scanner.error("expected ("));
    }
    do {
        CAPSTAN_TRY(std::string value, parse_value(scanner));
        term.values.push_back(std::move(value));
    } while (scanner.skip(","));
    if (!scanner.skip(")")) {
        return fail(scanner.error("expected , or )"));
    }
    std::sort(term.values.begin(), term.values.end());
    term.values.erase(std::unique(term.values.begin(), term.values.end()), term.values.end());
    return ok();
}

Result<LabelTerm> parse_term(Scanner& scanner) {
    LabelTerm term;
    const bool negated = scanner.skip("!");
    const std::string_view key = scanner.next();
    if (!is_key(key)) {
        return fail(scanner.error("\"" + std::string(key.substr(0, 80)) + "\" is not a label key"));
    }
    term.key = key;
    const std::string_view op = scanner.peek();
    if (negated || op.empty() || op == ",") {
        term.op = negated ? LabelTerm::Op::absent : LabelTerm::Op::exists;
        return term;
    }
    scanner.next();
    if (op == "in" || op == "notin") {
        term.op = op == "in" ? LabelTerm::Op::in : LabelTerm::Op::not_in;
        CAPSTAN_TRY(parse_set(scanner, term));
        return term;
    }
    if (op == "=" || op == "==") {
        term.op = LabelTerm::Op::in;
    } else if (op == "!=") {
        term.op = LabelTerm::Op::not_in;
    } else if (op == ">" || op == "<") {
        term.op = op == ">" ? LabelTerm::Op::greater : LabelTerm::Op::less;
    } else {
        return fail(
            scanner.error("expected =, ==, !=, in, notin, < or > after \"" + term.key + "\""));
    }
    CAPSTAN_TRY(std::string value, parse_value(scanner));
    if ((op == ">" || op == "<") && !to_integer(value)) {
        return fail(scanner.error("\"" + value + "\" is not an integer"));
    }
    term.values.push_back(std::move(value));
    return term;
}

bool matches_term(const LabelTerm& term, const std::optional<std::string>& value) {
    const auto listed = [&] {
        return std::binary_search(term.values.begin(), term.values.end(), *value);
    };
    switch (term.op) {
        case LabelTerm::Op::exists: return value.has_value();
        case LabelTerm::Op::absent: return !value;
        case LabelTerm::Op::in: return value && listed();
        case LabelTerm::Op::not_in: return !value || !listed();
        case LabelTerm::Op::greater:
        case LabelTerm::Op::less: {
            const auto have = value ? to_integer(*value) : std::nullopt;
            const auto limit = to_integer(term.values.front());
            return have && limit &&
                   (term.op == LabelTerm::Op::greater ? *have > *limit : *have < *limit);
        }
    }
    return false;
}

}  // namespace

Result<LabelSelector> LabelSelector::parse(std::string_view text) {
    if (text.size() > kSelectorBytesMax) {
        return fail(Code::too_large, "label selector of " + std::to_string(text.size()) + " bytes");
    }
    LabelSelector selector;
    Scanner scanner(text);
    while (!scanner.at_end()) {
        if (!selector.terms_.empty() && !scanner.skip(",")) {
            return fail(scanner.error("expected ,"));
        }
        CAPSTAN_TRY(LabelTerm term, parse_term(scanner));
        selector.terms_.push_back(std::move(term));
        if (selector.terms_.size() > kSelectorTermsMax) {
            return fail(
                Code::too_large,
                "label selector of more than " + std::to_string(kSelectorTermsMax) + " terms");
        }
    }
    return selector;
}

bool LabelSelector::matches(const Object& object) const {
    return std::all_of(terms_.begin(), terms_.end(), [&](const LabelTerm& term) {
        return matches_term(term, object.label(term.key));
    });
}

std::string LabelSelector::to_string() const {
    std::string text;
    for (const LabelTerm& term : terms_) {
        text += text.empty() ? "" : ",";
        std::string values;
        for (const std::string& value : term.values) {
            values += (values.empty() && &value == &term.values.front() ? "" : ",") + value;
        }
        const bool one = term.values.size() == 1;
        switch (term.op) {
            case LabelTerm::Op::exists: text += term.key; break;
            case LabelTerm::Op::absent: text += "!" + term.key; break;
            case LabelTerm::Op::greater: text += term.key + ">" + values; break;
            case LabelTerm::Op::less: text += term.key + "<" + values; break;
            case LabelTerm::Op::in:
                text += term.key + (one ? "=" + values : " in (" + values + ")");
                break;
            case LabelTerm::Op::not_in:
                text += term.key + (one ? "!=" + values : " notin (" + values + ")");
                break;
        }
    }
    return text;
}

Result<FieldSelector> FieldSelector::parse(std::string_view text) {
    if (text.size() > kSelectorBytesMax) {
        return fail(Code::too_large, "field selector of " + std::to_string(text.size()) + " bytes");
    }
    FieldSelector selector;
    std::size_t at = 0;
    while (at < text.size()) {
        FieldTerm term;
        const std::size_t mark = std::min(text.find_first_of("=!", at), text.size());
        term.field = text.substr(at, mark - at);
        term.equal = text.substr(mark, 1) == "=";
        at = mark + (text.substr(mark, 2) == "!=" || text.substr(mark, 2) == "==" ? 2 : 1);
        if (term.field.empty() || mark == text.size() ||
            (!term.equal && text.substr(mark, 2) != "!=")) {
            return fail(Code::invalid,
                        "field selector offset " + std::to_string(mark) + ": expected field=value");
        }
        for (; at < text.size() && text[at] != ','; ++at) {
            if (text[at] == '\\' && at + 1 < text.size()) {
                ++at;
            } else if (text[at] == '=' || text[at] == '\\') {
                return fail(Code::invalid,
                            "field selector offset " + std::to_string(at) +
                                ": unescaped special character");
            }
            term.value += text[at];
        }
        ++at;  // the comma
        selector.terms_.push_back(std::move(term));
        if (selector.terms_.size() > kSelectorTermsMax) {
            return fail(
                Code::too_large,
                "field selector of more than " + std::to_string(kSelectorTermsMax) + " terms");
        }
    }
    return selector;
}

bool FieldSelector::matches(const Object& object) const {
    return std::all_of(terms_.begin(), terms_.end(), [&](const FieldTerm& term) {
        std::string pointer = "/" + term.field;
        std::replace(pointer.begin(), pointer.end(), '.', '/');
        return (object.string_field(pointer).value_or("") == term.value) == term.equal;
    });
}

std::string FieldSelector::to_string() const {
    std::string text;
    for (const FieldTerm& term : terms_) {
        text += (text.empty() ? "" : ",") + term.field + (term.equal ? "=" : "!=");
        for (const char c : term.value) {
            text += c == ',' || c == '=' || c == '\\' ? std::string{'\\', c} : std::string{c};
        }
    }
    return text;
}

}  // namespace capstan::kube
