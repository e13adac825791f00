// Structural schemas of custom resources: defaulting, pruning, validation, and the list types
// server-side apply needs.
//
// Source of the rules: Kubernetes "structural schemas" (apiextensions.k8s.io/v1) with the CEL rules
// (x-kubernetes-validations) that docs/cel.md describes. Thread: any once compiled (immutable).
#pragma once

#include "capstan/json.hpp"
#include "runtime/local/apiserver/schema_error.hpp"
#include "runtime/local/pattern/pattern.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local::cel {
class Program;
struct Shape;
}  // namespace capstan::local::cel

namespace capstan::local {

inline constexpr std::size_t kSchemaDepthMax = 64;
inline constexpr std::size_t kSchemaNodesMax = 50'000;
inline constexpr std::size_t kFieldErrorsMax = 100;      // validate() stops adding after these
inline constexpr std::size_t kPrunedPathsMax = 100;      // prune() reports no more than these
inline constexpr std::size_t kErrorValueBytesMax = 512;  // text of a refused value inside an error

enum class SchemaType : std::uint8_t { any, object, array, string, integer, number, boolean };
enum class Nulls : std::uint8_t { drop, keep };  // where a field may not be null
enum class ListType : std::uint8_t { atomic, set, map };
enum class MapType : std::uint8_t { granular, atomic };

struct SchemaNode;

struct SchemaProperty {
    std::string name;
    std::unique_ptr<SchemaNode> schema;
};

struct CelRule {
    std::string rule;
    std::string message;
    std::string message_expression;
    std::string reason_name;  // "FieldValueForbidden"; "": invalid
    std::string field_path;   // compiled: "spec.x", below the value
    bool optional_old{false};
    FieldReason reason{FieldReason::invalid};
    // Shared for the sake of a node that is movable here; never changed.
    std::shared_ptr<const cel::Program> program;
    std::shared_ptr<const cel::Program> message_program;  // null: no messageExpression
};

// Bounds on a value, and the logical junctors. Absent optional: no bound.
struct ValueRules {
    std::vector<json::Value> enumeration;
    std::optional<Pattern> pattern;
    std::string format;
    std::optional<double> minimum;
    std::optional<double> maximum;
    bool exclusive_minimum{false};
    bool exclusive_maximum{false};
    std::optional<double> multiple_of;
    std::optional<std::size_t> length_min;  // code points
    std::optional<std::size_t> length_max;
    std::optional<std::size_t> items_min;
    std::optional<std::size_t> items_max;
    std::optional<std::size_t> properties_min;
    std::optional<std::size_t> properties_max;
    std::vector<std::string> required;
    std::vector<std::unique_ptr<SchemaNode>> all_of;
    std::vector<std::unique_ptr<SchemaNode>> any_of;
    std::vector<std::unique_ptr<SchemaNode>> one_of;
    std::unique_ptr<SchemaNode> negated;
};

// One place in the schema. Walkable; owned by its StructuralSchema (or by the
// table of builtin kinds).
struct SchemaNode {
    SchemaType type{SchemaType::any};
    ListType list_type{ListType::atomic};
    std::vector<std::string> map_keys;  // list_type map: names of the key fields
    MapType map_type{MapType::granular};
    bool preserve_unknown_fields{false};
    bool int_or_string{false};
    bool nullable{false};
    bool embedded_resource{false};
    std::vector<SchemaProperty> properties;  // sorted by name
    std::unique_ptr<SchemaNode> items;
    // nullptr: none allowed besides `properties`
    std::unique_ptr<SchemaNode> additional_properties;
    std::optional<json::Value> default_value;
    std::vector<CelRule> cel_rules;
    bool rules_below{false};           // cel_rules of this node, or of one below it
    const cel::Shape* shape{nullptr};  // where rules_below; owned by the StructuralSchema
    ValueRules rules;

    // The schema of member `name`: a property, else additional_properties, else nullptr. Borrowed.
    const SchemaNode* child(std::string_view name) const noexcept;
    const SchemaNode* property(std::string_view name) const noexcept;
};

struct CelRuleAt {
    std::string path;  // "spec.backup"; "" for the root
    const CelRule* rule;
};

class StructuralSchema {
public:
    // `schema`: openAPIV3Schema of one CRD version.
    // Errors: invalid ("openAPIV3Schema.properties[spec].type: Required value: …"; the caller knows
    // what stands before it), too_large, unsupported (a pattern outside Pattern's syntax).
    static Result<StructuralSchema> compile(const json::Value& schema);

    StructuralSchema(StructuralSchema&&) noexcept = default;
    StructuralSchema& operator=(StructuralSchema&&) noexcept = default;

    // Fills absent fields that have a default; a null in a field that is not nullable and has
    // a default is replaced.
    void apply_defaults(json::Value& object, Nulls nulls = Nulls::drop) const;

    // Removes fields the schema does not name, except below x-kubernetes-preserve-unknown-fields.
    // apiVersion, kind and metadata of the root and of embedded resources stay. Returns the removed
    // paths ("spec.foo"), which fieldValidation=Strict refuses and Warn reports.
    std::vector<std::string> prune(json::Value& object) const;

    // In the order a client should read them; empty: valid. metadata of the
    // root is not looked into. `old`: what an update replaces, for rules that compare.
    std::vector<FieldError> validate(const json::Value& object,
                                     const json::Value* old = nullptr) const;

    const SchemaNode* root() const noexcept { return root_.get(); }  // never null
    // borrowed from *this
    std::vector<CelRuleAt> cel_rules() const;

private:
    StructuralSchema(std::unique_ptr<SchemaNode> root, std::shared_ptr<const cel::Shape> shapes)
        : shapes_(std::move(shapes)), root_(std::move(root)) {}
    std::shared_ptr<const cel::Shape> shapes_;  // of the rules in root_; null: there are none
    std::unique_ptr<SchemaNode> root_;
};

}  // namespace capstan::local
