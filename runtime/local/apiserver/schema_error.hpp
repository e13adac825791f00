// What is wrong with a field, in the words of the Kubernetes API server
// (field.ErrorList). Values; thread: any.
#pragma once

#include "capstan/json.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

enum class FieldReason : std::uint8_t {
    invalid,        // FieldValueInvalid
    required,       // FieldValueRequired
    not_supported,  // FieldValueNotSupported
    type_invalid,   // FieldValueTypeInvalid
    duplicate,      // FieldValueDuplicate
    too_long,       // FieldValueTooLong
    too_many,       // FieldValueTooMany
    forbidden,      // FieldValueForbidden
    not_found,      // FieldValueNotFound
};
std::string_view to_string(FieldReason reason) noexcept;  // "FieldValueInvalid"; static storage

// One cause of a 422: {reason: to_string(reason), field, message: detail}.
struct FieldError {
    std::string field;  // "spec.etcd.replicas", "spec.x[0]"; "<nil>" for the object as a whole
    FieldReason reason{FieldReason::invalid};
    // "Invalid value: -1: spec.replicas in body should be greater than or equal to 0"
    std::string detail;

    std::string text() const { return field + ": " + detail; }
};

FieldError invalid_value(std::string_view field, const json::Value& value, std::string_view why);
// The value is of a kind that the field's type cannot hold.
FieldError wrong_type_value(std::string_view field, const json::Value& value, std::string_view why);
FieldError required_value(std::string_view field, std::string_view why = {});
FieldError unsupported_value(std::string_view field,
                             const json::Value& value,
                             const std::vector<std::string>& known);
FieldError duplicate_value(std::string_view field, const json::Value& value);
FieldError too_long(std::string_view field, std::size_t bytes_max);
FieldError too_many(std::string_view field, std::size_t found, std::size_t max);
FieldError forbidden_value(std::string_view field, std::string_view why);

// "a: …" for one, "[a: …, b: …]" for several: the tail of
// `Etcd.druid.gardener.cloud "main" is invalid: `.
std::string join_field_errors(const std::vector<FieldError>& errors);

}  // namespace capstan::local
