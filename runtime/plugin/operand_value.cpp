#include "runtime/plugin/operand_value.hpp"

#include "capstan/clock.hpp"

#include <charconv>
#include <cmath>
#include <utility>

namespace capstan::plugin {

namespace {

using Kind = OperandValue::Kind;
constexpr Int128 kNano = 1'000'000'000;
constexpr int kQuantityDigitsMax = 28;  // 10^28 * 10^9 stays below 2^127
// the range of Kubernetes quantities
const Int128 kExactMax = static_cast<Int128>(INT64_MAX) * kNano;

constexpr std::pair<std::string_view, As> kNames[] = {
    {"int", As::integer},
    {"quantity", As::quantity},
    {"duration", As::duration},
    {"time", As::time},
    {"string", As::text},
};

OperandValue exact_value(Kind kind, Int128 exact) {
    OperandValue value = OperandValue::of(kind);
    value.exact = exact;
    return value;
}

OperandValue real_value(double real) {
    OperandValue value = OperandValue::of(Kind::real);
    value.real = real;
    return value;
}

OperandValue plain(const json::Value& value) {
    switch (value.kind()) {
        case json::Kind::null: return {};
        case json::Kind::boolean: {
            OperandValue result = OperandValue::of(Kind::boolean);
            result.truth = *value.if_bool();
            return result;
        }
        case json::Kind::integer:
            return exact_value(Kind::number, static_cast<Int128>(*value.if_int()) * kNano);
        case json::Kind::real: return real_value(*value.if_real());
        case json::Kind::string: {
            OperandValue result = OperandValue::of(Kind::text);
            result.borrowed = *value.if_string();
            return result;
        }
        case json::Kind::array:
        case json::Kind::object: break;
    }
    OperandValue result = OperandValue::of(Kind::json);
    result.json = &value;
    return result;
}

OperandValue to_integer(const json::Value& value) {
    if (value.if_int() != nullptr) {
        return plain(value);
    }
    if (const std::string* text = value.if_string()) {
        std::int64_t number = 0;
        const char* begin = text->data() + (text->starts_with('+') ? 1 : 0);
        const auto [end, error] = std::from_chars(begin, text->data() + text->size(), number);
        if (error == std::errc{} && end == text->data() + text->size()) {
            return exact_value(Kind::number, static_cast<Int128>(number) * kNano);
        }
    }
    if (const double* real = value.if_real();
        real != nullptr && std::trunc(*real) == *real && std::fabs(*real) < 9e15) {
        return exact_value(Kind::number,
                           static_cast<Int128>(static_cast<std::int64_t>(*real)) * kNano);
    }
    return OperandValue::of(Kind::error);
}

OperandValue to_quantity(const json::Value& value) {
    if (value.if_int() != nullptr || value.if_real() != nullptr) {
        return plain(value);
    }
    const auto parsed =
        value.if_string() != nullptr ? parse_quantity(*value.if_string()) : std::nullopt;
    return parsed ? exact_value(Kind::number, *parsed) : OperandValue::of(Kind::error);
}

OperandValue to_text(const json::Value& value) {
    OperandValue result = plain(value);
    if (result.kind == Kind::text) {
        return result;
    }
    auto text = text_of(result);
    return text ? text_value(std::move(*text)) : OperandValue::of(Kind::error);
}

// The factor of a suffix as value * 10^power or value * 2^shift.
struct Suffix {
    int power10{0};
    int shift2{0};
};

std::optional<Suffix> suffix_of(std::string_view text) {
    static constexpr std::pair<std::string_view, Suffix> kSuffixes[] = {
        {"", {}},
        {"n", {-9, 0}},
        {"u", {-6, 0}},
        {"m", {-3, 0}},
        {"k", {3, 0}},
        {"M", {6, 0}},
        {"G", {9, 0}},
        {"T", {12, 0}},
        {"P", {15, 0}},
        {"E", {18, 0}},
        {"Ki", {0, 10}},
        {"Mi", {0, 20}},
        {"Gi", {0, 30}},
        {"Ti", {0, 40}},
        {"Pi", {0, 50}},
        {"Ei", {0, 60}},
    };
    for (const auto& [name, suffix] : kSuffixes) {
        if (name == text) {
            return suffix;
        }
    }
    if (text.size() >= 2 && text.size() <= 5 && (text[0] == 'e' || text[0] == 'E')) {
        int power = 0;
        const char* begin = text.data() + (text[1] == '+' ? 2 : 1);
        const auto [end, error] = std::from_chars(begin, text.data() + text.size(), power);
        if (error == std::errc{} && end == text.data() + text.size() && power >= -30 &&
            power <= 30) {
            return Suffix{power, 0};
        }
    }
    return std::nullopt;
}

std::optional<Int128> scale(Int128 mantissa, int power10, int shift2) {
    const Int128 limit = kExactMax;
    for (; power10 > 0; --power10) {
        if (mantissa > limit / 10) {
            return std::nullopt;
        }
        mantissa *= 10;
    }
    for (; shift2 > 0; --shift2) {
        if (mantissa > limit / 2) {
            return std::nullopt;
        }
        mantissa *= 2;
    }
    for (; power10 < 0 && mantissa != 0; ++power10) {
        mantissa = mantissa / 10 + (mantissa % 10 != 0 ? 1 : 0);
    }
    if (mantissa > limit) {
        return std::nullopt;
    }
    return mantissa;
}

}  // namespace

std::optional<As> as_from(std::string_view name) noexcept {
    for (const auto& [known, as] : kNames) {
        if (known == name) {
            return as;
        }
    }
    return std::nullopt;
}

std::string_view to_string(As as) noexcept {
    for (const auto& [name, known] : kNames) {
        if (known == as) {
            return name;
        }
    }
    return "none";
}

std::optional<Int128> parse_quantity(std::string_view text) {
    const bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) {
        text.remove_prefix(1);
    }
    Int128 mantissa = 0;
    int digits = 0, fraction = 0;
    bool seen_dot = false;
    std::size_t at = 0;
    for (; at < text.size(); ++at) {
        const char c = text[at];
        if (c == '.' && !seen_dot) {
            seen_dot = true;
        } else if (c >= '0' && c <= '9') {
            ++digits;
            if (mantissa != 0 || c != '0') {
                if (digits > kQuantityDigitsMax) {
                    return std::nullopt;
                }
            } else {
                --digits;  // leading zeros are free; the number has at least this one
            }
            mantissa = mantissa * 10 + (c - '0');
            fraction += seen_dot ? 1 : 0;
        } else {
            break;
        }
    }
    const bool has_digit = at > (seen_dot ? 1U : 0U);
    const auto suffix = suffix_of(text.substr(at));
    if (!has_digit || !suffix || fraction > kQuantityDigitsMax) {
        return std::nullopt;
    }
    // Binary suffixes first, so that 0.5Gi is exact; then the decimal point
    // and nano units together.
    Int128 shifted = mantissa;
    for (int i = 0; i < suffix->shift2; ++i) {
        if (shifted > (static_cast<Int128>(1) << 125)) {
            return std::nullopt;
        }
        shifted *= 2;
    }
    const auto scaled = scale(shifted, suffix->power10 + 9 - fraction, 0);
    if (!scaled) {
        return std::nullopt;
    }
    return negative ? -*scaled : *scaled;
}

