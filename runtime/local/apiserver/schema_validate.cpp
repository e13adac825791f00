// Validation of values, in the order and the words of the API server (kube-openapi's validators).
#include "runtime/local/apiserver/schema_internal.hpp"
#include "runtime/local/cel/value.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace capstan::local {

namespace {

using Errors = std::vector<FieldError>;

std::string_view type_name(const json::Value& value) {
    switch (value.kind()) {
        case json::Kind::null: return "null";
        case json::Kind::boolean: return "boolean";
        case json::Kind::integer: return "integer";
        case json::Kind::real: return "number";
        case json::Kind::string: return "string";
        case json::Kind::array: return "array";
        case json::Kind::object: return "object";
    }
    return "";
}

bool is_integral(double value) {
    return std::isfinite(value) && std::floor(value) == value;
}

bool type_fits(const SchemaNode& node, const json::Value& value) {
    if (node.int_or_string) {
        return value.if_int() != nullptr || value.is_string();
    }
    switch (node.type) {
        case SchemaType::any: return true;
        case SchemaType::integer:
            return value.if_int() != nullptr ||
                   (value.if_real() != nullptr && is_integral(*value.if_real()));
        case SchemaType::number: return value.if_int() != nullptr || value.if_real() != nullptr;
        default: return type_name(value) == type_name(node.type);
    }
}

void check_string(const ValueRules& rules,
                  const json::Value& value,
                  const std::string& path,
                  Errors& errors) {
    const std::string& text = *value.if_string();
    const auto points =
        static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
            return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
        }));
    const auto refuse = [&](const std::string& what) {
        add_error(errors, invalid_value(path, value, path + " in body " + what));
    };
    // As there, only the first of the three is reported.
    if (rules.length_max && points > *rules.length_max) {
        add_error(errors, too_long(path, *rules.length_max));
    } else if (rules.length_min && points < *rules.length_min) {
        refuse("should be at least " + std::to_string(*rules.length_min) + " chars long");
    } else if (rules.pattern && !rules.pattern->match(text)) {
        refuse("should match '" + rules.pattern->expression() + "'");
    }
    if (!rules.format.empty() && !matches_format(rules.format, text)) {
        FieldError error = invalid_value(
            path,
            value,
            path + " in body must be of type " + rules.format + ": " + json::dump(value));
        error.reason = FieldReason::type_invalid;
        add_error(errors, std::move(error));
    }
}

bool in_integer_format(const std::string& format, double number) {
    if (format == "int32") {
        return number >= std::numeric_limits<std::int32_t>::min() &&
               number <= std::numeric_limits<std::int32_t>::max();
    }
    if (format == "int64") {
        return number >= -9223372036854775808.0 && number < 9223372036854775808.0;
    }
    return true;
}

void check_number(const SchemaNode& node,
                  const json::Value& value,
                  const std::string& path,
                  Errors& errors) {
    const ValueRules& rules = node.rules;
    const double number =
        value.if_int() != nullptr ? static_cast<double>(*value.if_int()) : *value.if_real();
    const auto refuse = [&](const std::string& what) {
        add_error(errors, invalid_value(path, value, path + " in body should be " + what));
    };
    if (rules.multiple_of && !is_integral(number / *rules.multiple_of)) {
        refuse("a multiple of " + cel::number_text(*rules.multiple_of));
    }
    if (rules.maximum &&
        (rules.exclusive_maximum ? number >= *rules.maximum : number > *rules.maximum)) {
        refuse((rules.exclusive_maximum ? "less than " : "less than or equal to ") +
               cel::number_text(*rules.maximum));
    }
    if (rules.minimum &&
        (rules.exclusive_minimum ? number <= *rules.minimum : number < *rules.minimum)) {
        refuse((rules.exclusive_minimum ? "greater than " : "greater than or equal to ") +
               cel::number_text(*rules.minimum));
    }
    if (node.type == SchemaType::integer && !in_integer_format(rules.format, number)) {
        add_error(
            errors,
            invalid_value(path,
                          value,
                          path + " in body must be of type integer with format " + rules.format));
    }
}

void check_array(const SchemaNode& node,
                 const json::Array& array,
                 const std::string& path,
                 Errors& errors) {
    const ValueRules& rules = node.rules;
    if (node.items != nullptr) {
        for (std::size_t i = 0; i < array.size() && errors.size() < kFieldErrorsMax; ++i) {
            validate_node(*node.items, array[i], item_path(path, i), errors);
        }
    }
    if (rules.items_min && array.size() < *rules.items_min) {
        add_error(errors,
                  invalid_value(path,
                                json::Value(array.size()),
                                path + " in body should have at least " +
                                    std::to_string(*rules.items_min) + " items"));
    }
    if (rules.items_max && array.size() > *rules.items_max) {
        add_error(errors, too_many(path, array.size(), *rules.items_max));
    }
}

void check_object(const SchemaNode& node,
                  const json::Value& value,
                  const std::string& path,
                  Errors& errors) {
    const ValueRules& rules = node.rules;
    const json::Object& object = *value.if_object();
    if (rules.properties_min && object.size() < *rules.properties_min) {
        add_error(errors,
                  invalid_value(path,
                                json::Value(object.size()),
                                path + " in body should have at least " +
                                    std::to_string(*rules.properties_min) + " properties"));
    }
    if (rules.properties_max && object.size() > *rules.properties_max) {
        add_error(errors, too_many(path, object.size(), *rules.properties_max));
    }
    for (const json::Member& member : object) {
        const bool metadata = (path.empty() || node.embedded_resource) && member.key == "metadata";
        if (const SchemaNode* child = node.child(member.key); child != nullptr && !metadata) {
            validate_node(*child, member.value, member_path(path, member.key), errors);
        }
    }
    for (const std::string& name : rules.required) {
        if (value.find(name) == nullptr) {
            add_error(errors, required_value(member_path(path, name)));
        }
    }
}

