#include "runtime/local/apiserver/selectors.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace capstan::local {
namespace {

std::optional<std::int64_t> to_int(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        return std::nullopt;
    }
    return value;
}

bool is_label_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '/';
}

}  // namespace

class LabelSelector::Parser {
public:
    explicit Parser(std::string_view text) : text_(text), rest_(text) {}

    Answer<std::vector<Term>> run() {
        std::vector<Term> terms;
        skip_blanks();
        while (!rest_.empty()) {
            Term term;
            if (!parse_term(term)) {
                return refuse(bad_request("unable to parse requirement: found '" +
                                          std::string(rest_.substr(0, 64)) + "' in \"" +
                                          std::string(text_.substr(0, 256)) + "\""));
            }
            terms.push_back(std::move(term));
            if (terms.size() > kSelectorTermsMax) {
                return refuse(bad_request("label selector has more than 256 requirements"));
            }
            skip_blanks();
            if (!rest_.empty() && !(take(',') && (skip_blanks(), !rest_.empty()))) {
                return refuse(bad_request("unable to parse requirement: found '" +
                                          std::string(rest_.substr(0, 64)) +
                                          "', expected: ',' or 'end of string'"));
            }
        }
        return terms;
    }

private:
    void skip_blanks() {
        while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t')) {
            rest_.remove_prefix(1);
        }
    }
    bool take(char c) {
        if (rest_.empty() || rest_.front() != c) {
            return false;
        }
        rest_.remove_prefix(1);
        return true;
    }
    std::string word() {
        std::size_t size = 0;
        while (size < rest_.size() && is_label_char(rest_[size])) {
            ++size;
        }
        std::string found(rest_.substr(0, size));
        rest_.remove_prefix(size);
        return found;
    }
    bool value_list(Term& term) {
        skip_blanks();
        if (!take('(')) {
            return false;
        }
        while (true) {
            skip_blanks();
            term.values.push_back(word());
            skip_blanks();
            if (take(')')) {
                return true;
            }
            if (!take(',')) {
                return false;
            }
        }
    }
    bool parse_term(Term& term) {
        skip_blanks();
        const bool negated = take('!');
        skip_blanks();
        term.key = word();
        if (term.key.empty()) {
            return false;
        }
        skip_blanks();
        if (negated) {
            term.op = Operator::absent;
            return true;
        }
        if (rest_.empty() || rest_.front() == ',') {
            term.op = Operator::exists;
            return true;
        }
        if (take('=')) {
            take('=');
            return single(term, Operator::in);
        }
        if (take('!')) {
            return take('=') && single(term, Operator::not_in);
        }
        if (take('>') || rest_.front() == '<') {
            term.op = rest_.front() == '<' && take('<') ? Operator::less : Operator::greater;
            skip_blanks();
            const auto bound = to_int(word());
            term.bound = bound.value_or(0);
            return bound.has_value();
        }
        const std::string op = word();
        term.op = op == "in" ? Operator::in : Operator::not_in;
        return (op == "in" || op == "notin") && value_list(term);
    }
    bool single(Term& term, Operator op) {
        term.op = op;
        skip_blanks();
        term.values.push_back(word());
        return true;
    }

    std::string_view text_;
    std::string_view rest_;
};

Answer<LabelSelector> LabelSelector::parse(std::string_view text) {
    LabelSelector selector;
    CAPSTAN_TRY(selector.terms_, Parser(text).run());
    return selector;
}

bool LabelSelector::holds(const Term& term, const std::string* value) {
    const auto listed = [&] {
        return std::find(term.values.begin(), term.values.end(), *value) != term.values.end();
    };
    switch (term.op) {
        case Operator::in: return value != nullptr && listed();
        case Operator::not_in: return value == nullptr || !listed();
        case Operator::exists: return value != nullptr;
        case Operator::absent: return value == nullptr;
        case Operator::greater:
        case Operator::less: {
            const auto number = value == nullptr ? std::nullopt : to_int(*value);
            return number &&
                   (term.op == Operator::greater ? *number > term.bound : *number < term.bound);
        }
    }
    return false;
}

bool LabelSelector::matches(const json::Value& object) const {
    if (terms_.empty()) {
        return true;
    }
    const json::Value* metadata = object.find("metadata");
    const json::Value* labels = metadata == nullptr ? nullptr : metadata->find("labels");
    return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
        const json::Value* value = labels == nullptr ? nullptr : labels->find(term.key);
        return holds(term, value == nullptr ? nullptr : value->if_string());
    });
}

namespace {

// Splits at unescaped commas; `\,`, `\=` and `\\` are unescaped in the value only.
std::optional<FieldSelector::Term> parse_field_term(std::string_view text) {
    FieldSelector::Term term;
    std::size_t at = text.find_first_of("!=");
    if (at == std::string_view::npos || at == 0) {
        return std::nullopt;
    }
    term.field = text.substr(0, at);
    term.negated = text[at] == '!';
    if (term.negated && (at + 1 >= text.size() || text[at + 1] != '=')) {
        return std::nullopt;
    }
    at += term.negated ? 2 : 1;
    if (!term.negated && at < text.size() && text[at] == '=') {
        ++at;
    }
    for (; at < text.size(); ++at) {
        if (text[at] == '\\') {
            if (++at == text.size() || (text[at] != '\\' && text[at] != ',' && text[at] != '=')) {
                return std::nullopt;
            }
        } else if (text[at] == '=') {
            return std::nullopt;
        }
        term.value += text[at];
    }
    return term;
}

// A missing field reads as "", as kube-apiserver's field sets do.
std::string field_text(const json::Value& object, std::string_view field) {
    const json::Value* at = &object;
    while (at != nullptr && !field.empty()) {
        const std::size_t end = std::min(field.find('.'), field.size());
        at = at->find(field.substr(0, end));
        field.remove_prefix(std::min(end + 1, field.size()));
    }
    if (at == nullptr || at->is_null()) {
        return {};
    }
    const std::string* text = at->if_string();
    return text != nullptr ? *text : json::dump(*at);
}

}  // namespace

Answer<FieldSelector> FieldSelector::parse(std::string_view text,
                                           const std::vector<std::string>& allowed) {
    FieldSelector selector;
    while (!text.empty()) {
        std::size_t end = 0;
        while (end < text.size() && text[end] != ',') {
            end += text[end] == '\\' ? 2 : 1;
        }
        end = std::min(end, text.size());
        const std::string_view item = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (item.empty()) {
            continue;
        }
        auto term = parse_field_term(item);
        if (!term || selector.terms_.size() >= kSelectorTermsMax) {
            return refuse(bad_request("invalid field selector: \"" +
                                      std::string(item.substr(0, 256)) + "\""));
        }
        const bool known = term->field == "metadata.name" || term->field == "metadata.namespace" ||
                           std::find(allowed.begin(), allowed.end(), term->field) != allowed.end();
        if (!known) {
            return refuse(bad_request("field label not supported: " + term->field));
        }
        selector.terms_.push_back(std::move(*term));
    }
    return selector;
}

bool FieldSelector::matches(const json::Value& object) const {
    return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
        return (field_text(object, term.field) == term.value) != term.negated;
    });
}

void FieldSelector::rename_prefix(std::string_view from, std::string_view to) {
    for (Term& term : terms_) {
        if (term.field.starts_with(from)) {
            term.field = std::string(to) + term.field.substr(from.size());
        }
    }
}

std::string_view FieldSelector::exact_name() const noexcept {
    for (const Term& term : terms_) {
        if (term.field == "metadata.name" && !term.negated) {
            return term.value;
        }
    }
    return {};
}

}  // namespace capstan::local
