// Functions of text. Positions count code points.
#include "runtime/local/cel/functions.hpp"

#include <algorithm>
#include <optional>

namespace capstan::local::cel {
namespace {

constexpr std::uint64_t kPatternSteps = 1'000;  // to compile a pattern; a short one can be large

bool starts_code_point(char c) {
    return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
}

std::int64_t code_points(std::string_view text) {
    return std::count_if(text.begin(), text.end(), starts_code_point);
}

// Where code point `index` begins; text.size() for the one after the last.
std::size_t byte_at(std::string_view text, std::int64_t index) {
    std::size_t at = 0;
    for (; at < text.size(); ++at) {
        if (starts_code_point(text[at]) && index-- == 0) {
            break;
        }
    }
    return at;
}

Value out_of_range(std::int64_t index) {
    return Value::error("index out of range: " + std::to_string(index));
}

template <class Change>
Value changed(std::string_view text, Change change) {
    std::string out(text);
    for (char& c : out) {
        c = change(c);
    }
    return Value::text(std::move(out));
}

Value trim(std::string_view text) {
    static constexpr std::string_view kBlanks = " \t\n\v\f\r";
    const std::size_t first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) {
        return Value::borrowed("");
    }
    const std::size_t last = text.find_last_not_of(kBlanks);
    return Value::text(std::string(text.substr(first, last - first + 1)));
}

// The parts of `text` between separators, `limit` at most (negative: all).
std::vector<std::string_view> parts_of(std::string_view text,
                                       std::string_view separator,
                                       std::int64_t limit) {
    std::vector<std::string_view> parts;
    if (limit == 0) {
        return parts;
    }
    while (limit < 0 || static_cast<std::int64_t>(parts.size()) + 1 < limit) {
        std::size_t at = separator.empty() ? byte_at(text, 1) : text.find(separator);
        if (at == std::string_view::npos || (separator.empty() && at >= text.size())) {
            break;
        }
        parts.push_back(text.substr(0, at));
        text.remove_prefix(at + separator.size());
    }
    if (!separator.empty() || !text.empty()) {
        parts.push_back(text);
    }
    return parts;
}

Value split(std::string_view text, std::string_view separator, std::int64_t limit, Meter& meter) {
    const auto parts = parts_of(text, separator, limit);
    if (!meter.spend(parts.size())) {
        return Value::cost_exceeded();
    }
    std::vector<Value> items;
    for (const std::string_view part : parts) {
        items.push_back(Value::text(std::string(part)));
    }
    return Value::list(std::move(items));
}

Value replace(std::string_view text,
              std::string_view old,
              std::string_view with,
              std::int64_t limit,
              Meter& meter) {
    std::string out;
    if (old.empty()) {  // before each code point and at the end
        for (std::size_t at = 0; at <= text.size(); ++at) {
            const bool boundary = at == text.size() || starts_code_point(text[at]);
            if (boundary && limit != 0 && meter.spend_text(with.size())) {
                out += with;
                --limit;
            }
            out += at < text.size() ? text.substr(at, 1) : std::string_view();
        }
        return meter.exceeded() ? Value::cost_exceeded() : Value::text(std::move(out));
    }
    while (limit != 0) {
        const std::size_t at = text.find(old);
        if (at == std::string_view::npos) {
            break;
        }
        if (!meter.spend_text(with.size())) {
            return Value::cost_exceeded();
        }
        out += text.substr(0, at);
        out += with;
        text.remove_prefix(at + old.size());
        --limit;
    }
    return Value::text(out += text);
}

Value substring(std::string_view text, std::int64_t begin, std::optional<std::int64_t> end) {
    const std::int64_t size = code_points(text);
    if (begin < 0 || begin > size) {
        return out_of_range(begin);
    }
    if (end && (*end < 0 || *end > size)) {
        return out_of_range(*end);
    }
    if (end && begin > *end) {
        return Value::error("invalid substring range. start: " + std::to_string(begin) +
                            ", end: " + std::to_string(*end));
    }
    const std::size_t first = byte_at(text, begin);
    const std::size_t last = end ? byte_at(text, *end) : text.size();
    return Value::text(std::string(text.substr(first, last - first)));
}

Value find(Function function,
           std::string_view text,
           std::string_view part,
           std::optional<std::int64_t> from) {
    const std::int64_t size = code_points(text);
    const bool last = function == Function::last_index_of;
    const std::int64_t start = from.value_or(last ? size : 0);
    if (start < 0 || start > size || (from && start == size && size > 0 && !part.empty())) {
        return out_of_range(start);
    }
    const std::size_t begin = byte_at(text, start);
    const std::size_t found = last ? text.rfind(part, begin) : text.find(part, begin);
    return Value(found == std::string_view::npos ? std::int64_t{-1}
                                                 : code_points(text.substr(0, found)));
}

Value format(std::string_view text, const Value& arguments, Meter& meter) {
    if (!is_list(arguments)) {
        return Value::no_overload();
    }
    std::string out;
    std::size_t next = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        const char verb = ++i < text.size() ? text[i] : '\0';
        if (verb == '%') {
            out += '%';
            continue;
        }
        if (verb != 's' && verb != 'd') {
            return Value::error("could not parse formatting clause: only %s, %d and %% are known");
        }
        if (next >= list_size(arguments)) {
            return Value::error("index " + std::to_string(next) + " out of range");
        }
        const Value item = list_item(arguments, next++);
        const json::Value shown = to_json(item, meter);
        const std::string word = shown.if_string() != nullptr ? *shown.if_string()
                                 : shown.if_real() != nullptr ? number_text(*shown.if_real())
                                                              : json::dump(shown);
        if (!meter.spend_text(word.size())) {
            return Value::cost_exceeded();
        }
        out += word;
    }
    return Value::text(std::move(out));
}

