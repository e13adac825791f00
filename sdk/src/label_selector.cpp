#include "capstan/label_selector.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace capstan {

namespace {

bool is_word(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '/';
}

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

std::optional<std::int64_t> to_integer(std::string_view text) noexcept {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        return std::nullopt;
    }
    return value;
}

class Parser {
public:
    explicit Parser(std::string_view text) noexcept : text_(text) {}

    Result<std::vector<LabelSelector::Term>> run() {
        std::vector<LabelSelector::Term> terms;
        skip_space();
        while (at_ < text_.size()) {
            if (terms.size() == LabelSelector::kTermsMax) {
                return fail(Code::too_large,
                            "a label selector of more than " +
                                std::to_string(LabelSelector::kTermsMax) + " terms");
            }
            CAPSTAN_TRY(auto term, next_term());
            terms.push_back(std::move(term));
            skip_space();
            if (at_ == text_.size()) {
                break;
            }
            if (!take(",")) {
                return wrong("expected ','");
            }
            skip_space();
            if (at_ == text_.size()) {
                return wrong("expected a term after ','");
            }
        }
        return terms;
    }

private:
    using Op = LabelSelector::Op;

    Result<LabelSelector::Term> next_term() {
        const bool negated = take("!");
        skip_space();
        std::string key(word());
        if (key.empty()) {
            return wrong("expected a label key");
        }
        if (!is_key(key)) {
            return wrong("\"" + key + "\" is not a label key");
        }
        if (negated) {
            return LabelSelector::Term{std::move(key), Op::absent, {}};
        }
        skip_space();
        if (take("!=")) {
            return one_value(std::move(key), Op::not_in);
        }
        if (take("==") || take("=")) {
            return one_value(std::move(key), Op::in);
        }
        if (take(">")) {
            return one_value(std::move(key), Op::greater);
        }
        if (take("<")) {
            return one_value(std::move(key), Op::less);
        }
        const std::size_t before = at_;
        const std::string_view name = word();
        if (name == "in" || name == "notin") {
            return set(std::move(key), name == "in" ? Op::in : Op::not_in);
        }
        at_ = before;
        return LabelSelector::Term{std::move(key), Op::exists, {}};
    }

    Result<LabelSelector::Term> one_value(std::string key, Op op) {
        skip_space();
        CAPSTAN_TRY(std::string value, next_value());
        if ((op == Op::greater || op == Op::less) && !to_integer(value)) {
            return wrong("expected an integer");
        }
        return LabelSelector::Term{std::move(key), op, {std::move(value)}};
    }

    Result<LabelSelector::Term> set(std::string key, Op op) {
        skip_space();
        if (!take("(")) {
            return wrong("expected '('");
        }
        LabelSelector::Term term{std::move(key), op, {}};
        for (;;) {
            skip_space();
            CAPSTAN_TRY(std::string value, next_value());
            term.values.push_back(std::move(value));
            skip_space();
            if (take(")")) {
                std::sort(term.values.begin(), term.values.end());
                term.values.erase(std::unique(term.values.begin(), term.values.end()),
                                  term.values.end());
                return term;
            }
            if (!take(",")) {
                return wrong("expected ',' or ')'");
            }
        }
    }

    Result<std::string> next_value() {
        std::string value(word());
        if (!value.empty() && !is_name_text(value)) {
            return wrong("\"" + value + "\" is not a label value");
        }
        return value;
    }

    void skip_space() noexcept {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) {
            ++at_;
        }
    }
    bool take(std::string_view token) noexcept {
        if (!text_.substr(at_).starts_with(token)) {
            return false;
        }
        at_ += token.size();
        return true;
    }
    std::string_view word() noexcept {
        const std::size_t begin = at_;
        while (at_ < text_.size() && is_word(text_[at_])) {
            ++at_;
        }
        return text_.substr(begin, at_ - begin);
    }
    auto wrong(std::string_view what) const -> decltype(fail(Code::invalid, std::string())) {
        return fail(Code::invalid,
                    "label selector, offset " + std::to_string(at_) + ": " + std::string(what));
    }

    std::string_view text_;
    std::size_t at_{0};
};

}  // namespace

bool LabelSelector::Term::matches(std::optional<std::string_view> value) const noexcept {
    const auto listed = [&] {
        return std::find(values.begin(), values.end(), *value) != values.end();
    };
    switch (op) {
        case Op::exists: return value.has_value();
        case Op::absent: return !value;
        case Op::in: return value && listed();
        case Op::not_in: return !value || !listed();
        case Op::greater:
        case Op::less: {
            const auto left = value ? to_integer(*value) : std::nullopt;
            const auto right = to_integer(values.front());
            return left && right && (op == Op::greater ? *left > *right : *left < *right);
        }
    }
    return false;
}

Result<LabelSelector> LabelSelector::parse(std::string_view text) {
    if (text.size() > kBytesMax) {
        return fail(Code::too_large, "a label selector of more than 8 KiB");
    }
    CAPSTAN_TRY(auto terms, Parser(text).run());
    LabelSelector selector;
    selector.terms_ = std::move(terms);
    return selector;
}

bool LabelSelector::matches(const json::Value* labels) const {
    return std::all_of(terms_.begin(), terms_.end(), [labels](const Term& term) {
        const json::Value* found = labels != nullptr ? labels->find(term.key) : nullptr;
        const std::string* text = found != nullptr ? found->if_string() : nullptr;
        return term.matches(text != nullptr ? std::optional<std::string_view>(*text)
                                            : std::nullopt);
    });
}

std::string LabelSelector::to_string() const {
    std::string text;
    for (const Term& term : terms_) {
        text += text.empty() ? "" : ",";
        std::string values;
        for (const std::string& value : term.values) {
            values += (values.empty() && &value == &term.values.front() ? "" : ",") + value;
        }
        const bool one = term.values.size() == 1;
        switch (term.op) {
            case Op::exists: text += term.key; break;
            case Op::absent: text += "!" + term.key; break;
            case Op::greater: text += term.key + ">" + values; break;
            case Op::less: text += term.key + "<" + values; break;
            case Op::in: text += term.key + (one ? "=" + values : " in (" + values + ")"); break;
            case Op::not_in:
                text += term.key + (one ? "!=" + values : " notin (" + values + ")");
                break;
        }
    }
    return text;
}

}  // namespace capstan
