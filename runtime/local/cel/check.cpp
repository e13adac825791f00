// Names, functions and types of a tree, before it is ever evaluated: what can only fail is refused
// when the CRD is created. Types come from the schema; where it says nothing, everything may be.
#include "runtime/local/cel/functions.hpp"

#include <array>

namespace capstan::local::cel {
namespace {

using Kind = ShapeKind;

const Shape& scalar(Kind kind) {
    static const auto kShapes = [] {
        std::array<Shape, static_cast<std::size_t>(Kind::other) + 1> shapes;
        for (std::size_t i = 0; i < shapes.size(); ++i) {
            shapes[i].kind = static_cast<Kind>(i);
        }
        return shapes;
    }();
    return kShapes[static_cast<std::size_t>(kind)];
}

bool is_list_kind(Kind kind) {
    return kind == Kind::list || kind == Kind::set || kind == Kind::map_list;
}
bool is_map_kind(Kind kind) {
    return kind == Kind::map || kind == Kind::object;
}
bool is_number(Kind kind) {
    return kind == Kind::integer || kind == Kind::real;
}
bool is_open(Kind kind) {  // what may be anything
    return kind == Kind::dyn || kind == Kind::other;
}
bool alike(Kind a, Kind b) {
    return a == b || is_open(a) || is_open(b) || (is_list_kind(a) && is_list_kind(b)) ||
           (is_map_kind(a) && is_map_kind(b));
}
const Shape& item_of(const Shape& shape) {
    return shape.of ? *shape.of : any_shape();
}

std::string_view sign_of(Op op) {
    switch (op) {
        case Op::add: return "_+_";
        case Op::subtract: return "_-_";
        case Op::multiply: return "_*_";
        case Op::divide: return "_/_";
        case Op::modulo: return "_%_";
        case Op::equal: return "_==_";
        case Op::not_equal: return "_!=_";
        case Op::less: return "_<_";
        case Op::less_equal: return "_<=_";
        case Op::greater: return "_>_";
        case Op::greater_equal: return "_>=_";
        case Op::in: return "@in";
        default: return "_[_]";
    }
}

bool fits(Op op, Kind a, Kind b) {
    if (is_open(a) || is_open(b)) {
        return true;
    }
    const bool times = a == Kind::timestamp || a == Kind::duration;
    switch (op) {
        case Op::equal:
        case Op::not_equal: return alike(a, b) || a == Kind::null || b == Kind::null;
        case Op::in: return is_list_kind(b) || is_map_kind(b);
        case Op::add:
            return (alike(a, b) && (is_number(a) || a == Kind::string || is_list_kind(a) ||
                                    a == Kind::duration)) ||
                   (times && a != b && (b == Kind::timestamp || b == Kind::duration));
        case Op::subtract:
            return (a == b && (is_number(a) || times)) ||
                   (a == Kind::timestamp && b == Kind::duration);
        case Op::multiply:
        case Op::divide: return a == b && is_number(a);
        case Op::modulo: return a == b && a == Kind::integer;
        default:  // an order
            return (is_number(a) && is_number(b)) ||
                   (a == b && (times || a == Kind::string || a == Kind::boolean));
    }
}

const Shape& result_of(Op op, const Shape& a, const Shape& b) {
    switch (op) {
        case Op::add:
            if (is_open(a.kind) || is_open(b.kind)) {
                return any_shape();
            }
            return is_list_kind(a.kind) ? scalar(Kind::list) : b.kind == Kind::timestamp ? b : a;
        case Op::subtract:
            return a.kind == Kind::timestamp && b.kind == Kind::timestamp ? scalar(Kind::duration)
                   : is_open(b.kind)                                      ? any_shape()
                                                                          : a;
        case Op::multiply:
        case Op::divide:
        case Op::modulo: return is_open(a.kind) ? b : a;
        default: return scalar(Kind::boolean);
    }
}

class Checker {
public:
    Checker(Tree& tree, const Environment& environment)
        : tree_(tree),
          self_(environment.self ? *environment.self : any_shape()),
          old_(environment.optional_old ? scalar(Kind::other) : self_) {}

    Result<const Shape*> visit(NodeId id) {
        Node& node = tree_.nodes[id];
        switch (node.op) {
            case Op::literal: return &of_literal(node.value);
            case Op::name: return name(node);
            case Op::select:
            case Op::select_maybe:
            case Op::has: return select(node);
            case Op::call: return call(node);
            case Op::both:
            case Op::either: return logic(node);
            case Op::conditional: return conditional(node);
            case Op::list:
            case Op::map: return literal(node);
            case Op::negate:
            case Op::invert: return unary(node);
            case Op::index:
            case Op::index_maybe: return index(node);
            default: return node.op >= Op::all ? macro(node) : binary(node);
        }
    }

private:
    struct Variable {
        std::string name;
        const Shape* shape;
    };