// Arguments after the first: text or numbers.
struct Arguments {
    std::string_view texts[2];
    std::optional<std::int64_t> number;
};

// false: an argument is of a type the function does not take.
bool read_arguments(std::span<const Value> args, std::size_t texts, Arguments& out) {
    for (std::size_t i = 1; i < args.size(); ++i) {
        if (i <= texts) {
            const Text* text = args[i].get_if<Text>();
            if (text == nullptr) {
                return false;
            }
            out.texts[i - 1] = text->view;
        } else if (const std::int64_t* number = args[i].get_if<std::int64_t>()) {
            out.number = *number;
        } else {
            return false;
        }
    }
    return true;
}

Value call_positions(Function function,
                     std::string_view text,
                     std::span<const Value> args,
                     Meter& meter) {
    Arguments arguments;
    if (function == Function::substring) {
        const std::int64_t* begin = args[1].get_if<std::int64_t>();
        const std::int64_t* end = args.size() > 2 ? args[2].get_if<std::int64_t>() : begin;
        if (begin == nullptr || end == nullptr) {
            return Value::no_overload();
        }
        return substring(text, *begin, args.size() > 2 ? std::optional(*end) : std::nullopt);
    }
    if (function == Function::char_at) {
        if (!read_arguments(args, 0, arguments)) {
            return Value::no_overload();
        }
        const std::int64_t at = *arguments.number;
        const std::int64_t size = code_points(text);
        return at < 0 || at > size ? out_of_range(at)
               : at == size        ? Value::borrowed("")
                                   : substring(text, at, at + 1);
    }
    if (!read_arguments(args, 1, arguments)) {
        return Value::no_overload();
    }
    const std::string_view part = arguments.texts[0];
    return meter.spend((1 + text.size() / 10) * (1 + part.size() / 10))
               ? find(function, text, part, arguments.number)
               : Value::cost_exceeded();
}

}  // namespace

Value match_pattern(const Pattern& pattern, const Value& value, Meter& meter) {
    const Text* text = value.get_if<Text>();
    if (text == nullptr) {
        return Value::no_overload();
    }
    // Each character may meet each instruction.
    if (!meter.spend((1 + text->view.size() / 10) * (1 + pattern.size() / 8))) {
        return Value::cost_exceeded();
    }
    return Value(pattern.match(text->view));
}

Value call_text(Function function, std::span<const Value> args, Meter& meter) {
    const Text* first = args[0].get_if<Text>();
    if (first == nullptr) {
        return Value::no_overload();
    }
    const std::string_view text = first->view;
    if (!meter.spend_text(text.size())) {
        return Value::cost_exceeded();
    }
    Arguments arguments;
    switch (function) {
        case Function::size: return Value(code_points(text));
        case Function::trim: return trim(text);
        case Function::format: return format(text, args[1], meter);
        case Function::lower_ascii:
            return changed(text, [](char c) { return c >= 'A' && c <= 'Z' ? char(c | 0x20) : c; });
        case Function::upper_ascii:
            return changed(text, [](char c) { return c >= 'a' && c <= 'z' ? char(c & ~0x20) : c; });
        case Function::char_at:
        case Function::substring:
        case Function::index_of:
        case Function::last_index_of: return call_positions(function, text, args, meter);
        default: break;
    }
    const std::size_t texts = function == Function::replace ? 2 : 1;
    if (!read_arguments(args, texts, arguments)) {
        return Value::no_overload();
    }
    const std::string_view other = arguments.texts[0];
    const bool searches = function != Function::starts_with && function != Function::ends_with &&
                          function != Function::matches;
    if (!meter.spend(searches ? (1 + text.size() / 10) * (1 + other.size() / 10) : 1)) {
        return Value::cost_exceeded();
    }
    switch (function) {
        case Function::starts_with: return Value(text.starts_with(other));
        case Function::ends_with: return Value(text.ends_with(other));
        case Function::contains: return Value(text.find(other) != std::string_view::npos);
        case Function::split: return split(text, other, arguments.number.value_or(-1), meter);
        case Function::replace:
            return replace(text, other, arguments.texts[1], arguments.number.value_or(-1), meter);
        case Function::matches: {
            auto pattern = meter.spend(kPatternSteps + other.size())
                               ? Pattern::compile(other)
                               : Result<Pattern>(fail(Code::too_large, "cost"));
            if (!pattern) {
                return meter.exceeded() ? Value::cost_exceeded()
                                        : Value::error(pattern.error().message);
            }
            return match_pattern(pattern.value(), args[0], meter);
        }
        default: return Value::no_overload();
    }
}

}  // namespace capstan::local::cel
