// Evaluation of a checked tree.
#include "runtime/local/cel/functions.hpp"

#include <algorithm>
#include <limits>

namespace capstan::local::cel {
namespace {

class Evaluator {
public:
    Evaluator(const Tree& tree, Meter& meter) : tree_(tree), meter_(meter), slots_(tree.slots) {}

    void set(std::size_t slot, Value value) { slots_[slot] = std::move(value); }

    Value visit(NodeId id) {
        const Node& node = tree_.nodes[id];
        if (!meter_.spend(1)) {
            return Value::cost_exceeded();
        }
        switch (node.op) {
            case Op::literal: return node.value;
            case Op::name: return slots_[node.slot];
            case Op::select:
            case Op::select_maybe:
            case Op::has: return select(node);
            case Op::index:
            case Op::index_maybe: return index(node);
            case Op::call: return call(node);
            case Op::list: return list(node);
            case Op::map: return map(node);
            case Op::negate:
            case Op::invert: return unary(node);
            case Op::both: return logic(node, false);
            case Op::either: return logic(node, true);
            case Op::conditional: return conditional(node);
            case Op::all: return quantify(node, false);
            case Op::exists: return quantify(node, true);
            case Op::exists_one: return exists_one(node);
            case Op::filter:
            case Op::transform:
            case Op::transform_filtered: return transform(node);
            case Op::opt_map:
            case Op::opt_flat_map: return map_optional(node);
            default: return binary(node);
        }
    }

private:
    Value checked(Value value) { return meter_.exceeded() ? Value::cost_exceeded() : value; }
    static Value some(Value value) {
        return Value(Optional{std::make_shared<const Value>(std::move(value))});
    }

    Value select(const Node& node) {
        Value on = visit(node.args[0]);
        bool maybe = node.op == Op::select_maybe;
        if (const Optional* optional = on.get_if<Optional>()) {
            if (!optional->value) {
                return node.op == Op::has ? Value(false) : on;
            }
            maybe = maybe || node.op == Op::select;
            on = Value(*optional->value);
        }
        if (on.is_error()) {
            return on;
        }
        if (!is_map(on)) {
            return Value::no_overload();
        }
        Value found;
        const bool there = field_find(on, node.text, node.field, found, meter_);
        if (node.op == Op::has) {
            return checked(Value(there));
        }
        if (maybe) {
            return checked(there ? some(std::move(found)) : Value(Optional{nullptr}));
        }
        return checked(there ? std::move(found) : Value::error("no such key: " + node.field));
    }

    // false: there is none; `out` then says so.
    bool at(const Value& on, const Value& key, Value& out) {
        if (is_map(on)) {
            if (map_find(on, key, out, meter_)) {
                return true;
            }
            out = Value::error("no such key: " + key_text(key));
            return false;
        }
        std::int64_t place = -1;
        if (const std::int64_t* whole = key.get_if<std::int64_t>()) {
            place = *whole;
        } else if (const double* real = key.get_if<double>();
                   real != nullptr && *real >= 0 && *real < 1e15 &&
                   static_cast<double>(static_cast<std::int64_t>(*real)) == *real) {
            place = static_cast<std::int64_t>(*real);
        } else {
            out = Value::no_overload();
            return false;
        }
        if (place < 0 || static_cast<std::uint64_t>(place) >= list_size(on)) {
            out = Value::error("index out of bounds: " + std::to_string(place));
            return false;
        }
        out = list_item(on, static_cast<std::size_t>(place));
        return true;
    }

    Value index(const Node& node) {
        Value on = visit(node.args[0]);
        const Value key = visit(node.args[1]);
        bool maybe = node.op == Op::index_maybe;
        if (const Optional* optional = on.get_if<Optional>()) {
            if (!optional->value) {
                return on;
            }
            maybe = true;
            on = Value(*optional->value);
        }
        if (on.is_error() || key.is_error()) {
            return on.is_error() ? on : key;
        }
        if (!is_map(on) && !is_list(on)) {
            return Value::no_overload();
        }
        Value found;
        const bool there = at(on, key, found);
        if (maybe) {
            return checked(there ? some(std::move(found)) : Value(Optional{nullptr}));
        }
        return checked(std::move(found));
    }

