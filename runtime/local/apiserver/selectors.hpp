// Label and field selectors of list, watch and deletecollection. Parsed once, matched per object.
#pragma once

#include "runtime/local/apiserver/status.hpp"

#include "capstan/json.hpp"
#include "capstan/label_selector.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

inline constexpr std::size_t kSelectorTermsMax = 256;

// capstan::LabelSelector over whole objects; refusals are the API server's.
class LabelSelector {
public:
    static Answer<LabelSelector> parse(std::string_view text);  // 400
    bool matches(const json::Value& object) const;
    bool empty() const noexcept { return selector_.empty(); }

private:
    capstan::LabelSelector selector_;
};

// `metadata.name=x,status.phase!=Failed`; `\` escapes comma, equals sign and backslash in values.
class FieldSelector {
public:
    struct Term {
        std::string field;  // "metadata.name"
        std::string value;
        bool negated{false};
    };
    // `allowed`: the fields this resource declares besides metadata.name and
    // metadata.namespace; else 400.
    static Answer<FieldSelector> parse(std::string_view text,
                                       const std::vector<std::string>& allowed);
    bool matches(const json::Value& object) const;
    bool empty() const noexcept { return terms_.empty(); }
    // Value of `metadata.name=`; empty when the selector does not pin it.
    std::string_view exact_name() const noexcept;
    // Fields that start with `from` start with `to` instead: one API's names to the stored ones.
    void rename_prefix(std::string_view from, std::string_view to);

private:
    std::vector<Term> terms_;
};

}  // namespace capstan::local
