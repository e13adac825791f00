// What a schema says about a value, so far as rules see a difference.
//
// The types of a rule's variables: fields that exist, numbers that are always real, text that is a
// time, lists whose order does not matter. A plain tree, owned by whoever made it; it outlives
// every Program compiled against it. Thread: any once built.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local::cel {

enum class ShapeKind : std::uint8_t {
    dyn,  // anything: int-or-string, unknown fields
    boolean,
    integer,
    real,
    string,
    timestamp,  // text of format date-time or date
    duration,   // text of format duration
    null,       // no value is declared so; a literal is
    list,
    set,       // a list that equals another in any order
    map_list,  // the same, items told apart by `keys`
    map,       // any key; values as `of`
    object,    // `fields`, no others
    other,     // what no schema declares: types, URLs, optional values
};
std::string_view to_string(
    ShapeKind kind) noexcept;  // as messages name it: "int", "double", "list"

struct Shape {
    struct Field {
        std::string name;  // as in JSON; rules write it escaped ("a__dash__b")
        std::unique_ptr<Shape> shape;
    };

    ShapeKind kind{ShapeKind::dyn};
    std::vector<Field> fields;
    std::unique_ptr<Shape> of;      // items of a list, values of a map; never null for those
    std::vector<std::string> keys;  // map_list

    const Shape* field(std::string_view name) const noexcept;  // nullptr: none
};

// "a__dash__b" -> "a-b", "__namespace__" -> "namespace" (Kubernetes: escaping of property names).
std::string unescape_field(std::string_view name);
// Words a rule may not use as names: "for", "namespace", …
bool is_reserved(std::string_view word) noexcept;

}  // namespace capstan::local::cel
