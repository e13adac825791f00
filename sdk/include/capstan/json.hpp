// JSON values with checked access: the only door to JSON in the host and in plugins.
//
// A nested object is written the way its YAML reads. {key, value} is a member, braces around
// members are an object, json::list({…}) is an array, also of one item; an array without its
// json::list does not compile. Values are copied in; a key written twice is there twice.
//
//     json::Value service = {
//         {"apiVersion", "v1"},
//         {"kind", "Service"},
//         {"metadata", {{"name", "main-client"}, {"labels", labels}}},
//         {"spec", {
//             {"ports", json::list({
//                 {{"name", "client"}, {"port", 2379}},
//                 {{"name", "metrics"}, {"port", 9095}},
//             })},
//         }},
//     };
//
// Reading goes through View, which never crashes and whose errors carry the field path:
//
//     // invalid, "/spec/replicas: missing"
//     CAPSTAN_TRY(auto replicas, json::View(etcd)["spec"]["replicas"].as_int());
//     auto name = json::View(etcd)["metadata"]["name"].string_or("");
//
// Input is hostile: parse() is iterative, limits depth, refuses duplicate keys, invalid UTF-8, NaN
// and trailing text.
// Thread: values, as std::vector. Member order is kept as written; equality ignores it.
#pragma once

#include "capstan/error.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace capstan::json {

// nesting of arrays and objects; default for parse()
inline constexpr std::size_t kDepthMax = 128;
// default for parse(); an API object is at most ~3 MiB
inline constexpr std::size_t kBytesMax = 16u * 1024 * 1024;

class Value;
struct Member;
using Array = std::vector<Value>;
using Object = std::vector<Member>;

enum class Kind : std::uint8_t { null, boolean, integer, real, string, array, object };
std::string_view to_string(Kind kind) noexcept;

// const char*, std::string_view, std::string and what converts to them; no null, no number.
template <class T>
concept Text = std::convertible_to<const T&, std::string_view> && !std::same_as<T, std::nullptr_t>;

class Value {
public:
    Value() noexcept = default;  // null
    // Templates, so that only the type itself is taken: a pointer is no truth value, a character no
    // number, and braces reach none of these; and clang compiles them only where Member is known.
    Value(std::same_as<std::nullptr_t> auto) noexcept {}
    Value(std::same_as<bool> auto value) noexcept : data_(value) {}
    template <class I>
        requires(std::is_integral_v<I> && !std::is_same_v<I, bool> && !std::is_same_v<I, char>)
    Value(I value) noexcept : data_(std::in_place_type<std::int64_t>, value) {}  // must fit int64
    Value(std::floating_point auto value) noexcept : data_(std::in_place_type<double>, value) {}
    template <Text T>
        requires(!std::same_as<T, std::string>)
    Value(const T& value) : Value(Copied{value}) {}
    Value(std::same_as<std::string> auto value) noexcept : data_(std::move(value)) {}
    Value(std::same_as<Array> auto value) noexcept : data_(std::move(value)) {}
    Value(std::same_as<Object> auto value) noexcept : data_(std::move(value)) {}
    Value(std::initializer_list<Member> members);  // an object; but Value{} is null
    Value(std::initializer_list<std::initializer_list<Member>> array) = delete;  // use json::list
    // Out of line: literals of nested objects expand to many of these, and inlined they would make
    // up most of a plugin's code and of its compile time.
    Value(const Value& other);
    Value(Value&& other) noexcept;
    Value& operator=(const Value& other);
    Value& operator=(Value&& other) noexcept;
    ~Value();

    Kind kind() const noexcept;
    bool is_null() const noexcept { return kind() == Kind::null; }
    bool is_object() const noexcept { return kind() == Kind::object; }
    bool is_array() const noexcept { return kind() == Kind::array; }
    bool is_string() const noexcept { return kind() == Kind::string; }

    // nullptr when the value is of another kind. Integers outside int64 are parsed as real.
    const bool* if_bool() const noexcept { return std::get_if<bool>(&data_); }
    const std::int64_t* if_int() const noexcept { return std::get_if<std::int64_t>(&data_); }
    const double* if_real() const noexcept { return std::get_if<double>(&data_); }
    const std::string* if_string() const noexcept { return std::get_if<std::string>(&data_); }
    const Array* if_array() const noexcept { return std::get_if<Array>(&data_); }
    const Object* if_object() const noexcept { return std::get_if<Object>(&data_); }
    std::string* if_string() noexcept { return std::get_if<std::string>(&data_); }
    Array* if_array() noexcept { return std::get_if<Array>(&data_); }
    Object* if_object() noexcept { return std::get_if<Object>(&data_); }

