#include "runtime/config/yaml.hpp"

#include <algorithm>
#include <cctype>

namespace capstan::config {

namespace {

// Words a YAML 1.1 reader takes for a boolean or null.
bool is_reserved_word(std::string_view text) {
    std::string low(text);
    std::transform(low.begin(), low.end(), low.begin(), [](unsigned char c) {
        return static_cast<char>(std::tolower(c));
    });
    for (const char* word : {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"}) {
        if (low == word) {
            return true;
        }
    }
    return false;
}

// Only what can be nothing but text in any YAML: starts with a letter or a slash,
// then harmless characters.
bool is_plain_safe(std::string_view text) {
    if (text.empty() || is_reserved_word(text)) {
        return false;
    }
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    if (!letter(text.front()) && text.front() != '/') {
        return false;
    }
    return std::all_of(text.begin(), text.end(), [&](char c) {
        return letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == '/';
    });
}

// Readers look no further for the ':' of a key that has no '?' before it.
constexpr std::size_t kSimpleKeyMax = 1000;

std::string text_of(const std::string& text) {
    return is_plain_safe(text) ? text : json::dump(json::Value(text));
}

void append_value(std::string& out, const json::Value& value, std::size_t indent);

void append_object(std::string& out,
                   const json::Object& object,
                   std::size_t indent,
                   bool first_inline) {
    bool pad = !first_inline;
    for (const auto& [key, value] : object) {
        if (pad) {
            out.append(indent, ' ');
        }
        pad = true;
        const std::string written = text_of(key);
        if (written.size() > kSimpleKeyMax) {
            out += "? " + written + '\n';
            out.append(indent, ' ');
        } else {
            out += written;
        }
        out += ':';
        append_value(out, value, indent);
    }
}

void append_array(std::string& out, const json::Array& array, std::size_t indent) {
    for (const json::Value& item : array) {
        out.append(indent, ' ');
        out += '-';
        const json::Object* object = item.if_object();
        if (object != nullptr && !object->empty()) {
            out += ' ';
            append_object(out, *object, indent + 2, true);
        } else {
            append_value(out, item, indent);
        }
    }
}

// What follows "key:" or "-", the newline included.
void append_value(std::string& out, const json::Value& value, std::size_t indent) {
    const json::Object* object = value.if_object();
    const json::Array* array = value.if_array();
    if (object != nullptr && !object->empty()) {
        out += '\n';
        append_object(out, *object, indent + 2, false);
        return;
    }
    if (array != nullptr && !array->empty()) {
        out += '\n';
        append_array(out, *array, indent + 2);
        return;
    }
    out += ' ';
    if (const std::string* text = value.if_string()) {
        out += text_of(*text);
    } else {
        out += json::dump(value);
    }
    out += '\n';
}

}  // namespace

std::string to_yaml(const json::Value& value) {
    std::string out;
    const json::Object* object = value.if_object();
    const json::Array* array = value.if_array();
    if (object != nullptr && !object->empty()) {
        append_object(out, *object, 0, false);
    } else if (array != nullptr && !array->empty()) {
        append_array(out, *array, 0);
    } else if (const std::string* text = value.if_string()) {
        out += text_of(*text) + '\n';
    } else {
        out = json::dump(value) + "\n";
    }
    return out;
}

}  // namespace capstan::config
