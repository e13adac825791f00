// Values of an evaluation. Private to runtime/local/cel.
//
// Objects and lists of the input stay where they are and are read through their shape; texts are
// views into input, program or a text the value shares. An error is a value, too: && and || may
// forget it.
#pragma once

#include "capstan/json.hpp"
#include "runtime/local/cel/shape.hpp"
#include "runtime/local/cel/url.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace capstan::local::cel {

class Value;
struct Entry;

struct Text {
    std::string_view view;
    std::shared_ptr<const std::string> owner;  // null: the view outlives the evaluation
};
struct Duration {
    std::int64_t nanos;
};
struct Timestamp {
    std::int64_t seconds;  // since 1970, UTC
    std::int32_t nanos;
};
// An array or object of the input.
struct Input {
    const json::Value* value;
    const Shape* shape;  // never null
};
struct TypeName {
    std::string_view name;  // static storage
};
// Shared, because values are copied much and never changed.
using List = std::shared_ptr<const std::vector<Value>>;
using Map = std::shared_ptr<const std::vector<Entry>>;
struct Optional {
    std::shared_ptr<const Value> value;  // null: none
};
struct Failed {
    std::shared_ptr<const std::string> message;
    bool final;  // the budget is used up: nothing absorbs it
};

class Value {
public:
    using Data = std::variant<std::monostate,
                              bool,
                              std::int64_t,
                              double,
                              Text,
                              Duration,
                              Timestamp,
                              Input,
                              List,
                              Map,
                              TypeName,
                              Optional,
                              std::shared_ptr<const Url>,
                              Failed>;

    Value() noexcept = default;  // null
    template <class T>
    explicit Value(T data) : data_(std::move(data)) {}

    static Value text(std::string owned);
    static Value borrowed(std::string_view view) { return Value(Text{view, nullptr}); }
    static Value list(std::vector<Value> items);
    static Value map(std::vector<Entry> entries);
    static Value error(std::string message);
    static Value no_overload() { return error("no such overload"); }
    static Value cost_exceeded();
    // `json` read as `shape` says; borrowed.
    static Value of(const json::Value& json, const Shape& shape);

    template <class T>
    const T* get_if() const noexcept {
        return std::get_if<T>(&data_);
    }
    bool is_null() const noexcept { return std::holds_alternative<std::monostate>(data_); }
    bool is_error() const noexcept { return std::holds_alternative<Failed>(data_); }
    bool is_final() const noexcept;

private:
    Data data_;
};

struct Entry {
    Value key;
    Value value;
};

const Shape& any_shape() noexcept;  // dyn

// Steps left; false from spend(): the budget is used up.
class Meter {
public:
    explicit Meter(std::uint64_t steps) : left_(steps) {}
    bool spend(std::uint64_t steps) noexcept {
        if (steps > left_) {
            left_ = 0;
            spent_ = true;
            return false;
        }
        left_ -= steps;
        return true;
    }
    // Reading so many bytes of text.
    bool spend_text(std::size_t bytes) noexcept { return spend(1 + bytes / 10); }
    std::uint64_t left() const noexcept { return left_; }
    bool exceeded() const noexcept { return spent_; }

private:
    std::uint64_t left_;
    bool spent_{false};
};

bool is_list(const Value& value) noexcept;
bool is_map(const Value& value) noexcept;
std::size_t list_size(const Value& list);
Value list_item(const Value& list, std::size_t index);  // requires: index < list_size
std::size_t map_size(const Value& map);
Entry map_entry(const Value& map, std::size_t index);  // in the order of the map
// The value of a key; false: absent.
bool map_find(const Value& map, const Value& key, Value& found, Meter& meter);
// The member `field`, which an expression writes as `written`.
bool field_find(
    const Value& map, std::string_view written, std::string_view field, Value& found, Meter& meter);

// Values of different types are not equal, but for numbers. May use up the meter.
bool equal(const Value& a, const Value& b, Meter& meter);
enum class Order : std::uint8_t { less, same, greater, none, not_comparable };  // none: with NaN
Order compare(const Value& a, const Value& b);

std::string_view type_name(const Value& value) noexcept;
std::string key_text(const Value& key);  // for a message: short whatever the key is
std::string number_text(double value);   // Go's 'g' with the fewest digits
// For the caller of an evaluation; "" for an error.
json::Value to_json(const Value& value, Meter& meter);

}  // namespace capstan::local::cel
