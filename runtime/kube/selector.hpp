// Label and field selectors: parsed once, matched on cached objects, printed for URLs. Thread: any
// (values). Source: apimachinery labels.Parse and fields.ParseSelector.
#pragma once

#include "capstan/error.hpp"
#include "runtime/kube/object.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::kube {

inline constexpr std::size_t kSelectorBytesMax = 8 * 1024;
inline constexpr std::size_t kSelectorTermsMax = 128;

struct LabelTerm {
    enum class Op : std::uint8_t { in, not_in, exists, absent, greater, less };
    std::string key;
    Op op{Op::exists};
    std::vector<std::string> values;  // sorted; one for greater and less
};

// Empty: everything. "!=" and "notin" also match objects without the key.
class LabelSelector {
public:
    LabelSelector() = default;
    // "a=b,c!=d,e in (f,g),h notin (i),j,!k,l>3,m<4". Errors: invalid with the offset, too_large.
    static Result<LabelSelector> parse(std::string_view text);

    bool empty() const noexcept { return terms_.empty(); }
    bool matches(const Object& object) const;
    std::string to_string() const;  // canonical: terms in order given, values sorted
    const std::vector<LabelTerm>& terms() const noexcept { return terms_; }

private:
    std::vector<LabelTerm> terms_;
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
