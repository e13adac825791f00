// One value inside a predicate: an exact number, a duration, a time, a text, a truth value.
// Internal to predicates.
// Thread: any (values).
#pragma once

#include "capstan/json.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::plugin {

enum class As : std::uint8_t { none, integer, quantity, duration, time, text };
std::optional<As> as_from(std::string_view name) noexcept;
std::string_view to_string(As as) noexcept;

__extension__ typedef __int128 Int128;  // exact quantities: 2^63 in nano units needs 93 bits

struct OperandValue {
    enum class Kind : std::uint8_t {
        absent,
        error,   // a conversion failed
        number,  // int, quantity: `exact` in 10^-9
        real,
        duration,  // `exact` in ns
        time,      // `exact` in ns since 1970
        text,
        boolean,
        json,  // an array or object: only equal or not
    };
    Kind kind{Kind::absent};
    bool truth{false};
    bool owns_text{false};
    Int128 exact{0};
    double real{0};
    std::string_view borrowed;
    std::string owned;
    const json::Value* json{nullptr};

    std::string_view text() const noexcept {
        return owns_text ? std::string_view(owned) : borrowed;
    }
    static OperandValue of(Kind kind) noexcept {
        OperandValue value;
        value.kind = kind;
        return value;
    }
};

// Borrows texts from `value`. JSON null is absent. A failed conversion is Kind::error.
OperandValue convert(const json::Value& value, As as);
// for concat and "as": "string"; nullopt: no scalar
std::optional<std::string> text_of(const OperandValue& value);
OperandValue text_value(std::string text);

// "1.5Gi", "100m", "1e3" in 10^-9 units, rounded up as Kubernetes does. nullopt:
// malformed or out of range.
std::optional<Int128> parse_quantity(std::string_view text);

bool equal(const OperandValue& a, const OperandValue& b);  // different kinds are unequal
// -1, 0, 1; nullopt: these cannot be ordered.
std::optional<int> order(const OperandValue& a, const OperandValue& b);
OperandValue difference(const OperandValue& a, const OperandValue& b);

}  // namespace capstan::plugin