    static Failure no_overload(const Node& node, std::string_view name, std::string_view types) {
        return fail_at(node.offset,
                       "found no matching overload for '" + std::string(name) + "' applied to '" +
                           std::string(types) + "'");
    }

    static const Shape& of_literal(const Value& value) {
        return scalar(value.get_if<bool>() != nullptr           ? Kind::boolean
                      : value.get_if<std::int64_t>() != nullptr ? Kind::integer
                      : value.get_if<double>() != nullptr       ? Kind::real
                      : value.get_if<Text>() != nullptr         ? Kind::string
                                                                : Kind::null);
    }

    Result<const Shape*> name(Node& node) {
        for (std::size_t i = scope_.size(); i > 0; --i) {
            if (scope_[i - 1].name == node.text) {
                node.slot = static_cast<std::uint32_t>(i + 1);
                return scope_[i - 1].shape;
            }
        }
        if (node.text == "self") {
            node.slot = 0;
            return &self_;
        }
        if (node.text == "oldSelf") {
            node.slot = 1;
            tree_.uses_old = true;
            return &old_;
        }
        for (const std::string_view type :
             {"int", "double", "string", "bool", "list", "map", "null_type", "type"}) {
            if (type == node.text) {
                node.op = Op::literal;
                node.value = Value(TypeName{type});
                return &scalar(Kind::other);
            }
        }
        return fail_at(node.offset, "undeclared reference to '" + node.text + "'");
    }

    Result<const Shape*> select(Node& node) {
        CAPSTAN_TRY(const Shape* on, visit(node.args[0]));
        const Shape* found = &any_shape();
        if (on->kind == Kind::object) {
            found = is_reserved(node.text) ? nullptr : on->field(node.field);
            if (found == nullptr) {
                return fail_at(node.offset, "undefined field '" + node.text + "'");
            }
        } else if (on->kind == Kind::map) {
            found = &item_of(*on);
        } else if (!is_open(on->kind)) {
            return fail_at(
                node.offset,
                "type '" + std::string(to_string(on->kind)) + "' does not support field selection");
        }
        if (node.op == Op::has) {
            return &scalar(Kind::boolean);
        }
        return node.op == Op::select_maybe || on->kind == Kind::other ? &scalar(Kind::other)
                                                                      : found;
    }

    Result<const Shape*> call(Node& node) {
        const FunctionInfo* info = find_function(node.text, node.member);
        if (info == nullptr) {
            return fail_at(node.offset, "undeclared reference to '" + node.text + "'");
        }
        std::string types;
        bool fitting =
            node.args.size() >= info->arguments_min && node.args.size() <= info->arguments_max;
        for (std::size_t i = 0; i < node.args.size(); ++i) {
            CAPSTAN_TRY(const Shape* shape, visit(node.args[i]));
            types += (i == 0 ? "(" : ", ") + std::string(to_string(shape->kind));
            fitting = fitting && (i > 0 || info->first == Kind::dyn || shape->kind == Kind::dyn ||
                                  alike(shape->kind, info->first));
        }
        if (!fitting) {
            return no_overload(node, node.text, types.empty() ? "()" : types + ")");
        }
        node.function = info->function;
        if (info->function == Function::matches) {
            CAPSTAN_TRY(compile_pattern(node));
        }
        return &scalar(info->result);
    }

    Result<void> compile_pattern(Node& node) {
        const Node& argument = tree_.nodes[node.args[1]];
        const Text* text = argument.value.get_if<Text>();
        if (argument.op != Op::literal || text == nullptr) {
            return ok();
        }
        auto pattern = Pattern::compile(text->view);
        if (!pattern) {
            Error error = pattern.error();
            return fail(with_context(
                std::move(error),
                "offset " + std::to_string(argument.offset) + ": invalid matches argument"));
        }
        node.pattern = std::move(pattern).value();
        return ok();
    }

    Result<void> want_bool(NodeId id) {
        CAPSTAN_TRY(const Shape* shape, visit(id));
        if (shape->kind != Kind::boolean && !is_open(shape->kind)) {
            return fail_at(
                tree_.nodes[id].offset,
                "expected type 'bool' but found '" + std::string(to_string(shape->kind)) + "'");
        }
        return ok();
    }

    Result<const Shape*> logic(const Node& node) {
        for (const NodeId arg : node.args) {
            CAPSTAN_TRY(want_bool(arg));
        }
        return &scalar(Kind::boolean);
    }

