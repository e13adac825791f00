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
                return fail(Code::too_large, "a label selector of more than 128 terms");
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
        std::string value(word());
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
            term.values.emplace_back(word());
            skip_space();
            if (take(")")) {
                return term;
            }
            if (!take(",")) {
                return wrong("expected ',' or ')'");
            }
        }
    }

    void skip_space() noexcept {
        while (at_ < text_.size() && text_[at_] == ' ') {
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

bool term_matches(const LabelSelector::Term& term, const std::string* value) noexcept {
    using Op = LabelSelector::Op;
    const auto listed = [&term](const std::string& wanted) {
        return std::find(term.values.begin(), term.values.end(), wanted) != term.values.end();
    };
    switch (term.op) {
        case Op::exists: return value != nullptr;
        case Op::absent: return value == nullptr;
        case Op::in: return value != nullptr && listed(*value);
        case Op::not_in: return value == nullptr || !listed(*value);
        case Op::greater:
        case Op::less: {
            const auto left = value != nullptr ? to_integer(*value) : std::nullopt;
            const auto right = to_integer(term.values.front());
            return left && right && (term.op == Op::greater ? *left > *right : *left < *right);
        }
    }
    return false;
}

}  // namespace

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
        return term_matches(term, found != nullptr ? found->if_string() : nullptr);
    });
}

}  // namespace capstan
