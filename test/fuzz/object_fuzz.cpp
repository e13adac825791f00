// The quick way of an object into the store against the slow one, and lists cut into items: both
// read what the tree of json::parse() says, in any chunks.
//
// Input: one byte of choices (projection, kind, list), one that seeds the cuts, then the text.
#include "runtime/kube/list_splitter.hpp"
#include "runtime/kube/object.hpp"
#include "test/fuzz/fuzz.hpp"

#include <string>
#include <vector>

namespace capstan::kube {
namespace {

using fuzz::require;

void check_object(std::string_view text, const Projection& projection, bool kind_given) {
    static const GroupVersionKind gvk{"apps", "v1", "StatefulSet"};
    const GroupVersionKind* kind = kind_given ? &gvk : nullptr;
    const ObjectPtr quick = Object::decode_usual(text, projection, kind);
    auto tree = json::parse(text, {.bytes_max = kObjectBytesMax});
    if (!tree) {
        // What is dropped is not looked into.
        require(!quick || projection.drop_managed_fields || projection.drop_last_applied,
                "what is no JSON is not usual");
        return;
    }
    const auto slow = Object::make(std::move(tree).value(), projection, kind);
    if (!quick) {
        return;
    }
    require(slow.has_value(), "what is usual is an object");
    require(quick->bytes() == slow.value()->bytes(), "both ways give the same bytes");
    require(quick->name() == slow.value()->name() && quick->uid() == slow.value()->uid() &&
                quick->resource_version() == slow.value()->resource_version() &&
                quick->deleting() == slow.value()->deleting() &&
                quick->generation() == slow.value()->generation() &&
                quick->controller_uid() == slow.value()->controller_uid(),
            "and the same header");
}

struct List {
    std::vector<std::string> items;
    std::string head;  // "": refused
    bool operator==(const List&) const = default;
};

List split(std::string_view text, std::uint32_t seed, bool whole) {
    List list;
    ListSplitter splitter;
    fuzz::Pieces pieces(text, seed);
    std::string_view piece = text;
    while (whole || pieces.next(piece)) {
        const std::string bytes(piece);
        const auto keep = [&](std::string_view item) {
            list.items.emplace_back(item);
            return true;
        };
        if (!splitter.feed(bytes, keep)) {
            return list;
        }
        if (whole) {
            break;
        }
    }
    if (const auto head = splitter.finish()) {
        list.head = json::dump(head.value());
    }
    return list;
}

void check_list(std::string_view text, std::uint32_t seed) {
    const List whole = split(text, seed, true);
    require(whole == split(text, seed, false), "chunking does not change a list");
    const auto tree = json::parse(text);
    if (!tree || whole.head.empty()) {
        return;
    }
    const json::Array& items = json::View(tree.value())["items"].array();
    require(items.size() == whole.items.size(), "every item is found");
    for (std::size_t i = 0; i < items.size(); ++i) {
        const auto item = json::parse(whole.items[i]);
        require(item && json::dump(item.value()) == json::dump(items[i]), "as it is in the list");
    }
}

}  // namespace
}  // namespace capstan::kube

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace capstan::kube;
    capstan::fuzz::Input input(data, size);
    const std::uint8_t choices = input.byte();
    const std::uint8_t seed = input.byte();
    if ((choices & 8) != 0) {
        check_list(input.rest(), seed);
        return 0;
    }
    Projection projection;
    projection.drop_managed_fields = (choices & 1) != 0;
    projection.drop_last_applied = (choices & 2) != 0;
    check_object(input.rest(), projection, (choices & 4) != 0);
    return 0;
}