    Result<const Shape*> conditional(const Node& node) {
        CAPSTAN_TRY(want_bool(node.args[0]));
        CAPSTAN_TRY(const Shape* yes, visit(node.args[1]));
        CAPSTAN_TRY(const Shape* no, visit(node.args[2]));
        if (!alike(yes->kind, no->kind) && yes->kind != Kind::null && no->kind != Kind::null) {
            return no_overload(node,
                               "_?_:_",
                               "(bool, " + std::string(to_string(yes->kind)) + ", " +
                                   std::string(to_string(no->kind)) + ")");
        }
        return yes == no ? yes : yes->kind == no->kind ? &scalar(yes->kind) : &any_shape();
    }

    Result<const Shape*> literal(const Node& node) {
        for (const NodeId arg : node.args) {
            CAPSTAN_TRY(visit(arg));
        }
        return &scalar(node.op == Op::list ? Kind::list : Kind::map);
    }

    Result<const Shape*> unary(const Node& node) {
        if (node.op == Op::invert) {
            CAPSTAN_TRY(want_bool(node.args[0]));
            return &scalar(Kind::boolean);
        }
        CAPSTAN_TRY(const Shape* shape, visit(node.args[0]));
        if (!is_number(shape->kind) && !is_open(shape->kind)) {
            return no_overload(node, "-_", "(" + std::string(to_string(shape->kind)) + ")");
        }
        return shape;
    }

    Result<const Shape*> binary(const Node& node) {
        CAPSTAN_TRY(const Shape* left, visit(node.args[0]));
        CAPSTAN_TRY(const Shape* right, visit(node.args[1]));
        if (!fits(node.op, left->kind, right->kind)) {
            return no_overload(node,
                               sign_of(node.op),
                               "(" + std::string(to_string(left->kind)) + ", " +
                                   std::string(to_string(right->kind)) + ")");
        }
        return &result_of(node.op, *left, *right);
    }

    Result<const Shape*> index(const Node& node) {
        CAPSTAN_TRY(const Shape* on, visit(node.args[0]));
        CAPSTAN_TRY(const Shape* key, visit(node.args[1]));
        const bool list = is_list_kind(on->kind) && (is_number(key->kind) || is_open(key->kind));
        if (!list && !is_map_kind(on->kind) && !is_open(on->kind)) {
            return no_overload(node,
                               "_[_]",
                               "(" + std::string(to_string(on->kind)) + ", " +
                                   std::string(to_string(key->kind)) + ")");
        }
        if (node.op == Op::index_maybe || on->kind == Kind::other) {
            return &scalar(Kind::other);
        }
        return on->kind == Kind::object ? &any_shape() : &item_of(*on);
    }

    Result<const Shape*> macro(Node& node) {
        CAPSTAN_TRY(const Shape* range, visit(node.args[0]));
        const bool optional = node.op == Op::opt_map || node.op == Op::opt_flat_map;
        const Shape* item = is_list_kind(range->kind)  ? &item_of(*range)
                            : is_map_kind(range->kind) ? &scalar(Kind::string)
                                                       : &any_shape();
        if (range->kind == Kind::map && !range->of) {
            item = &any_shape();  // of a literal, whose keys may be anything
        }
        if (optional ? !is_open(range->kind)
                     : !is_list_kind(range->kind) && !is_map_kind(range->kind) &&
                           !is_open(range->kind)) {
            return fail_at(node.offset,
                           "expression of type '" + std::string(to_string(range->kind)) +
                               "' cannot be range of a comprehension");
        }
        scope_.push_back({node.text, item});
        node.slot = static_cast<std::uint32_t>(scope_.size() + 1);
        tree_.slots = std::max(tree_.slots, node.slot + 1);
        const bool yields = node.op == Op::transform || optional;
        for (std::size_t i = 1; i < node.args.size(); ++i) {
            if (yields || (node.op == Op::transform_filtered && i == 2)) {
                CAPSTAN_TRY(visit(node.args[i]));
            } else {
                CAPSTAN_TRY(want_bool(node.args[i]));
            }
        }
        scope_.pop_back();
        const bool list = node.op >= Op::filter && !optional;
        return &scalar(optional ? Kind::other : list ? Kind::list : Kind::boolean);
    }

    Tree& tree_;
    const Shape& self_;
    const Shape& old_;
    std::vector<Variable> scope_;
};

}  // namespace

Result<void> check(Tree& tree, const Environment& environment, ShapeKind result) {
    Checker checker(tree, environment);
    CAPSTAN_TRY(const Shape* shape, checker.visit(tree.root));
    if (result != Kind::dyn && shape->kind != result && !is_open(shape->kind)) {
        return fail_at(0, "must evaluate to a " + std::string(to_string(result)));
    }
    return ok();
}

}  // namespace capstan::local::cel
