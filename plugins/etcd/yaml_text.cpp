#include "plugins/etcd/yaml_text.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace capstan::etcd {

namespace {

// Text that a YAML 1.1 reader would take for a number, a boolean or null.
bool reads_as_other(std::string_view text) {
    static constexpr std::string_view kWords[] = {
        "true", "false", "yes", "no", "on", "off", "y", "n", "null", "~"};
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    });
    if (std::find(std::begin(kWords), std::end(kWords), lower) != std::end(kWords)) {
        return true;
    }
    // Wider than YAML's numbers on purpose: quotes do no harm. Durations ("30m")
    // and URLs do not match.
    return text.find_first_not_of("0123456789+-._:eE") == std::string_view::npos &&
           text.find_first_of("0123456789") != std::string_view::npos;
}

bool plain(std::string_view text) {
    if (text.empty() || reads_as_other(text)) {
        return false;
    }
    static constexpr std::string_view kNotFirst = "!&*-?|>@`\"'%{}[],#:= ";
    if (kNotFirst.find(text.front()) != std::string_view::npos || text.back() == ' ' ||
        text.back() == ':') {
        return false;
    }
    const bool printable =
        std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
    return printable && text.find(": ") == std::string_view::npos &&
           text.find(" #") == std::string_view::npos;
}

std::string scalar(const json::Value& value) {
    const std::string* text = value.if_string();
    if (text == nullptr || plain(*text)) {
        return text == nullptr ? json::dump(value) : *text;
    }
    return json::dump(value);  // a JSON string is a double-quoted YAML scalar
}

void write(const json::Value& value, std::size_t indent, std::string& out);

void write_entry(const std::string& lead,
                 const json::Value& value,
                 std::size_t indent,
                 bool is_item,
                 std::string& out) {
    out += lead;
    const json::Object* object = value.if_object();
    const json::Array* array = value.if_array();
    if ((object == nullptr || object->empty()) && (array == nullptr || array->empty())) {
        out += " " + (object != nullptr ? "{}" : array != nullptr ? "[]" : scalar(value)) + "\n";
        return;
    }
    out += "\n";
    write(value, object != nullptr || is_item ? indent + 2 : indent, out);
}

void write(const json::Value& value, std::size_t indent, std::string& out) {
    const std::string blanks(indent, ' ');
    if (const json::Array* array = value.if_array()) {
        for (const json::Value& item : *array) {
            write_entry(blanks + "-", item, indent, true, out);
        }
        return;
    }
    std::vector<const json::Member*> members;
    for (const json::Member& member : json::View(value).object()) {
        members.push_back(&member);
    }
    std::sort(members.begin(), members.end(), [](const auto* a, const auto* b) {
        return a->key < b->key;
    });
    for (const json::Member* member : members) {
        write_entry(blanks + scalar(member->key) + ":", member->value, indent, false, out);
    }
}

}  // namespace

std::string to_yaml(const json::Value& object) {
    std::string out;
    write(object, 0, out);
    return out;
}

}  // namespace capstan::etcd