void check_enum(const ValueRules& rules,
                const json::Value& value,
                const std::string& path,
                Errors& errors) {
    if (rules.enumeration.empty() ||
        std::find(rules.enumeration.begin(), rules.enumeration.end(), value) !=
            rules.enumeration.end()) {
        return;
    }
    std::vector<std::string> known;
    for (const json::Value& item : rules.enumeration) {
        known.push_back(item.is_string() ? *item.if_string() : json::dump(item));
    }
    add_error(errors, unsupported_value(path, value, known));
}

FieldError junctor_error(const std::string& path, std::string_view what) {
    return invalid_value("<nil>", json::Value(""), "\"" + path + "\" must " + std::string(what));
}

// Errors of the branch that failed least; counts the branches that pass.
std::size_t count_valid(const std::vector<std::unique_ptr<SchemaNode>>& branches,
                        const json::Value& value,
                        const std::string& path,
                        Errors& best) {
    std::size_t valid = 0;
    bool first = true;
    for (const auto& branch : branches) {
        Errors found;
        validate_node(*branch, value, path, found);
        if (found.empty()) {
            ++valid;
        } else if (first || found.size() < best.size()) {
            best = std::move(found);
            first = false;
        }
    }
    return valid;
}

void check_junctors(const ValueRules& rules,
                    const json::Value& value,
                    const std::string& path,
                    Errors& errors) {
    const auto merge = [&](Errors& best) {
        for (FieldError& error : best) {
            add_error(errors, std::move(error));
        }
    };
    if (!rules.any_of.empty()) {
        Errors best;
        if (count_valid(rules.any_of, value, path, best) == 0) {
            add_error(errors, junctor_error(path, "validate at least one schema (anyOf)"));
            merge(best);
        }
    }
    if (!rules.one_of.empty()) {
        Errors best;
        const std::size_t valid = count_valid(rules.one_of, value, path, best);
        if (valid != 1) {
            add_error(errors,
                      junctor_error(path,
                                    "validate one and only one schema (oneOf). Found " +
                                        (valid == 0 ? std::string("none") : std::to_string(valid)) +
                                        " valid"));
        }
        if (valid == 0) {
            merge(best);
        }
    }
    if (!rules.all_of.empty()) {
        Errors best;
        const std::size_t valid = count_valid(rules.all_of, value, path, best);
        if (valid != rules.all_of.size()) {
            add_error(errors,
                      junctor_error(path,
                                    std::string("validate all the schemas (allOf)") +
                                        (valid == 0 ? ". None validated" : "")));
            merge(best);
        }
    }
    if (rules.negated != nullptr) {
        Errors found;
        validate_node(*rules.negated, value, path, found);
        if (found.empty()) {
            add_error(errors, junctor_error(path, "not validate the schema (not)"));
        }
    }
}

}  // namespace

std::string_view type_name(SchemaType type) {
    switch (type) {
        case SchemaType::any: return "";
        case SchemaType::object: return "object";
        case SchemaType::array: return "array";
        case SchemaType::string: return "string";
        case SchemaType::integer: return "integer";
        case SchemaType::number: return "number";
        case SchemaType::boolean: return "boolean";
    }
    return "";
}

void add_error(Errors& errors, FieldError error) {
    if (errors.size() < kFieldErrorsMax) {
        errors.push_back(std::move(error));
    }
}

FieldError wrong_type(const SchemaNode& node, const json::Value& value, const std::string& path) {
    std::string expected(node.int_or_string ? std::string_view("integer,string")
                                            : type_name(node.type));
    const bool number = node.type == SchemaType::integer || node.type == SchemaType::number;
    if (!node.rules.format.empty() && !number && !node.int_or_string && !value.is_string() &&
        !value.is_array() && !value.is_null()) {
        expected = node.rules.format;
    }
    const json::Value found(type_name(value));
    FieldError error =
        invalid_value(path.empty() ? "<nil>" : path,
                      found,
                      path + " in body must be of type " + expected + ": " + json::dump(found));
    error.reason = FieldReason::type_invalid;
    return error;
}

void validate_node(const SchemaNode& node,
                   const json::Value& value,
                   const std::string& path,
                   Errors& errors) {
    if (errors.size() >= kFieldErrorsMax) {
        return;
    }
    if (value.is_null()) {
        if (!node.nullable && (node.type != SchemaType::any || node.int_or_string)) {
            add_error(errors, wrong_type(node, value, path));
        }
        return;
    }
    if (!type_fits(node, value)) {
        add_error(errors, wrong_type(node, value, path));
    }
    check_junctors(node.rules, value, path, errors);
    switch (value.kind()) {
        case json::Kind::string: check_string(node.rules, value, path, errors); break;
        case json::Kind::integer:
        case json::Kind::real: check_number(node, value, path, errors); break;
        case json::Kind::array: check_array(node, *value.if_array(), path, errors); break;
        case json::Kind::object: check_object(node, value, path, errors); break;
        default: break;
    }
    check_enum(node.rules, value, path, errors);
}

}  // namespace capstan::local