OperandValue text_value(std::string text) {
    OperandValue value = OperandValue::of(Kind::text);
    value.owned = std::move(text);
    value.owns_text = true;
    return value;
}

std::optional<std::string> text_of(const OperandValue& value) {
    switch (value.kind) {
        case Kind::text: return std::string(value.text());
        case Kind::boolean: return value.truth ? "true" : "false";
        case Kind::number: {
            if (value.exact % kNano != 0) {
                return std::nullopt;
            }
            return std::to_string(static_cast<std::int64_t>(value.exact / kNano));
        }
        case Kind::real: {
            char buffer[32];
            const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value.real);
            return error == std::errc{} ? std::optional<std::string>(std::string(buffer, end))
                                        : std::nullopt;
        }
        default: return std::nullopt;
    }
}

OperandValue convert(const json::Value& value, As as) {
    if (value.is_null() || as == As::none) {
        return plain(value);
    }
    switch (as) {
        case As::integer: return to_integer(value);
        case As::quantity: return to_quantity(value);
        case As::text: return to_text(value);
        case As::duration: {
            const auto parsed =
                value.if_string() != nullptr ? parse_duration(*value.if_string()) : std::nullopt;
            return parsed ? exact_value(Kind::duration, parsed->count())
                          : OperandValue::of(Kind::error);
        }
        case As::time: {
            const auto parsed =
                value.if_string() != nullptr ? parse_rfc3339(*value.if_string()) : std::nullopt;
            return parsed ? exact_value(Kind::time, parsed->time_since_epoch().count())
                          : OperandValue::of(Kind::error);
        }
        case As::none: break;
    }
    return plain(value);
}

namespace {

bool is_numeric(Kind kind) noexcept {
    return kind == Kind::number || kind == Kind::real;
}

double real_of(const OperandValue& value) noexcept {
    return value.kind == Kind::real ? value.real : static_cast<double>(value.exact) / 1e9;
}

template <class T>
int sign(const T& a, const T& b) noexcept {
    return a < b ? -1 : (b < a ? 1 : 0);
}

}  // namespace

bool equal(const OperandValue& a, const OperandValue& b) {
    if (a.kind != b.kind) {
        return is_numeric(a.kind) && is_numeric(b.kind) && real_of(a) == real_of(b);
    }
    switch (a.kind) {
        case Kind::boolean: return a.truth == b.truth;
        case Kind::text: return a.text() == b.text();
        case Kind::real: return a.real == b.real;
        case Kind::json: return *a.json == *b.json;
        case Kind::number:
        case Kind::duration:
        case Kind::time: return a.exact == b.exact;
        case Kind::absent:
        case Kind::error: break;
    }
    return false;
}

std::optional<int> order(const OperandValue& a, const OperandValue& b) {
    if (is_numeric(a.kind) && is_numeric(b.kind)) {
        return a.kind == Kind::number && b.kind == Kind::number ? sign(a.exact, b.exact)
                                                                : sign(real_of(a), real_of(b));
    }
    if (a.kind != b.kind) {
        return std::nullopt;
    }
    if (a.kind == Kind::text) {
        return sign(a.text(), b.text());
    }
    if (a.kind == Kind::duration || a.kind == Kind::time) {
        return sign(a.exact, b.exact);
    }
    return std::nullopt;
}

OperandValue difference(const OperandValue& a, const OperandValue& b) {
    if (a.kind == Kind::absent || b.kind == Kind::absent) {
        return {};
    }
    if (a.kind == b.kind && (a.kind == Kind::number || a.kind == Kind::duration)) {
        return exact_value(a.kind, a.exact - b.exact);
    }
    if (a.kind == Kind::time && b.kind == Kind::time) {
        return exact_value(Kind::duration, a.exact - b.exact);
    }
    if (is_numeric(a.kind) && is_numeric(b.kind)) {
        return real_value(real_of(a) - real_of(b));
    }
    return OperandValue::of(Kind::error);
}

}  // namespace capstan::plugin