    Value call(const Node& node) {
        std::vector<Value> args;
        args.reserve(node.args.size());
        for (const NodeId arg : node.args) {
            args.push_back(visit(arg));
        }
        if (node.pattern) {
            return args[0].is_error() ? args[0] : match_pattern(*node.pattern, args[0], meter_);
        }
        return checked(call_function(node.function, args, meter_));
    }

    Value list(const Node& node) {
        std::vector<Value> items;
        items.reserve(node.args.size());
        for (const NodeId arg : node.args) {
            Value item = visit(arg);
            if (item.is_error()) {
                return item;
            }
            items.push_back(std::move(item));
        }
        return Value::list(std::move(items));
    }

    Value map(const Node& node) {
        std::vector<Entry> entries;
        for (std::size_t i = 0; i + 1 < node.args.size(); i += 2) {
            Value key = visit(node.args[i]);
            Value value = visit(node.args[i + 1]);
            if (key.is_error() || value.is_error()) {
                return key.is_error() ? key : value;
            }
            if (key.get_if<Text>() == nullptr && key.get_if<bool>() == nullptr &&
                key.get_if<std::int64_t>() == nullptr) {
                return Value::error("unsupported key type");
            }
            for (const Entry& entry : entries) {
                if (equal(entry.key, key, meter_)) {
                    return Value::error("Failed with repeated key");
                }
            }
            entries.push_back({std::move(key), std::move(value)});
        }
        return checked(Value::map(std::move(entries)));
    }

    Value unary(const Node& node) {
        Value value = visit(node.args[0]);
        if (value.is_error()) {
            return value;
        }
        if (node.op == Op::invert) {
            const bool* truth = value.get_if<bool>();
            return truth == nullptr ? Value::no_overload() : Value(!*truth);
        }
        if (const double* real = value.get_if<double>()) {
            return Value(-*real);
        }
        const std::int64_t* whole = value.get_if<std::int64_t>();
        if (whole == nullptr) {
            return Value::no_overload();
        }
        return *whole == std::numeric_limits<std::int64_t>::min() ? Value::error("integer overflow")
                                                                  : Value(-*whole);
    }

    // && (ends at false) and || (ends at true): what decides wins over an error beside it.
    Value logic(const Node& node, bool decides) {
        Value failure;
        for (const NodeId arg : node.args) {
            Value value = visit(arg);
            if (!note(value, decides, failure)) {
                return value;
            }
        }
        return failure.is_error() ? failure : Value(!decides);
    }

    // false: `value` is the answer. Else the first error is kept.
    static bool note(Value& value, bool decides, Value& failure) {
        const bool* truth = value.get_if<bool>();
        if (value.is_final() || (truth != nullptr && *truth == decides)) {
            return false;
        }
        if (truth == nullptr && !failure.is_error()) {
            failure = value.is_error() ? value : Value::no_overload();
        }
        return true;
    }

    Value conditional(const Node& node) {
        Value condition = visit(node.args[0]);
        if (condition.is_error()) {
            return condition;
        }
        const bool* truth = condition.get_if<bool>();
        return truth == nullptr ? Value::no_overload() : visit(node.args[*truth ? 1 : 2]);
    }

    Value binary(const Node& node) {
        const Value left = visit(node.args[0]);
        const Value right = visit(node.args[1]);
        if (left.is_error() || right.is_error()) {
            return left.is_error() ? left : right;
        }
        switch (node.op) {
            case Op::equal: return checked(Value(equal(left, right, meter_)));
            case Op::not_equal: return checked(Value(!equal(left, right, meter_)));
            case Op::in: return contains(right, left);
            case Op::less:
            case Op::less_equal:
            case Op::greater:
            case Op::greater_equal: return ordered(node.op, left, right);
            default: return checked(arithmetic(node.op, left, right, meter_));
        }
    }

