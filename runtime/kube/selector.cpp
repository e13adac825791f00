#include "runtime/kube/selector.hpp"

#include <algorithm>

namespace capstan::kube {
Result<LabelSelector> LabelSelector::parse(std::string_view text) {
    LabelSelector selector;
    CAPSTAN_TRY(selector.selector_, capstan::LabelSelector::parse(text));
    return selector;
}

bool LabelSelector::matches(const Object& object) const {
    const auto& terms = selector_.terms();
    return std::all_of(terms.begin(), terms.end(), [&](const capstan::LabelSelector::Term& term) {
        return term.matches(object.label(term.key));
    });
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
