// Functions of lists, and arithmetic.
#include "runtime/local/cel/functions.hpp"
#include "runtime/local/cel/times.hpp"

#include <cmath>

namespace capstan::local::cel {
namespace {

Value overflow() {
    return Value::error("integer overflow");
}

Value join(std::span<const Value> args, Meter& meter) {
    const Text* separator = args.size() > 1 ? args[1].get_if<Text>() : nullptr;
    if (args.size() > 1 && separator == nullptr) {
        return Value::no_overload();
    }
    std::string out;
    for (std::size_t i = 0; i < list_size(args[0]); ++i) {
        const Value item = list_item(args[0], i);
        const Text* text = item.get_if<Text>();
        if (text == nullptr) {
            return Value::no_overload();
        }
        const std::string_view between = i == 0 || separator == nullptr ? "" : separator->view;
        if (!meter.spend_text(text->view.size() + between.size())) {
            return Value::cost_exceeded();
        }
        out += between;
        out += text->view;
    }
    return Value::text(std::move(out));
}

Value position(Function function, const Value& list, const Value& wanted, Meter& meter) {
    const std::size_t size = list_size(list);
    for (std::size_t i = 0; i < size && !meter.exceeded(); ++i) {
        const std::size_t at = function == Function::index_of ? i : size - 1 - i;
        if (equal(list_item(list, at), wanted, meter) && !meter.exceeded()) {
            return Value(static_cast<std::int64_t>(at));
        }
    }
    return meter.exceeded() ? Value::cost_exceeded() : Value(std::int64_t{-1});
}

// min, max, isSorted and sum look at each item once.
Value fold(Function function, const Value& list, Meter& meter) {
    const std::size_t size = list_size(list);
    if (!meter.spend(size)) {
        return Value::cost_exceeded();
    }
    if (size == 0) {
        return function == Function::sum         ? Value(std::int64_t{0})
               : function == Function::is_sorted ? Value(true)
                                                 : Value::error("min or max called on empty list");
    }
    Value best = list_item(list, 0);
    for (std::size_t i = 1; i < size; ++i) {
        const Value item = list_item(list, i);
        if (function == Function::sum) {
            best = arithmetic(Op::add, best, item, meter);
            if (best.is_error()) {
                return best;
            }
            continue;
        }
        const Order order = compare(best, item);
        if (order == Order::not_comparable) {
            return Value::no_overload();
        }
        if (function == Function::is_sorted) {
            if (order == Order::greater) {
                return Value(false);
            }
            best = item;
        } else if (order == (function == Function::min ? Order::greater : Order::less)) {
            best = item;
        }
    }
    return function == Function::is_sorted ? Value(true) : best;
}

Value whole(Op op, std::int64_t a, std::int64_t b) {
    std::int64_t out = 0;
    switch (op) {
        case Op::add: return __builtin_add_overflow(a, b, &out) ? overflow() : Value(out);
        case Op::subtract: return __builtin_sub_overflow(a, b, &out) ? overflow() : Value(out);
        case Op::multiply: return __builtin_mul_overflow(a, b, &out) ? overflow() : Value(out);
        default: break;
    }
    if (b == 0) {
        return Value::error(op == Op::divide ? "division by zero" : "modulus by zero");
    }
    if (b == -1) {
        return __builtin_sub_overflow(std::int64_t{0}, a, &out) ? overflow()
               : op == Op::divide                               ? Value(out)
                                                                : Value(std::int64_t{0});
    }
    return Value(op == Op::divide ? a / b : a % b);
}

Value real(Op op, double a, double b) {
    switch (op) {
        case Op::add: return Value(a + b);
        case Op::subtract: return Value(a - b);
        case Op::multiply: return Value(a * b);
        case Op::divide:
            return Value(b != 0                        ? a / b
                         : a == 0 || std::isnan(a)     ? std::nan("")
                         : (a > 0) == !std::signbit(b) ? HUGE_VAL
                                                       : -HUGE_VAL);
        default: return Value::no_overload();
    }
}

Value shifted(const Timestamp& time, std::int64_t nanos) {
    constexpr std::int64_t kNano = 1'000'000'000;
    Timestamp out{time.seconds + nanos / kNano,
                  static_cast<std::int32_t>(time.nanos + nanos % kNano)};
    if (out.nanos < 0) {
        --out.seconds;
        out.nanos += static_cast<std::int32_t>(kNano);
    } else if (out.nanos >= kNano) {
        ++out.seconds;
        out.nanos -= static_cast<std::int32_t>(kNano);
    }
    return in_range(out) ? Value(out) : Value::error("timestamp overflow");
}

Value between(const Timestamp& later, const Timestamp& earlier) {
    std::int64_t nanos = 0;
    const bool wide =
        __builtin_mul_overflow(later.seconds - earlier.seconds, 1'000'000'000, &nanos);
    return wide || __builtin_add_overflow(nanos, later.nanos - earlier.nanos, &nanos)
               ? overflow()
               : Value(Duration{nanos});
}

Value times(Op op, const Value& a, const Value& b) {
    const Timestamp* time_a = a.get_if<Timestamp>();
    const Timestamp* time_b = b.get_if<Timestamp>();
    const Duration* span_a = a.get_if<Duration>();
    const Duration* span_b = b.get_if<Duration>();
    if (op != Op::add && op != Op::subtract) {
        return Value::no_overload();
    }
    if (span_a != nullptr && span_b != nullptr) {
        const Value sum = whole(op, span_a->nanos, span_b->nanos);
        return sum.is_error() ? sum : Value(Duration{*sum.get_if<std::int64_t>()});
    }
    if (time_a != nullptr && span_b != nullptr) {
        const Value shift = op == Op::add ? Value(span_b->nanos) : whole(op, 0, span_b->nanos);
        return shift.is_error() ? shift : shifted(*time_a, *shift.get_if<std::int64_t>());
    }
    if (span_a != nullptr && time_b != nullptr && op == Op::add) {
        return shifted(*time_b, span_a->nanos);
    }
    if (time_a != nullptr && time_b != nullptr && op == Op::subtract) {
        return between(*time_a, *time_b);
    }
    return Value::no_overload();
}

bool same_item(const Value& a, const Value& b, const Shape* shape, Meter& meter) {
    if (shape == nullptr || shape->kind != ShapeKind::map_list || !is_map(a) || !is_map(b)) {
        return equal(a, b, meter);
    }
    for (const std::string& key : shape->keys) {
        Value left;
        Value right;
        const bool in_left = field_find(a, key, key, left, meter);
        if (in_left != field_find(b, key, key, right, meter) ||
            (in_left && !equal(left, right, meter))) {
            return false;
        }
    }
    return true;
}

}  // namespace

// Sets and maps are merged: what is there already stays once, and in its place.
Value add_lists(const Value& a, const Value& b, Meter& meter) {
    if (!meter.spend(list_size(a) + list_size(b))) {
        return Value::cost_exceeded();
    }
    const Input* input = a.get_if<Input>();
    const Shape* shape = input == nullptr ? nullptr : input->shape;
    const bool merge =
        shape != nullptr && (shape->kind == ShapeKind::set || shape->kind == ShapeKind::map_list);
    std::vector<Value> items;
    for (std::size_t i = 0; i < list_size(a); ++i) {
        items.push_back(list_item(a, i));
    }
    for (std::size_t i = 0; i < list_size(b); ++i) {
        const Value item = list_item(b, i);
        bool found = false;
        for (std::size_t k = 0; merge && k < items.size() && !found; ++k) {
            found = same_item(items[k], item, shape, meter);
            if (meter.exceeded()) {
                return Value::cost_exceeded();
            }
            if (found) {
                items[k] = item;
            }
        }
        if (!found) {
            items.push_back(item);
        }
    }
    return Value::list(std::move(items));
}

Value arithmetic(Op op, const Value& a, const Value& b, Meter& meter) {
    const std::int64_t* whole_a = a.get_if<std::int64_t>();
    const std::int64_t* whole_b = b.get_if<std::int64_t>();
    if (whole_a != nullptr && whole_b != nullptr) {
        return whole(op, *whole_a, *whole_b);
    }
    const double* real_a = a.get_if<double>();
    const double* real_b = b.get_if<double>();
    if (real_a != nullptr && real_b != nullptr) {
        return real(op, *real_a, *real_b);
    }
    const Text* text_a = a.get_if<Text>();
    const Text* text_b = b.get_if<Text>();
    if (text_a != nullptr && text_b != nullptr && op == Op::add) {
        if (!meter.spend_text(text_a->view.size() + text_b->view.size())) {
            return Value::cost_exceeded();
        }
        return Value::text(std::string(text_a->view) + std::string(text_b->view));
    }
    if (is_list(a) && is_list(b) && op == Op::add) {
        return add_lists(a, b, meter);
    }
    return times(op, a, b);
}

Value call_list(Function function, std::span<const Value> args, Meter& meter) {
    if (!is_list(args[0])) {
        return Value::no_overload();
    }
    switch (function) {
        case Function::join: return join(args, meter);
        case Function::index_of:
        case Function::last_index_of:
            return args.size() == 2 ? position(function, args[0], args[1], meter)
                                    : Value::no_overload();
        default: return fold(function, args[0], meter);
    }
}

}  // namespace capstan::local::cel
