// JSON text: parse and print agree, views never crash, and the two readers of the project (a tree,
// and the walker over raw text) see the same document.
#include "capstan/json.hpp"
#include "runtime/kube/raw_json.hpp"
#include "test/fuzz/fuzz.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace capstan {
namespace {

using fuzz::require;

void look(const json::View& view) {
    (void)view.as_bool();
    (void)view.as_int();
    (void)view.as_real();
    (void)view.as_string();
    (void)view.as_array();
    (void)view.as_object();
    (void)view.items();
    (void)view.bool_or(false);
    (void)view.int_or(0);
    (void)view.string_or("");
    require(!view.error("x").message.empty(), "an error has a text");
}

// Every place of a document: by tree, by view, by pointer and in the raw text.
bool same(const json::Value& a, const json::Value& b);

void walk(const json::Value& root,
          const json::Value& here,
          const std::string& path,
          const std::string& text,
          std::size_t& budget) {
    if (budget == 0) {
        return;
    }
    --budget;
    require(root.pointer(path) == &here, "a pointer leads to the value it was made for");
    const auto raw = kube::raw::pointer(text, path);
    require(raw.has_value(), "the raw walker finds what the tree has");
    const auto again = json::parse(*raw, {2 * json::kDepthMax, json::kBytesMax});
    require(again.has_value(), "a raw value is a JSON document");
    require(same(again.value(), here), "a raw value equals the value of the tree");
    if (const auto* string = here.if_string()) {
        const auto raw_text = kube::raw::to_text(*raw);
        require(raw_text && *raw_text == *string, "raw strings are unescaped as the parser does");
    }
    if (const auto* members = here.if_object()) {
        for (const json::Member& member : *members) {
            walk(root,
                 member.value,
                 path + "/" + json::escape_pointer_token(member.key),
                 text,
                 budget);
        }
    }
    if (const auto* items = here.if_array()) {
        for (std::size_t i = 0; i < items->size(); ++i) {
            walk(root, (*items)[i], path + "/" + std::to_string(i), text, budget);
        }
    }
}

// Equal but for the last digits of a real number: RapidJSON's fast reader rounds there as it likes.
bool same(const json::Value& a, const json::Value& b) {
    if (const auto* real = a.if_real(); real != nullptr && b.if_real() != nullptr) {
        return std::abs(*real - *b.if_real()) <= 1e-14 * std::abs(*real);
    }
    if (const auto* items = a.if_array(); items != nullptr && b.if_array() != nullptr) {
        return std::equal(
            items->begin(), items->end(), b.if_array()->begin(), b.if_array()->end(), same);
    }
    const auto* members = a.if_object();
    if (members == nullptr || b.if_object() == nullptr) {
        return a == b;
    }
    return members->size() == b.if_object()->size() &&
           std::all_of(members->begin(), members->end(), [&](const json::Member& member) {
               const json::Value* other = b.find(member.key);
               return other != nullptr && same(member.value, *other);
           });
}

void check(std::string_view text) {
    // Malformed text too: bounds are kept.
    (void)kube::raw::value_length(text);
    (void)kube::raw::member(text, "a");
    (void)kube::raw::pointer(text, "/a/0/b~1c");
    (void)kube::raw::to_text(text);
    kube::raw::each(text, [](std::string_view, std::string_view value) {
        (void)kube::raw::value_length(value);
        return true;
    });
    const auto parsed = json::parse(text);
    if (!parsed) {
        require(!parsed.error().message.empty(), "a refusal says why");
        return;
    }
    const json::Value& value = parsed.value();
    const std::string printed = json::dump(value);
    const auto again = json::parse(printed);
    require(again.has_value(), "what was printed can be parsed");
    require(same(again.value(), value), "parse, print and parse give an equal value");
    require(kube::raw::value_length(printed) == printed.size(), "the raw walker sees one value");
    const auto sorted = json::parse(json::dump_sorted(value));
    require(sorted && same(sorted.value(), value), "sorted print is equal");
    const auto pretty = json::parse(json::dump_pretty(value));
    require(pretty && same(pretty.value(), value), "pretty print is equal");

    const json::View view(value);
    look(view);
    look(view["a"]);
    look(view["metadata"]["labels"]["x/y"][std::size_t{0}]);
    look(view[std::size_t{3}]["b"]);
    std::size_t budget = 2000;
    walk(value, value, "", printed, budget);
    if (text.starts_with("\xef\xbb\xbf")) {
        return;  // the raw walker does not know the byte order mark
    }
    constexpr std::string_view kSpace = " \t\r\n";
    const std::size_t first = text.find_first_not_of(kSpace);
    const std::string spelled(text.substr(first, text.find_last_not_of(kSpace) + 1 - first));
    budget = 200;
    walk(value, value, "", spelled, budget);
}

}  // namespace
}  // namespace capstan

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    capstan::check({reinterpret_cast<const char*>(data), size});
    return 0;
}
