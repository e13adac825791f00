// Functions of expressions. Private to runtime/local/cel.
#pragma once

#include "runtime/local/cel/ast.hpp"

#include <cstddef>
#include <span>
#include <string_view>

namespace capstan::local::cel {

enum class Function : std::uint8_t {
    none,
    // text
    starts_with,
    ends_with,
    contains,
    matches,
    char_at,
    lower_ascii,
    upper_ascii,
    trim,
    replace,
    split,
    substring,
    format,
    // text and lists
    size,
    index_of,
    last_index_of,
    join,
    is_sorted,
    sum,
    min,
    max,
    // conversions
    to_int,
    to_double,
    to_string,
    to_bool,
    to_duration,
    to_timestamp,
    to_dyn,
    type,
    // times
    get_full_year,
    get_month,
    get_day_of_year,
    get_day_of_month,
    get_date,
    get_day_of_week,
    get_hours,
    get_minutes,
    get_seconds,
    get_milliseconds,
    // URLs
    is_url,
    url,
    get_scheme,
    get_host,
    get_hostname,
    get_port,
    get_escaped_path,
    get_query,
    // optional values
    optional_of,
    optional_none,
    has_value,
    value,
    or_value,
    or_else,
};

struct FunctionInfo {
    std::string_view name;
    Function function;
    bool member;                // called on a receiver, which is the first argument
    std::size_t arguments_min;  // with the receiver
    std::size_t arguments_max;
    ShapeKind first;   // of the first argument; dyn: several, or any
    ShapeKind result;  // dyn: it depends
};
// nullptr: there is no such function in this form.
const FunctionInfo* find_function(std::string_view name, bool member) noexcept;

// requires: as many `args` as FunctionInfo says. Errors are values.
Value call_function(Function function, std::span<const Value> args, Meter& meter);
Value call_text(Function function, std::span<const Value> args, Meter& meter);
Value call_list(Function function, std::span<const Value> args, Meter& meter);
Value call_time(Function function, std::span<const Value> args);
Value call_url(Function function, std::span<const Value> args, Meter& meter);
Value call_conversion(Function function, std::span<const Value> args, Meter& meter);
Value match_pattern(const Pattern& pattern, const Value& text, Meter& meter);

// a op b for + - * / %. Errors are values.
Value arithmetic(Op op, const Value& a, const Value& b, Meter& meter);
Value add_lists(const Value& a, const Value& b, Meter& meter);

}  // namespace capstan::local::cel
