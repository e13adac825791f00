// Kubernetes label selectors over an object's labels: "a=b,c!=d,e in (f,g),h notin
// (i),j,!k,l>3,m<4". The one parser of the project. Source: apimachinery labels.Parse. Values;
// thread: any.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan {

class LabelSelector {
public:
    static constexpr std::size_t kBytesMax = 8 * 1024;
    static constexpr std::size_t kTermsMax = 256;

    enum class Op : std::uint8_t { in, not_in, exists, absent, greater, less };
    struct Term {
        std::string key;
        Op op{Op::exists};
        std::vector<std::string> values;  // sorted; one for greater and less

        // nullopt: the label is absent, which "!=" and "notin" match.
        bool matches(std::optional<std::string_view> value) const noexcept;
    };

    LabelSelector() = default;
    // Keys and values must be what labels may be. Errors: invalid, with the offset; too_large.
    static Result<LabelSelector> parse(std::string_view text);

    bool empty() const noexcept { return terms_.empty(); }  // matches everything
    bool matches(const json::Value* labels) const;          // metadata.labels; nullptr: none
    std::string to_string() const;  // canonical: terms in the order given, values sorted
    const std::vector<Term>& terms() const noexcept { return terms_; }

private:
    std::vector<Term> terms_;
};

}  // namespace capstan
