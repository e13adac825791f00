// x-kubernetes-validations asked about objects, in the words of the API server
// (apiextensions-apiserver's CEL validator).
#include "runtime/local/apiserver/schema_internal.hpp"

#include "runtime/local/cel/cel.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

constexpr std::size_t kMessageBytesMax = 5'120;  // of a messageExpression; as Kubernetes

std::string trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t\n\v\f\r");
    return first == std::string_view::npos
               ? std::string()
               : std::string(text.substr(first, text.find_last_not_of(" \t\n\v\f\r") + 1 - first));
}

// The item of `old` with the keys of `item`; nullptr: none, or not one alone.
const json::Value* correlated(const SchemaNode& list,
                              const json::Value* old,
                              const json::Value& item) {
    const json::Array* array = old == nullptr ? nullptr : old->if_array();
    if (array == nullptr || list.list_type != ListType::map) {
        return nullptr;
    }
    const json::Value* found = nullptr;
    for (const json::Value& candidate : *array) {
        const bool same =
            std::all_of(list.map_keys.begin(), list.map_keys.end(), [&](const std::string& key) {
                const json::Value* a = item.find(key);
                const json::Value* b = candidate.find(key);
                return a == nullptr || b == nullptr ? a == b : *a == *b;
            });
        if (same && found != nullptr) {
            return nullptr;
        }
        found = same ? &candidate : found;
    }
    return found;
}

class RuleCheck {
public:
    explicit RuleCheck(std::vector<FieldError>& errors) : errors_(errors) {}

    // false: the object has used up what its rules may cost.
    bool visit(const SchemaNode& node,
               const json::Value& value,
               const json::Value* old,
               const std::string& path) {
        if (!node.rules_below || value.is_null()) {
            return true;
        }
        old = old != nullptr && old->is_null() ? nullptr : old;
        for (const CelRule& rule : node.cel_rules) {
            if (!ask(node, rule, value, old, path)) {
                return false;
            }
        }
        if (const json::Object* object = value.if_object()) {
            return visit_members(node, *object, old, path);
        }
        const json::Array* array = value.if_array();
        for (std::size_t i = 0; array != nullptr && node.items && i < array->size(); ++i) {
            const json::Value& item = (*array)[i];
            if (!visit(*node.items, item, correlated(node, old, item), item_path(path, i))) {
                return false;
            }
        }
        return true;
    }

private:
    bool visit_members(const SchemaNode& node,
                       const json::Object& object,
                       const json::Value* old,
                       const std::string& path) {
        const bool known = old != nullptr && node.map_type == MapType::granular;
        for (const json::Member& member : object) {
            const SchemaNode* child = node.child(member.key);
            if (child == nullptr || !child->rules_below) {
                continue;
            }
            const std::string where = node.additional_properties != nullptr
                                          ? path + "[" + member.key + "]"
                                          : member_path(path, member.key);
            if (!visit(*child, member.value, known ? old->find(member.key) : nullptr, where)) {
                return false;
            }
        }
        return true;
    }

    bool ask(const SchemaNode& node,
             const CelRule& rule,
             const json::Value& value,
             const json::Value* old,
             const std::string& path) {
        if (rule.program->uses_old() && !rule.optional_old && old == nullptr) {
            return true;
        }
        const json::Value type(type_name(node.type));
        const std::string field = path.empty() ? "<nil>" : path;
        const std::string name = trimmed(rule.message.empty() ? rule.rule : rule.message);
        const auto answer = rule.program->evaluate({&value, old}, budget_);
        if (!answer) {
            const std::string& why = answer.error().message;
            if (answer.error().code != Code::too_large) {
                add_error(errors_,
                          invalid_value(field,
                                        type,
                                        why.starts_with("no such overload")
                                            ? "'" + why +
                                                  "': call arguments did not match a supported "
                                                  "operator, function or macro signature for "
                                                  "rule: " +
                                                  name
                                            : why + " evaluating rule: " + name));
                return true;
            }
            add_error(errors_,
                      invalid_value(field,
                                    type,
                                    budget_.steps == 0
                                        ? "validation failed due to running out of cost budget, "
                                          "no further validation rules will be run"
                                        : "'" + why +
                                              "': no further validation rules will be run due to "
                                              "call cost exceeds limit for rule: " +
                                              name));
            return false;
        }
        const bool* truth = answer.value().if_bool();
        if (truth == nullptr || !*truth) {
            refuse(rule, {&value, old}, type, path);
        }
        return true;
    }

    void refuse(const CelRule& rule,
                const cel::Variables& variables,
                const json::Value& type,
                const std::string& path) {
        std::string field = path;
        if (!rule.field_path.empty()) {
            field += (path.empty() ? "" : ".") + rule.field_path;
        }
        field = field.empty() ? "<nil>" : field;
        const std::string detail = message(rule, variables);
        switch (rule.reason) {
            case FieldReason::required: add_error(errors_, required_value(field, detail)); break;
            case FieldReason::forbidden: add_error(errors_, forbidden_value(field, detail)); break;
            case FieldReason::duplicate: add_error(errors_, duplicate_value(field, type)); break;
            default: add_error(errors_, invalid_value(field, type, detail));
        }
    }

    std::string message(const CelRule& rule, const cel::Variables& variables) {
        if (rule.message_program != nullptr) {
            const auto answer = rule.message_program->evaluate(variables, budget_);
            const std::string* text = answer ? answer.value().if_string() : nullptr;
            const std::string line = text == nullptr ? std::string() : trimmed(*text);
            if (!line.empty() && line.size() <= kMessageBytesMax &&
                line.find('\n') == std::string::npos) {
                return line;
            }
        }
        return rule.message.empty() ? "failed rule: " + trimmed(rule.rule) : trimmed(rule.message);
    }

    std::vector<FieldError>& errors_;
    cel::Budget budget_{cel::kObjectStepsMax};
};

// After these, rules would meet values of types they were not compiled for.
bool blocks_rules(const FieldError& error) {
    switch (error.reason) {
        case FieldReason::not_supported:
        case FieldReason::required:
        case FieldReason::too_long:
        case FieldReason::too_many:
        case FieldReason::type_invalid: return true;
        default: return false;
    }
}

}  // namespace

void validate_rules(const SchemaNode& root,
                    const json::Value& object,
                    const json::Value* old,
                    std::vector<FieldError>& errors) {
    if (!root.rules_below) {
        return;
    }
    if (std::any_of(errors.begin(), errors.end(), blocks_rules)) {
        add_error(errors,
                  invalid_value("<nil>",
                                json::Value(),
                                "some validation rules were not checked because the object was "
                                "invalid; correct the existing errors to complete validation"));
        return;
    }
    RuleCheck(errors).visit(root, object, old, "");
}

}  // namespace capstan::local