    // Member of an object; nullptr when absent or when this is no object.
    const Value* find(std::string_view key) const noexcept;
    Value* find(std::string_view key) noexcept;
    // RFC 6901; nullptr when a step is absent or the pointer is malformed. "" is the value itself.
    const Value* pointer(std::string_view rfc6901) const noexcept;
    Value* pointer(std::string_view rfc6901) noexcept;

    // Builders. set and operator[] turn null into an object, push_back null into an array; any
    // other kind is a broken invariant (CAPSTAN_CHECK).
    Value& operator[](std::string_view key);  // inserts null when absent
    // Item of an array. Requires: an array with more than `index` items (CAPSTAN_CHECK).
    Value& operator[](std::size_t index);
    const Value& operator[](std::size_t index) const;
    Value& set(std::string_view key, Value value);
    Value& set(std::string_view key, std::initializer_list<Member> members);  // {} is an object
    void push_back(Value value);
    bool erase(std::string_view key);  // false: was absent, or this is no object

    // objects: order of members does not matter
    friend bool operator==(const Value& a, const Value& b) noexcept;

private:
    struct Copied {
        std::string_view text;
    };
    explicit Value(Copied value);
    std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> data_;
};

struct Member {
    // A template, so that no braces become a key (two texts would, as the ends of a range).
    template <Text Key>
    Member(const Key& member_key, Value member_value)
        : Member(Name{member_key}, std::move(member_value)) {}
    // {"emptyDir", {}} is an empty object.
    template <Text Key>
    Member(const Key& member_key, std::initializer_list<Member> members)
        : Member(Name{member_key}, members) {}
    template <Text Key, class Item>
        requires(!std::same_as<Item, Member>)
    Member(const Key& member_key, std::initializer_list<Item> items) = delete;  // use json::list
    Member(const Member& other);
    Member(Member&& other) noexcept;
    Member& operator=(const Member& other);
    Member& operator=(Member&& other) noexcept;
    ~Member();
    std::string key;
    Value value;

private:
    struct Name {
        std::string_view text;
    };
    Member(Name member_key, Value&& member_value);
    Member(Name member_key, std::initializer_list<Member> members);
};

Value object();  // {}
Value list();    // []
Value list(std::initializer_list<Value> items);

// Borrowed, checked reading. Lives no longer than the Value it was made from: name a result before
// viewing it. Missing members and
// wrong kinds travel along and surface, with the whole path, in the final as_…() call.
class View {
public:
    explicit View(const Value& root) noexcept : value_(&root) {}
    explicit View(const Value&& root) = delete;  // it would be gone before the view

    View operator[](std::string_view key) const;
    View operator[](std::size_t index) const;

    // null counts as absent
    bool present() const noexcept { return value_ != nullptr && !value_->is_null(); }
    // nullptr: absent
    const Value* value() const noexcept { return value_; }
    const std::string& path() const noexcept { return path_; }  // RFC 6901, "" for the root

    // Errors: invalid, "<path>: missing" (absent or null; the root is "document") or "<path>:
    // expected array, found string", the path being that of the wrong value, also on the way here.
    Result<bool> as_bool() const;
    Result<std::int64_t> as_int() const;
    Result<double> as_real() const;  // integers too
    Result<std::string_view> as_string() const;
    Result<const Array*> as_array() const;
    Result<const Object*> as_object() const;
    // The items of an array, each with its path; absent: none.
    Result<std::vector<View>> items() const;

    // The fallback covers absence and wrong kinds alike: for reading objects
    // that a schema has checked.
    bool bool_or(bool fallback) const noexcept;
    std::int64_t int_or(std::int64_t fallback) const noexcept;
    std::string_view string_or(std::string_view fallback) const noexcept;
    // Empty when absent or of another kind. Borrowed from the root (or static).
    const Array& array() const noexcept;
    const Object& object() const noexcept;

    Error error(std::string_view what) const;  // invalid, "<path>: <what>"

private:
    View(const View& parent, Kind expected, const Value* value, std::string path);
    Error wrong_kind(Kind expected) const;
    const Value* value_;
    std::string path_;
    std::optional<Error> broken_;  // a value on the way here was of the wrong kind
};

struct ParseOptions {
    std::size_t depth_max{kDepthMax};
    std::size_t bytes_max{kBytesMax};
};

// Errors: invalid ("offset 17: duplicate key \"a\""), too_large (bytes or depth).
Result<Value> parse(std::string_view text, const ParseOptions& options = {});

std::string dump(const Value& value);  // compact, members in their order
// compact, members sorted by key: equal values give equal bytes
std::string dump_sorted(const Value& value);
std::string dump_pretty(const Value& value);  // two spaces

// One RFC 6901 reference token, escaped (~0, ~1).
std::string escape_pointer_token(std::string_view token);

}  // namespace capstan::json
