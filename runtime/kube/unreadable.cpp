#include "runtime/kube/unreadable.hpp"

#include "runtime/kube/raw_json.hpp"
#include "runtime/kube/status.hpp"

#include <algorithm>
#include <utility>

namespace capstan::kube {
namespace {

// In names of Kubernetes; what a person or a log takes as part of a text is quoted.
bool is_plain(std::string_view name) {
    return std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("-._:/@$*+~").find(c) != std::string_view::npos;
    });
}

// The texts of `metadata` that make an object known by name.
json::Value names_of(std::string_view metadata) {
    json::Value names = json::object();
    for (const char* key : {"name", "namespace", "uid", "resourceVersion"}) {
        const auto raw = raw::member(metadata, key);
        if (auto text = raw ? raw::to_text(*raw) : std::nullopt; text && !text->empty()) {
            names.set(key, std::move(*text));
        }
    }
    return names;
}

}  // namespace

std::string Unreadable::text() const {
    const std::string name = head ? head->key().to_string() : "an object without a readable name";
    return (head && !is_plain(name) ? quote_server_text(name) : name) + ": " + why;
}

Unreadable unreadable(std::string_view text,
                      const Projection& projection,
                      const GroupVersionKind& gvk,
                      std::string why) {
    Unreadable found;
    found.why = std::move(why);
    const std::string_view metadata = raw::member(text, "metadata").value_or("");
    const json::Value names = names_of(metadata);
    found.resource_version = json::View(names)["resourceVersion"].string_or("");
    if (names.find("name") == nullptr) {
        return found;
    }
    // Labels and owners, so that selectors and map rules can tell where it belongs.
    std::string whole = "{\"metadata\":";
    whole.append(metadata).append("}");
    auto head = Object::decode(whole, projection, &gvk);
    if (!head) {
        head = Object::make({{"metadata", names}}, projection, &gvk);
    }
    if (head) {
        found.head = std::move(head).value();
    }
    return found;
}

}  // namespace capstan::kube
