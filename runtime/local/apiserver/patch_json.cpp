#include "runtime/local/apiserver/patch_json.hpp"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::local {
namespace {

StatusError unprocessable(std::string_view why) {
    StatusError error;
    error.code = 422;
    error.reason = "Invalid";
    error.message =
        "the server rejected our request due to an error in our request: " + std::string(why);
    return error;
}

std::string unescape(std::string_view token) {
    std::string out;
    for (std::size_t i = 0; i < token.size(); ++i) {
        if (token[i] == '~' && i + 1 < token.size()) {
            out += token[++i] == '1' ? '/' : '~';
        } else {
            out += token[i];
        }
    }
    return out;
}

// A place inside the document: the container and the last token.
struct Place {
    json::Value* parent{nullptr};  // null: the whole document
    std::string token;
};

std::optional<Place> locate(json::Value& root, std::string_view path) {
    if (path.empty()) {
        return Place{};
    }
    if (path.front() != '/') {
        return std::nullopt;
    }
    const std::size_t slash = path.rfind('/');
    json::Value* parent = root.pointer(path.substr(0, slash));
    if (parent == nullptr || (!parent->is_object() && !parent->is_array())) {
        return std::nullopt;
    }
    return Place{parent, unescape(path.substr(slash + 1))};
}

// Index into an array of `size` items, as the library of kube-apiserver reads it: -1 is the last
// item. `-` and the size itself mean "behind the last" where `append` allows it.
std::optional<std::size_t> index_of(std::size_t size, std::string_view token, bool append) {
    if (append && token == "-") {
        return size;
    }
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), index);
    const auto limit = static_cast<std::int64_t>(size) + (append ? 1 : 0);
    if (error != std::errc{} || end != token.data() + token.size() || index >= limit ||
        index < -limit) {
        return std::nullopt;
    }
    return static_cast<std::size_t>(index < 0 ? index + limit : index);
}

// What stands at `place`, which need not exist in an object: `found` is null then. False: the place
// cannot be, as an index beyond an array.
bool read_at(json::Value& root, std::string_view path, json::Value*& found) {
    const auto place = locate(root, path);
    if (!place || place->parent == nullptr) {
        found = place ? &root : nullptr;
        return place.has_value();
    }
    if (json::Array* items = place->parent->if_array()) {
        const auto index = index_of(items->size(), place->token, false);
        found = index ? &(*items)[*index] : nullptr;
        return index.has_value();
    }
    found = place->parent->find(place->token);
    return true;
}

bool add_at(json::Value& root, std::string_view path, json::Value value) {
    const auto place = locate(root, path);
    if (!place) {
        return false;
    }
    if (place->parent == nullptr) {
        return false;  // the library does not replace the whole document
    }
    if (json::Array* items = place->parent->if_array()) {
        const auto index = index_of(items->size(), place->token, true);
        if (!index) {
            return false;
        }
        items->insert(items->begin() + static_cast<std::ptrdiff_t>(*index), std::move(value));
        return true;
    }
    place->parent->set(place->token, std::move(value));
    return true;
}

bool remove_at(json::Value& root, std::string_view path) {
    const auto place = locate(root, path);
    if (!place || place->parent == nullptr) {
        return false;
    }
    if (json::Array* items = place->parent->if_array()) {
        const auto index = index_of(items->size(), place->token, false);
        if (!index) {
            return false;
        }
        items->erase(items->begin() + static_cast<std::ptrdiff_t>(*index));
        return true;
    }
    return place->parent->erase(place->token);
}

// Quirk of the library: `test` of null holds for an absent member.
bool test_at(json::Value& root, std::string_view path, const json::Value& expected) {
    json::Value* found = nullptr;
    if (!read_at(root, path, found)) {
        return false;
    }
    return found == nullptr ? expected.is_null() : *found == expected;
}

std::optional<std::string> run(json::Value& root, const json::Value& operation) {
    const json::View view(operation);
    const std::string op(view["op"].string_or(""));
    const std::string path(view["path"].string_or(""));
    const std::string from(view["from"].string_or(""));
    const json::Value* value = operation.find("value");
    const std::string missing =
        op + " operation does not apply: doc is missing path: \"" + path + "\": missing value";
    if (!view["path"].value() || (op != "test" && op != "add" && op != "replace" &&
                                  op != "remove" && op != "move" && op != "copy")) {
        return "Unexpected kind: " + (op.empty() ? "unknown" : op);
    }
    if ((op == "add" || op == "replace") && value == nullptr) {
        return op + " operation without value at path \"" + path + "\"";
    }
    if (op == "test") {
        if (test_at(root, path, value == nullptr ? json::Value() : *value)) {
            return std::nullopt;
        }
        return "testing value " + path + " failed: test failed";
    }
    if (op == "add") {
        return add_at(root, path, *value) ? std::nullopt : std::optional(missing);
    }
    if (op == "remove") {
        return remove_at(root, path) ? std::nullopt : std::optional(missing);
    }
    json::Value* found = nullptr;
    if (op == "replace") {  // quirk: an absent member of an object is set
        if (!read_at(root, path, found)) {
            return missing;
        }
        if (found == nullptr) {
            return add_at(root, path, *value) ? std::nullopt : std::optional(missing);
        }
        *found = *value;
        return std::nullopt;
    }
    if (!read_at(root, from, found) || (op == "move" && path.starts_with(from + "/"))) {
        return op + " operation does not apply: doc is missing from path: \"" + from +
               "\": missing value";
    }
    json::Value moved = found == nullptr ? json::Value() : *found;  // quirk: absent copies as null
    if (op == "move" && !remove_at(root, from)) {
        return missing;
    }
    return add_at(root, path, std::move(moved)) ? std::nullopt : std::optional(missing);
}

// What a copy operation would add; 0 for every other operation.
std::size_t copy_bytes(const json::Value& root, const json::Value& operation) {
    const json::View view(operation);
    if (view["op"].string_or("") != "copy") {
        return 0;
    }
    const json::Value* source = root.pointer(view["from"].string_or(""));
    return source == nullptr ? 0 : json::dump(*source).size();
}

}  // namespace

Answer<json::Value> apply_json_patch(const json::Value& object, const json::Value& patch) {
    const json::Array* operations = patch.if_array();
    if (operations == nullptr) {
        return refuse(bad_request("error decoding patch: a JSON patch is a list of operations"));
    }
    if (operations->size() > kPatchOperationsMax) {
        return refuse(too_large("The allowed maximum operations in a JSON patch is " +
                                std::to_string(kPatchOperationsMax) + ", got " +
                                std::to_string(operations->size())));
    }
    json::Value result = object;
    std::size_t copied = 0;
    for (const json::Value& operation : *operations) {
        // Before the copy: a few dozen copies of copies would double past every memory.
        copied += copy_bytes(result, operation);
        if (copied > kPatchCopyBytesMax) {
            return refuse(
                too_large("Unable to complete the copy, the accumulated size increase of "
                          "copy is " +
                          std::to_string(copied) + ", exceeding the limit " +
                          std::to_string(kPatchCopyBytesMax)));
        }
        if (auto failure = run(result, operation)) {
            return refuse(unprocessable(*failure));
        }
    }
    if (!result.is_object()) {
        return refuse(unprocessable("the patched document is not an object"));
    }
    return result;
}

}  // namespace capstan::local
