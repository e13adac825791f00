// The tree of an expression. Private to runtime/local/cel.
#pragma once

#include "capstan/error.hpp"
#include "runtime/local/cel/cel.hpp"
#include "runtime/local/cel/value.hpp"
#include "runtime/local/pattern/pattern.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local::cel {

enum class Op : std::uint8_t {
    literal,       // value
    name,          // slot, or a literal after the check (a type)
    select,        // args: object; text, field
    select_maybe,  // x.?field
    has,           // as select
    index,         // args: container, key
    index_maybe,   // x[?key]
    call,          // args: receiver (if member), arguments
    list,          // args: items
    map,           // args: key, value, key, value …
    negate,
    invert,
    add,
    subtract,
    multiply,
    divide,
    modulo,
    equal,
    not_equal,
    less,
    less_equal,
    greater,
    greater_equal,
    in,
    both,         // &&, two or more args
    either,       // ||, two or more args
    conditional,  // args: condition, then, else
    // Macros, args: range, body; the variable is `text`, its place is slot.
    all,
    exists,
    exists_one,
    filter,
    transform,           // x.map(v, body)
    transform_filtered,  // x.map(v, condition, body)
    opt_map,
    opt_flat_map,
};

using NodeId = std::uint32_t;

enum class Function : std::uint8_t;

struct Node {
    Op op{Op::literal};
    bool member{false};      // call: with a receiver
    std::uint16_t depth{1};  // of the tree below
    std::uint32_t offset{0};
    std::uint32_t slot{0};
    Function function{};
    std::string text;   // name, field, function
    std::string field;  // select: `text` without its escapes
    Value value;        // literal
    std::vector<NodeId> args;
    std::optional<Pattern> pattern;  // call of matches() with a literal
};

struct Tree {
    std::vector<Node> nodes;
    NodeId root{0};
    std::uint32_t slots{2};  // 0 self, 1 oldSelf, then the variables of macros by depth
    bool uses_old{false};
};

using Failure = decltype(fail(Code::invalid, std::string()));
Failure fail_at(std::size_t offset, std::string_view what);  // invalid, "offset 3: what"

// Errors: as Program::compile.
Result<Tree> parse(std::string_view text);

// Resolves names, functions and constant patterns, and refuses what can never succeed.
Result<void> check(Tree& tree, const Environment& environment, ShapeKind result);

// requires: a checked tree. Errors are values.
Value evaluate(const Tree& tree, Value self, Value old, Meter& meter);

}  // namespace capstan::local::cel
