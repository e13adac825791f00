// Conversions, times and URLs.
#include "runtime/local/cel/functions.hpp"
#include "runtime/local/cel/times.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace capstan::local::cel {
namespace {

using UrlPointer = std::shared_ptr<const Url>;

Value cannot_convert(const Value& value, std::string_view to) {
    return Value::error("type conversion error from '" + std::string(type_name(value)) + "' to '" +
                        std::string(to) + "'");
}

Value to_int(const Value& value) {
    if (const double* real = value.get_if<double>()) {
        constexpr double kLimit = 9223372036854775808.0;  // 2^63
        return std::isnan(*real) || *real >= kLimit || *real <= -kLimit
                   ? Value::error("integer overflow")
                   : Value(static_cast<std::int64_t>(*real));
    }
    if (const Timestamp* time = value.get_if<Timestamp>()) {
        return Value(time->seconds);
    }
    if (const Text* text = value.get_if<Text>()) {
        std::string_view digits = text->view;
        if (digits.size() > 1 && digits.front() == '+' && digits[1] != '-') {
            digits.remove_prefix(1);
        }
        std::int64_t number = 0;
        const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
        return read.ec == std::errc() && read.ptr == digits.data() + digits.size()
                   ? Value(number)
                   : cannot_convert(value, "int");
    }
    return value.get_if<std::int64_t>() != nullptr ? value : Value::no_overload();
}

Value to_double(const Value& value) {
    if (const std::int64_t* whole = value.get_if<std::int64_t>()) {
        return Value(static_cast<double>(*whole));
    }
    if (const Text* text = value.get_if<Text>()) {
        double number = 0;
        const std::string_view digits = text->view;
        const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
        return read.ec == std::errc() && read.ptr == digits.data() + digits.size()
                   ? Value(number)
                   : cannot_convert(value, "double");
    }
    return value.get_if<double>() != nullptr ? value : Value::no_overload();
}

Value to_text(const Value& value) {
    if (const std::int64_t* whole = value.get_if<std::int64_t>()) {
        return Value::text(std::to_string(*whole));
    }
    if (const double* real = value.get_if<double>()) {
        return Value::text(number_text(*real));
    }
    if (const bool* truth = value.get_if<bool>()) {
        return Value::borrowed(*truth ? "true" : "false");
    }
    if (const Duration* duration = value.get_if<Duration>()) {
        return Value::text(duration_text(*duration));
    }
    if (const Timestamp* time = value.get_if<Timestamp>()) {
        return Value::text(timestamp_text(*time));
    }
    if (const UrlPointer* url = value.get_if<UrlPointer>()) {
        return Value::text((*url)->text);
    }
    return value.get_if<Text>() != nullptr ? value : Value::no_overload();
}

Value to_bool(const Value& value) {
    const Text* text = value.get_if<Text>();
    if (text == nullptr) {
        return value.get_if<bool>() != nullptr ? value : Value::no_overload();
    }
    for (const std::string_view word : {"1", "t", "T", "true", "TRUE", "True"}) {
        if (text->view == word) {
            return Value(true);
        }
    }
    for (const std::string_view word : {"0", "f", "F", "false", "FALSE", "False"}) {
        if (text->view == word) {
            return Value(false);
        }
    }
    return cannot_convert(value, "bool");
}

Value to_duration(const Value& value) {
    const Text* text = value.get_if<Text>();
    if (text == nullptr) {
        return value.get_if<Duration>() != nullptr ? value : Value::no_overload();
    }
    const auto duration = parse_duration(text->view);
    return duration ? Value(*duration) : cannot_convert(value, "google.protobuf.Duration");
}

Value to_timestamp(const Value& value) {
    if (const std::int64_t* seconds = value.get_if<std::int64_t>()) {
        const Timestamp time{*seconds, 0};
        return in_range(time) ? Value(time) : Value::error("timestamp overflow");
    }
    const Text* text = value.get_if<Text>();
    if (text == nullptr) {
        return value.get_if<Timestamp>() != nullptr ? value : Value::no_overload();
    }
    const auto time = parse_timestamp(text->view);
    return time ? Value(*time) : cannot_convert(value, "google.protobuf.Timestamp");
}

Value of_duration(Function function, std::int64_t nanos) {
    constexpr std::int64_t kMilli = 1'000'000;
    switch (function) {
        case Function::get_hours: return Value(nanos / (3'600'000 * kMilli));
        case Function::get_minutes: return Value(nanos / (60'000 * kMilli));
        case Function::get_seconds: return Value(nanos / (1'000 * kMilli));
        case Function::get_milliseconds: return Value(nanos / kMilli);
        default: return Value::no_overload();
    }
}

std::int64_t of_time(Function function, const Timestamp& time) {
    const Calendar parts = calendar(time);
    const std::chrono::sys_days first(parts.date.year() / std::chrono::January / 1);
    const auto day = static_cast<std::int64_t>(static_cast<unsigned>(parts.date.day()));
    switch (function) {
        case Function::get_full_year: return static_cast<int>(parts.date.year());
        case Function::get_month:
            return static_cast<std::int64_t>(static_cast<unsigned>(parts.date.month())) - 1;
        case Function::get_day_of_year: return parts.days - first.time_since_epoch().count();
        case Function::get_day_of_month: return day - 1;
        case Function::get_date: return day;
        case Function::get_day_of_week: return ((parts.days + 4) % 7 + 7) % 7;
        case Function::get_hours: return parts.second_of_the_day / 3600;
        case Function::get_minutes: return parts.second_of_the_day / 60 % 60;
        case Function::get_seconds: return parts.second_of_the_day % 60;
        default: return time.nanos / 1'000'000;
    }
}

Value query_of(const Url& url, Meter& meter) {
    std::vector<Entry> entries;
    for (const auto& [key, text] : url.query) {
        if (!meter.spend(1 + entries.size())) {
            return Value::cost_exceeded();
        }
        const auto same = [&](const Entry& entry) { return entry.key.get_if<Text>()->view == key; };
        if (std::any_of(entries.begin(), entries.end(), same)) {
            continue;
        }
        std::vector<Value> values;
        for (const auto& [other, value] : url.query) {
            if (other == key) {
                values.push_back(Value::text(value));
            }
        }
        meter.spend(url.query.size());
        entries.push_back({Value::text(key), Value::list(std::move(values))});
    }
    return Value::map(std::move(entries));
}

std::string part_of(Function function, const Url& url) {
    switch (function) {
        case Function::get_scheme: return url.scheme;
        case Function::get_host: return url.host;
        case Function::get_hostname: return url.hostname();
        case Function::get_port: return url.port();
        default: return url.path;
    }
}

}  // namespace

Value call_conversion(Function function, std::span<const Value> args, Meter& meter) {
    const Value& value = args[0];
    if (const Text* text = value.get_if<Text>(); text && !meter.spend_text(text->view.size())) {
        return Value::cost_exceeded();
    }
    switch (function) {
        case Function::to_int: return to_int(value);
        case Function::to_double: return to_double(value);
        case Function::to_string: return to_text(value);
        case Function::to_bool: return to_bool(value);
        case Function::to_duration: return to_duration(value);
        case Function::to_timestamp: return to_timestamp(value);
        case Function::type: return Value(TypeName{type_name(value)});
        default: return value;  // dyn
    }
}

Value call_time(Function function, std::span<const Value> args) {
    if (const Duration* duration = args[0].get_if<Duration>()) {
        return args.size() == 1 ? of_duration(function, duration->nanos) : Value::no_overload();
    }
    const Timestamp* time = args[0].get_if<Timestamp>();
    const Text* zone = args.size() > 1 ? args[1].get_if<Text>() : nullptr;
    if (time == nullptr || (args.size() > 1 && zone == nullptr)) {
        return Value::no_overload();
    }
    const auto offset = zone_offset(zone == nullptr ? "UTC" : zone->view);
    if (!offset) {
        return Value::error("unknown time zone");
    }
    return Value(of_time(function, {time->seconds + *offset, time->nanos}));
}

Value call_url(Function function, std::span<const Value> args, Meter& meter) {
    if (const Text* text = args[0].get_if<Text>()) {
        if (!meter.spend_text(text->view.size())) {
            return Value::cost_exceeded();
        }
        auto url = parse_url(text->view);
        if (function == Function::is_url) {
            return Value(url.has_value());
        }
        if (function != Function::url) {
            return Value::no_overload();
        }
        return url ? Value(UrlPointer(std::make_shared<const Url>(std::move(*url))))
                   : Value::error("URL parse error during conversion from string: invalid URI");
    }
    const UrlPointer* url = args[0].get_if<UrlPointer>();
    if (url == nullptr || function == Function::is_url || function == Function::url) {
        return Value::no_overload();
    }
    return function == Function::get_query ? query_of(**url, meter)
                                           : Value::text(part_of(function, **url));
}

}  // namespace capstan::local::cel
