#include "runtime/config/yaml.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

namespace capstan::config {

namespace {

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) noexcept {
    return std::find(words.begin(), words.end(), text) != words.end();
}

bool all_digits(std::string_view text) noexcept {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool is_float(std::string_view text) noexcept {
    const auto digits = [&text] {
        const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
        text.remove_prefix(end);
        return end;
    };
    if (text.starts_with('-') || text.starts_with('+')) {
        text.remove_prefix(1);
    }
    const std::size_t whole = digits();
    if (text.starts_with('.')) {
        text.remove_prefix(1);
        if (digits() == 0 && whole == 0) {
            return false;
        }
    } else if (whole == 0) {
        return false;
    }
    if (text.starts_with('e') || text.starts_with('E')) {
        text.remove_prefix(1);
        if (text.starts_with('-') || text.starts_with('+')) {
            text.remove_prefix(1);
        }
        if (digits() == 0) {
            return false;
        }
    }
    return text.empty();
}

Result<json::Value> to_real(std::string_view text) {
    if (text.starts_with('+')) {
        text.remove_prefix(1);
    }
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        return fail(Code::invalid, "number " + std::string(text) + " is out of range");
    }
    return json::Value(value);
}

Result<json::Value> to_integer(std::string_view text) {
    const bool negative = text.starts_with('-');
    std::string_view digits = text;
    if (negative || digits.starts_with('+')) {
        digits.remove_prefix(1);
    }
    if (digits.size() > 1 && digits.front() == '0') {
        return fail(Code::invalid,
                    "integer " + std::string(text) +
                        " with a leading zero means different things to YAML 1.1 and 1.2; quote it "
                        "or write it without");
    }
    const std::string_view parsed = negative ? text : digits;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(parsed.data(), parsed.data() + parsed.size(), value);
    return error == std::errc{} ? Result<json::Value>(json::Value(value)) : to_real(text);
}

Result<json::Value> to_based(std::string_view text, int base) {
    std::int64_t value = 0;
    const std::string_view digits = text.substr(2);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error == std::errc::result_out_of_range) {
        return fail(Code::invalid, "integer " + std::string(text) + " is out of range");
    }
    if (error != std::errc{} || end != digits.data() + digits.size() || digits.front() == '-') {
        return json::Value(text);
    }
    return json::Value(value);
}

}  // namespace

Result<json::Value> resolve_plain(std::string_view text) {
    if (one_of(text, {"", "~", "null", "Null", "NULL"})) {
        return json::Value();
    }
    if (one_of(text, {"true", "True", "TRUE"})) {
        return json::Value(true);
    }
    if (one_of(text, {"false", "False", "FALSE"})) {
        return json::Value(false);
    }
    if (one_of(text,
               {".inf",
                ".Inf",
                ".INF",
                "+.inf",
                "+.Inf",
                "+.INF",
                "-.inf",
                "-.Inf",
                "-.INF",
                ".nan",
                ".NaN",
                ".NAN"})) {
        return fail(
            Code::invalid,
            std::string(text) + " cannot be expressed in JSON; quote it if it is meant as text");
    }
    if (text.size() > 2 && text.starts_with("0o")) {
        return to_based(text, 8);
    }
    if (text.size() > 2 && text.starts_with("0x")) {
        return to_based(text, 16);
    }
    std::string_view digits = text;
    if (digits.starts_with('-') || digits.starts_with('+')) {
        digits.remove_prefix(1);
    }
    if (all_digits(digits)) {
        return to_integer(text);
    }
    if (is_float(text)) {
        return to_real(text);
    }
    return json::Value(text);
}

}  // namespace capstan::config
