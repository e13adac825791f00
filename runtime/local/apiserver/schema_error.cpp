#include "runtime/local/apiserver/schema_error.hpp"

#include "runtime/local/apiserver/schema_structural.hpp"

namespace capstan::local {

namespace {

// A string is shown quoted, everything else as JSON; both cut, for a refused
// value may be a megabyte.
std::string value_text(const json::Value& value) {
    std::string text = json::dump(value);
    if (text.size() > kErrorValueBytesMax) {
        std::size_t end = kErrorValueBytesMax;
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) {
            --end;  // do not cut inside a code point
        }
        text.resize(end);
        text += "...";
        if (value.is_string()) {
            text += '"';
        }
    }
    return text;
}

std::string with_reason(std::string text, std::string_view why) {
    if (!why.empty()) {
        text += ": ";
        text += why;
    }
    return text;
}

}  // namespace

std::string_view to_string(FieldReason reason) noexcept {
    switch (reason) {
        case FieldReason::invalid: return "FieldValueInvalid";
        case FieldReason::required: return "FieldValueRequired";
        case FieldReason::not_supported: return "FieldValueNotSupported";
        case FieldReason::type_invalid: return "FieldValueTypeInvalid";
        case FieldReason::duplicate: return "FieldValueDuplicate";
        case FieldReason::too_long: return "FieldValueTooLong";
        case FieldReason::too_many: return "FieldValueTooMany";
        case FieldReason::forbidden: return "FieldValueForbidden";
        case FieldReason::not_found: return "FieldValueNotFound";
    }
    return "FieldValueInvalid";
}

FieldError invalid_value(std::string_view field, const json::Value& value, std::string_view why) {
    return {std::string(field),
            FieldReason::invalid,
            with_reason("Invalid value: " + value_text(value), why)};
}

FieldError wrong_type_value(std::string_view field,
                            const json::Value& value,
                            std::string_view why) {
    FieldError error = invalid_value(field, value, why);
    error.reason = FieldReason::type_invalid;
    return error;
}

FieldError required_value(std::string_view field, std::string_view why) {
    return {std::string(field), FieldReason::required, with_reason("Required value", why)};
}

FieldError unsupported_value(std::string_view field,
                             const json::Value& value,
                             const std::vector<std::string>& known) {
    std::string detail = "Unsupported value: " + value_text(value);
    for (std::size_t i = 0; i < known.size(); ++i) {
        detail += i == 0 ? ": supported values: " : ", ";
        detail += json::dump(json::Value(known[i]));
    }
    return {std::string(field), FieldReason::not_supported, std::move(detail)};
}

FieldError duplicate_value(std::string_view field, const json::Value& value) {
    return {std::string(field), FieldReason::duplicate, "Duplicate value: " + value_text(value)};
}

FieldError too_long(std::string_view field, std::size_t bytes_max) {
    return {std::string(field),
            FieldReason::too_long,
            "Too long: may not be more than " + std::to_string(bytes_max) + " bytes"};
}

FieldError too_many(std::string_view field, std::size_t found, std::size_t max) {
    return {std::string(field),
            FieldReason::too_many,
            "Too many: " + std::to_string(found) + ": must have at most " + std::to_string(max) +
                " items"};
}

FieldError forbidden_value(std::string_view field, std::string_view why) {
    return {std::string(field), FieldReason::forbidden, with_reason("Forbidden", why)};
}

std::string join_field_errors(const std::vector<FieldError>& errors) {
    if (errors.size() == 1) {
        return errors.front().text();
    }
    std::string text = "[";
    for (const FieldError& error : errors) {
        if (text.size() > 1) {
            text += ", ";
        }
        text += error.text();
    }
    return text + "]";
}

}  // namespace capstan::local
