#include "runtime/local/cel/functions.hpp"

#include "runtime/local/cel/times.hpp"

#include <array>

namespace capstan::local::cel {
namespace {

using enum ShapeKind;

constexpr std::array kFunctions{
    FunctionInfo{"startsWith", Function::starts_with, true, 2, 2, string, boolean},
    FunctionInfo{"endsWith", Function::ends_with, true, 2, 2, string, boolean},
    FunctionInfo{"contains", Function::contains, true, 2, 2, string, boolean},
    FunctionInfo{"matches", Function::matches, true, 2, 2, string, boolean},
    FunctionInfo{"matches", Function::matches, false, 2, 2, string, boolean},
    FunctionInfo{"charAt", Function::char_at, true, 2, 2, string, string},
    FunctionInfo{"lowerAscii", Function::lower_ascii, true, 1, 1, string, string},
    FunctionInfo{"upperAscii", Function::upper_ascii, true, 1, 1, string, string},
    FunctionInfo{"trim", Function::trim, true, 1, 1, string, string},
    FunctionInfo{"replace", Function::replace, true, 3, 4, string, string},
    FunctionInfo{"split", Function::split, true, 2, 3, string, list},
    FunctionInfo{"substring", Function::substring, true, 2, 3, string, string},
    FunctionInfo{"format", Function::format, true, 2, 2, string, string},
    FunctionInfo{"size", Function::size, true, 1, 1, dyn, integer},
    FunctionInfo{"size", Function::size, false, 1, 1, dyn, integer},
    FunctionInfo{"indexOf", Function::index_of, true, 2, 3, dyn, integer},
    FunctionInfo{"lastIndexOf", Function::last_index_of, true, 2, 3, dyn, integer},
    FunctionInfo{"join", Function::join, true, 1, 2, list, string},
    FunctionInfo{"isSorted", Function::is_sorted, true, 1, 1, list, boolean},
    FunctionInfo{"sum", Function::sum, true, 1, 1, list, dyn},
    FunctionInfo{"min", Function::min, true, 1, 1, list, dyn},
    FunctionInfo{"max", Function::max, true, 1, 1, list, dyn},
    FunctionInfo{"int", Function::to_int, false, 1, 1, dyn, integer},
    FunctionInfo{"double", Function::to_double, false, 1, 1, dyn, real},
    FunctionInfo{"string", Function::to_string, false, 1, 1, dyn, string},
    FunctionInfo{"bool", Function::to_bool, false, 1, 1, dyn, boolean},
    FunctionInfo{"duration", Function::to_duration, false, 1, 1, dyn, duration},
    FunctionInfo{"timestamp", Function::to_timestamp, false, 1, 1, dyn, timestamp},
    FunctionInfo{"dyn", Function::to_dyn, false, 1, 1, dyn, dyn},
    FunctionInfo{"type", Function::type, false, 1, 1, dyn, other},
    FunctionInfo{"getFullYear", Function::get_full_year, true, 1, 2, timestamp, integer},
    FunctionInfo{"getMonth", Function::get_month, true, 1, 2, timestamp, integer},
    FunctionInfo{"getDayOfYear", Function::get_day_of_year, true, 1, 2, timestamp, integer},
    FunctionInfo{"getDayOfMonth", Function::get_day_of_month, true, 1, 2, timestamp, integer},
    FunctionInfo{"getDate", Function::get_date, true, 1, 2, timestamp, integer},
    FunctionInfo{"getDayOfWeek", Function::get_day_of_week, true, 1, 2, timestamp, integer},
    FunctionInfo{"getHours", Function::get_hours, true, 1, 2, dyn, integer},
    FunctionInfo{"getMinutes", Function::get_minutes, true, 1, 2, dyn, integer},
    FunctionInfo{"getSeconds", Function::get_seconds, true, 1, 2, dyn, integer},
    FunctionInfo{"getMilliseconds", Function::get_milliseconds, true, 1, 2, dyn, integer},
    FunctionInfo{"isURL", Function::is_url, false, 1, 1, string, boolean},
    FunctionInfo{"url", Function::url, false, 1, 1, string, other},
    FunctionInfo{"getScheme", Function::get_scheme, true, 1, 1, other, string},
    FunctionInfo{"getHost", Function::get_host, true, 1, 1, other, string},
    FunctionInfo{"getHostname", Function::get_hostname, true, 1, 1, other, string},
    FunctionInfo{"getPort", Function::get_port, true, 1, 1, other, string},
    FunctionInfo{"getEscapedPath", Function::get_escaped_path, true, 1, 1, other, string},
    FunctionInfo{"getQuery", Function::get_query, true, 1, 1, other, dyn},
    FunctionInfo{"optional.of", Function::optional_of, false, 1, 1, dyn, other},
    FunctionInfo{"optional.none", Function::optional_none, false, 0, 0, dyn, other},
    FunctionInfo{"hasValue", Function::has_value, true, 1, 1, other, boolean},
    FunctionInfo{"value", Function::value, true, 1, 1, other, dyn},
    FunctionInfo{"orValue", Function::or_value, true, 2, 2, other, dyn},
    FunctionInfo{"or", Function::or_else, true, 2, 2, other, other},
};

Value call_optional(Function function, std::span<const Value> args) {
    if (function == Function::optional_none) {
        return Value(Optional{nullptr});
    }
    if (function == Function::optional_of) {
        return Value(Optional{std::make_shared<const Value>(args[0])});
    }
    const Optional* optional = args[0].get_if<Optional>();
    if (optional == nullptr) {
        return Value::no_overload();
    }
    const bool full = optional->value != nullptr;
    switch (function) {
        case Function::has_value: return Value(full);
        case Function::value:
            return full ? *optional->value : Value::error("optional.none() dereference");
        case Function::or_value: return full ? *optional->value : args[1];
        case Function::or_else:
            return args[1].get_if<Optional>() == nullptr ? Value::no_overload()
                   : full                                ? args[0]
                                                         : args[1];
        default: return Value::no_overload();
    }
}

Value call_size(const Value& value, Meter& meter) {
    if (is_list(value) || is_map(value)) {
        return Value(
            static_cast<std::int64_t>(is_list(value) ? list_size(value) : map_size(value)));
    }
    return call_text(Function::size, {&value, 1}, meter);
}

}  // namespace

const FunctionInfo* find_function(std::string_view name, bool member) noexcept {
    for (const FunctionInfo& info : kFunctions) {
        if (info.name == name && info.member == member) {
            return &info;
        }
    }
    return nullptr;
}

Value call_function(Function function, std::span<const Value> args, Meter& meter) {
    for (const Value& arg : args) {
        if (arg.is_error()) {
            return arg;
        }
    }
    if (function == Function::size) {
        return call_size(args[0], meter);
    }
    if (function <= Function::format) {
        return call_text(function, args, meter);
    }
    if (function <= Function::max) {
        const bool text = args[0].get_if<Text>() != nullptr;
        return text ? call_text(function, args, meter) : call_list(function, args, meter);
    }
    if (function <= Function::type) {
        return call_conversion(function, args, meter);
    }
    if (function <= Function::get_milliseconds) {
        return call_time(function, args);
    }
    if (function <= Function::get_query) {
        return call_url(function, args, meter);
    }
    return call_optional(function, args);
}

}  // namespace capstan::local::cel
