#include "runtime/local/apiserver/selectors.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace capstan::local {
Answer<LabelSelector> LabelSelector::parse(std::string_view text) {
    LabelSelector selector;
    auto parsed = capstan::LabelSelector::parse(text);
    if (!parsed) {
        return refuse(bad_request("unable to parse requirement: " + parsed.error().message));
    }
    selector.selector_ = std::move(parsed).value();
    return selector;
}

bool LabelSelector::matches(const json::Value& object) const {
    const json::Value* metadata = object.find("metadata");
    return selector_.matches(metadata == nullptr ? nullptr : metadata->find("labels"));
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
