// Label and field selectors: parsed once, matched on cached objects, printed for URLs. Thread: any
// (values). Source of field selectors: apimachinery fields.ParseSelector.
#pragma once

#include "capstan/error.hpp"
#include "capstan/label_selector.hpp"
#include "runtime/kube/object.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::kube {

inline constexpr std::size_t kSelectorBytesMax = 8 * 1024;
inline constexpr std::size_t kSelectorTermsMax = 128;

// capstan::LabelSelector over cached objects. Empty: everything.
class LabelSelector {
public:
    LabelSelector() = default;
    // Errors: invalid with the offset, too_large.
    static Result<LabelSelector> parse(std::string_view text);

    bool empty() const noexcept { return selector_.empty(); }
    bool matches(const Object& object) const;
    std::string to_string() const { return selector_.to_string(); }  // canonical

private:
    capstan::LabelSelector selector_;
};

struct FieldTerm {
    std::string field;  // "metadata.name"
    bool equal{true};
    std::string value;
};

// Only "=", "==", "!="; comma is AND; a backslash escapes comma, equals sign and backslash in
// values.
class FieldSelector {
public:
    FieldSelector() = default;
    static Result<FieldSelector> parse(std::string_view text);

    bool empty() const noexcept { return terms_.empty(); }
    // A field "a.b" is looked up as /a/b; absent counts as "".
    bool matches(const Object& object) const;
    std::string to_string() const;
    const std::vector<FieldTerm>& terms() const noexcept { return terms_; }

private:
    std::vector<FieldTerm> terms_;
};

}  // namespace capstan::kube
