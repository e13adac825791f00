#include "runtime/local/cel/value.hpp"

#include "runtime/local/cel/cel.hpp"
#include "runtime/local/cel/times.hpp"

#include <charconv>
#include <cmath>

namespace capstan::local::cel {
namespace {

constexpr double kIntegerLimit = 9223372036854775808.0;  // 2^63

constexpr std::size_t kTimeBytesMax = 128;  // longer text is no time

Value string_of(const std::string& text, const Shape& shape) {
    if (text.size() > kTimeBytesMax) {
        return Value::borrowed(text);
    }
    if (shape.kind == ShapeKind::timestamp) {
        const auto time = parse_timestamp(text.size() == 10 ? text + "T00:00:00Z" : text);
        if (time) {
            return Value(*time);
        }
    }
    if (shape.kind == ShapeKind::duration) {
        if (const auto duration = parse_duration(text)) {
            return Value(*duration);
        }
    }
    return Value::borrowed(text);
}

const json::Array* array_of(const Value& value) {
    const Input* input = value.get_if<Input>();
    return input == nullptr ? nullptr : input->value->if_array();
}
const json::Object* object_of(const Value& value) {
    const Input* input = value.get_if<Input>();
    return input == nullptr ? nullptr : input->value->if_object();
}

const Shape& member_shape(const Shape& shape, std::string_view name) {
    const Shape* found = shape.kind == ShapeKind::object ? shape.field(name) : shape.of.get();
    return found == nullptr ? any_shape() : *found;
}

ShapeKind list_kind(const Value& value) {
    const Input* input = value.get_if<Input>();
    return input == nullptr ? ShapeKind::list : input->shape->kind;
}

// Both have the same keys with equal values.
bool same_keys(const Value& a, const Value& b, const std::vector<std::string>& keys, Meter& meter) {
    for (const std::string& key : keys) {
        Value left;
        Value right;
        const bool in_left = is_map(a) && field_find(a, key, key, left, meter);
        const bool in_right = is_map(b) && field_find(b, key, key, right, meter);
        if (in_left != in_right || (in_left && !equal(left, right, meter))) {
            return false;
        }
    }
    return true;
}

// Lists whose order says nothing: each item of `a` has its equal in `b`.
bool equal_unordered(const Value& a, const Value& b, Meter& meter) {
    const std::size_t size = list_size(a);
    const Shape& shape = *a.get_if<Input>()->shape;
    for (std::size_t i = 0; i < size; ++i) {
        const Value item = list_item(a, i);
        bool found = false;
        for (std::size_t k = 0; k < size && !found && !meter.exceeded(); ++k) {
            const Value other = list_item(b, k);
            if (shape.kind == ShapeKind::map_list && !same_keys(item, other, shape.keys, meter)) {
                continue;
            }
            found = equal(item, other, meter);
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

bool equal_lists(const Value& a, const Value& b, Meter& meter) {
    const std::size_t size = list_size(a);
    if (size != list_size(b)) {
        return false;
    }
    const ShapeKind kind = list_kind(a);
    if (kind == ShapeKind::set || kind == ShapeKind::map_list) {
        return equal_unordered(a, b, meter);
    }
    for (std::size_t i = 0; i < size; ++i) {
        if (!equal(list_item(a, i), list_item(b, i), meter)) {
            return false;
        }
    }
    return true;
}

bool equal_maps(const Value& a, const Value& b, Meter& meter) {
    const std::size_t size = map_size(a);
    if (size != map_size(b)) {
        return false;
    }
    for (std::size_t i = 0; i < size; ++i) {
        const Entry entry = map_entry(a, i);
        Value other;
        if (!map_find(b, entry.key, other, meter) || !equal(entry.value, other, meter)) {
            return false;
        }
    }
    return true;
}

template <class T>
Order order_of(const T& a, const T& b) {
    return a < b ? Order::less : b < a ? Order::greater : Order::same;
}

Order compare_mixed(std::int64_t whole, double real) {
    if (std::isnan(real)) {
        return Order::none;
    }
    if (real >= kIntegerLimit) {
        return Order::less;
    }
    if (real < -kIntegerLimit) {
        return Order::greater;
    }
    const double floor = std::floor(real);
    const Order order = order_of(whole, static_cast<std::int64_t>(floor));
    return order == Order::same && real > floor ? Order::less : order;
}

Order reversed(Order order) {
    return order == Order::less ? Order::greater : order == Order::greater ? Order::less : order;
}

}  // namespace

const Shape& any_shape() noexcept {
    static const Shape kAny;
    return kAny;
}

Value Value::text(std::string owned) {
    auto owner = std::make_shared<const std::string>(std::move(owned));
    const std::string_view view = *owner;
    return Value(Text{view, std::move(owner)});
}
Value Value::list(std::vector<Value> items) {
    return Value(List(std::make_shared<const std::vector<Value>>(std::move(items))));
}
Value Value::map(std::vector<Entry> entries) {
    return Value(Map(std::make_shared<const std::vector<Entry>>(std::move(entries))));
}
Value Value::error(std::string message) {
    return Value(Failed{std::make_shared<const std::string>(std::move(message)), false});
}
Value Value::cost_exceeded() {
    return Value(Failed{std::make_shared<const std::string>(kCostExceeded), true});
}
bool Value::is_final() const noexcept {
    const Failed* failed = get_if<Failed>();
    return failed != nullptr && failed->final;
}

Value Value::of(const json::Value& json, const Shape& shape) {
    switch (json.kind()) {
        case json::Kind::null: return Value();
        case json::Kind::boolean: return Value(*json.if_bool());
        case json::Kind::integer:
            return shape.kind == ShapeKind::real ? Value(static_cast<double>(*json.if_int()))
                                                 : Value(*json.if_int());
        case json::Kind::real: {
            const double real = *json.if_real();
            if (shape.kind == ShapeKind::integer && std::floor(real) == real &&
                std::fabs(real) < kIntegerLimit) {
                return Value(static_cast<std::int64_t>(real));
            }
            return Value(real);
        }
        case json::Kind::string: return string_of(*json.if_string(), shape);
        case json::Kind::array:
        case json::Kind::object: return Value(Input{&json, &shape});
    }
    return Value();
}

bool is_list(const Value& value) noexcept {
    return value.get_if<List>() != nullptr || array_of(value) != nullptr;
}
bool is_map(const Value& value) noexcept {
    return value.get_if<Map>() != nullptr || object_of(value) != nullptr;
}

std::size_t list_size(const Value& list) {
    const json::Array* array = array_of(list);
    return array != nullptr ? array->size() : (*list.get_if<List>())->size();
}

Value list_item(const Value& list, std::size_t index) {
    if (const json::Array* array = array_of(list)) {
        const Shape& shape = *list.get_if<Input>()->shape;
        return Value::of((*array)[index], shape.of ? *shape.of : any_shape());
    }
    return (**list.get_if<List>())[index];
}

std::size_t map_size(const Value& map) {
    const json::Object* object = object_of(map);
    return object != nullptr ? object->size() : (*map.get_if<Map>())->size();
}

Entry map_entry(const Value& map, std::size_t index) {
    if (const json::Object* object = object_of(map)) {
        const json::Member& member = (*object)[index];
        return {Value::borrowed(member.key),
                Value::of(member.value, member_shape(*map.get_if<Input>()->shape, member.key))};
    }
    return (**map.get_if<Map>())[index];
}

bool map_find(const Value& map, const Value& key, Value& found, Meter& meter) {
    if (object_of(map) != nullptr) {
        const Text* text = key.get_if<Text>();
        return text != nullptr && field_find(map, text->view, text->view, found, meter);
    }
    for (const Entry& entry : **map.get_if<Map>()) {
        if (equal(entry.key, key, meter)) {
            found = entry.value;
            return true;
        }
    }
    return false;
}

bool field_find(const Value& map,
                std::string_view written,
                std::string_view field,
                Value& found,
                Meter& meter) {
    if (const Input* input = map.get_if<Input>()) {
        const std::string_view name = input->shape->kind == ShapeKind::object ? field : written;
        meter.spend(1 + input->value->if_object()->size() / 16);
        const json::Value* member = input->value->find(name);
        if (member != nullptr) {
            found = Value::of(*member, member_shape(*input->shape, name));
        }
        return member != nullptr;
    }
    return map_find(map, Value::borrowed(written), found, meter);
}

bool equal(const Value& a, const Value& b, Meter& meter) {
    if (!meter.spend(1)) {
        return false;
    }
    if (is_list(a) || is_list(b)) {
        return is_list(a) && is_list(b) && equal_lists(a, b, meter);
    }
    if (is_map(a) || is_map(b)) {
        return is_map(a) && is_map(b) && equal_maps(a, b, meter);
    }
    if (a.is_null() || b.is_null()) {
        return a.is_null() && b.is_null();
    }
    const TypeName* type = a.get_if<TypeName>();
    const TypeName* other_type = b.get_if<TypeName>();
    if (type != nullptr || other_type != nullptr) {
        return type != nullptr && other_type != nullptr && type->name == other_type->name;
    }
    const Optional* optional = a.get_if<Optional>();
    const Optional* other = b.get_if<Optional>();
    if (optional != nullptr || other != nullptr) {
        if (optional == nullptr || other == nullptr || !optional->value || !other->value) {
            return optional != nullptr && other != nullptr && !optional->value && !other->value;
        }
        return equal(*optional->value, *other->value, meter);
    }
    using UrlPointer = std::shared_ptr<const Url>;
    if (const UrlPointer* url = a.get_if<UrlPointer>()) {
        const UrlPointer* second = b.get_if<UrlPointer>();
        return second != nullptr && (*url)->text == (*second)->text;
    }
    if (const Text* text = a.get_if<Text>()) {
        meter.spend_text(text->view.size());
    }
    return compare(a, b) == Order::same;
}

Order compare(const Value& a, const Value& b) {
    const std::int64_t* whole_a = a.get_if<std::int64_t>();
    const std::int64_t* whole_b = b.get_if<std::int64_t>();
    const double* real_a = a.get_if<double>();
    const double* real_b = b.get_if<double>();
    if (whole_a != nullptr && whole_b != nullptr) {
        return order_of(*whole_a, *whole_b);
    }
    if (real_a != nullptr && real_b != nullptr) {
        return std::isnan(*real_a) || std::isnan(*real_b) ? Order::none
                                                          : order_of(*real_a, *real_b);
    }
    if (whole_a != nullptr && real_b != nullptr) {
        return compare_mixed(*whole_a, *real_b);
    }
    if (real_a != nullptr && whole_b != nullptr) {
        return reversed(compare_mixed(*whole_b, *real_a));
    }
    if (const Text* text = a.get_if<Text>()) {
        const Text* other = b.get_if<Text>();
        return other == nullptr ? Order::not_comparable : order_of(text->view, other->view);
    }
    if (const bool* truth = a.get_if<bool>()) {
        const bool* other = b.get_if<bool>();
        return other == nullptr ? Order::not_comparable : order_of(*truth, *other);
    }
    if (const Duration* duration = a.get_if<Duration>()) {
        const Duration* other = b.get_if<Duration>();
        return other == nullptr ? Order::not_comparable : order_of(duration->nanos, other->nanos);
    }
    if (const Timestamp* time = a.get_if<Timestamp>()) {
        const Timestamp* other = b.get_if<Timestamp>();
        return other == nullptr ? Order::not_comparable
                                : order_of(std::pair(time->seconds, time->nanos),
                                           std::pair(other->seconds, other->nanos));
    }
    return Order::not_comparable;
}

std::string number_text(double value) {
    if (std::isnan(value) || std::isinf(value)) {
        return std::isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";
    }
    const bool exponent = value != 0 && (std::fabs(value) >= 1e6 || std::fabs(value) < 1e-4);
    char buffer[64];
    const auto end =
        std::to_chars(buffer,
                      buffer + sizeof buffer,
                      value,
                      exponent ? std::chars_format::scientific : std::chars_format::fixed);
    return std::string(buffer, end.ptr);
}

}  // namespace capstan::local::cel