    Value contains(const Value& container, const Value& wanted) {
        if (is_map(container)) {
            Value found;
            return checked(Value(map_find(container, wanted, found, meter_)));
        }
        if (!is_list(container)) {
            return Value::no_overload();
        }
        for (std::size_t i = 0; i < list_size(container) && !meter_.exceeded(); ++i) {
            if (equal(list_item(container, i), wanted, meter_)) {
                return checked(Value(true));
            }
        }
        return checked(Value(false));
    }

    Value ordered(Op op, const Value& left, const Value& right) {
        const Order order = compare(left, right);
        if (order == Order::not_comparable) {
            return Value::no_overload();
        }
        if (const Text* text = left.get_if<Text>()) {
            meter_.spend_text(text->view.size());
        }
        const bool same = order == Order::same;
        switch (op) {
            case Op::less: return checked(Value(order == Order::less));
            case Op::less_equal: return checked(Value(order == Order::less || same));
            case Op::greater: return checked(Value(order == Order::greater));
            default: return checked(Value(order == Order::greater || same));
        }
    }

    // Runs `body` for each item of a list or key of a map, which it finds in its slot. false ends.
    template <class Body>
    Value each(const Node& node, const Body& body) {
        const Value range = visit(node.args[0]);
        if (range.is_error() || (!is_list(range) && !is_map(range))) {
            return range.is_error() ? range : Value::no_overload();
        }
        const std::size_t size = is_list(range) ? list_size(range) : map_size(range);
        for (std::size_t i = 0; i < size; ++i) {
            slots_[node.slot] = is_list(range) ? list_item(range, i) : map_entry(range, i).key;
            if (!body()) {
                break;
            }
        }
        return Value();
    }

    Value quantify(const Node& node, bool decides) {
        Value failure;
        Value answer;
        bool decided = false;
        Value outcome = each(node, [&] {
            answer = visit(node.args[1]);
            decided = !note(answer, decides, failure);
            return !decided;
        });
        if (outcome.is_error() || decided) {
            return outcome.is_error() ? outcome : answer;
        }
        return failure.is_error() ? failure : Value(!decides);
    }

    Value exists_one(const Node& node) {
        std::size_t count = 0;
        Value failure;
        Value outcome = each(node, [&] {
            count += truth(node.args[1], failure) ? 1 : 0;
            return !failure.is_error();
        });
        return outcome.is_error() ? outcome : failure.is_error() ? failure : Value(count == 1);
    }

    // A condition that has to be a truth value; else `failure` says why not.
    bool truth(NodeId id, Value& failure) {
        Value value = visit(id);
        const bool* found = value.get_if<bool>();
        if (found == nullptr) {
            failure = value.is_error() ? value : Value::no_overload();
        }
        return found != nullptr && *found;
    }

    Value transform(const Node& node) {
        std::vector<Value> items;
        Value failure;
        Value outcome = each(node, [&] {
            if (node.op != Op::transform && !truth(node.args[1], failure)) {
                return !failure.is_error();
            }
            Value item =
                node.op == Op::filter ? slots_[node.slot] : visit(node.args[node.args.size() - 1]);
            if (item.is_error()) {
                failure = std::move(item);
                return false;
            }
            items.push_back(std::move(item));
            return true;
        });
        return outcome.is_error()   ? outcome
               : failure.is_error() ? failure
                                    : Value::list(std::move(items));
    }

    Value map_optional(const Node& node) {
        Value on = visit(node.args[0]);
        const Optional* optional = on.get_if<Optional>();
        if (optional == nullptr) {
            return on.is_error() ? on : Value::no_overload();
        }
        if (!optional->value) {
            return on;
        }
        slots_[node.slot] = *optional->value;
        Value result = visit(node.args[1]);
        if (result.is_error()) {
            return result;
        }
        if (node.op == Op::opt_map) {
            return some(std::move(result));
        }
        return result.get_if<Optional>() == nullptr ? Value::no_overload() : result;
    }

    const Tree& tree_;
    Meter& meter_;
    std::vector<Value> slots_;
};

}  // namespace

Value evaluate(const Tree& tree, Value self, Value old, Meter& meter) {
    Evaluator evaluator(tree, meter);
    evaluator.set(0, std::move(self));
    evaluator.set(1, std::move(old));
    return evaluator.visit(tree.root);
}

}  // namespace capstan::local::cel
