#include "runtime/kube/object.hpp"

#include "runtime/kube/compact_copy.hpp"
#include "runtime/kube/raw_json.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <type_traits>

namespace capstan::kube {
namespace {

constexpr std::string_view kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";

void strip_metadata(json::Value& metadata, const Projection& projection) {
    if (projection.drop_managed_fields) {
        metadata.erase("managedFields");
    }
    if (projection.drop_last_applied) {
        if (json::Value* annotations = metadata.find("annotations")) {
            if (annotations->erase(kLastApplied) && annotations->if_object()->empty()) {
                metadata.erase("annotations");
            }
        }
    }
}

bool is_partial(const json::Value& value) {
    const json::View view(value);
    return view["kind"].string_or("") == kPartialKind &&
           view["apiVersion"].string_or("") == kPartialApiVersion;
}

// Leaves in `tree` only what the pointers reach; each begins at `tree` and is not empty.
void keep_only(json::Value& tree, const std::vector<std::string_view>& pointers) {
    json::Value kept = json::object();
    for (json::Member& member : *tree.if_object()) {
        bool whole = false;
        std::vector<std::string_view> below;
        for (std::string_view pointer : pointers) {
            const std::string_view token = pointer.substr(1, pointer.find('/', 1) - 1);
            if (raw::unescape_token(token) == member.key) {
                pointer.remove_prefix(token.size() + 1);
                whole = whole || pointer.empty();
                below.push_back(pointer);
            }
        }
        if (below.empty()) {
            continue;
        }
        if (!whole && member.value.is_object()) {
            keep_only(member.value, below);
        }
        kept.set(member.key, std::move(member.value));
    }
    tree = std::move(kept);
}

void project(json::Value& value, const Projection& projection) {
    std::vector<std::string_view> pointers = {"/apiVersion", "/kind", "/metadata"};
    for (const std::string& pointer : projection.keep) {
        if (pointer.starts_with('/')) {
            pointers.push_back(pointer);
        }
    }
    keep_only(value, pointers);
}

}  // namespace

// One block: the header, then the bytes. Nothing in the header needs destruction.
static_assert(std::is_trivially_destructible_v<Object> &&
              alignof(Object) <= alignof(std::uint64_t));

Result<ObjectPtr> Object::make(json::Value value,
                               const Projection& projection,
                               const GroupVersionKind* gvk) {
    json::Value* metadata = value.find("metadata");
    if (metadata == nullptr || !metadata->is_object()) {
        return fail(Code::invalid, "object without metadata");
    }
    strip_metadata(*metadata, projection);
    if (gvk != nullptr && metadata_only(projection) && is_partial(value)) {
        value.erase("kind");
        value.erase("apiVersion");
    }
    if (gvk != nullptr && value.find("kind") == nullptr) {
        value.set("apiVersion", gvk->api_version());
        value.set("kind", gvk->kind);
    }
    if (!projection.keep.empty()) {
        project(value, projection);
    }
    return store(json::dump(value), !projection.keep.empty());
}

Result<ObjectPtr> Object::store(std::string_view text, bool projected) {
    if (text.size() > kObjectBytesMax) {
        return fail(Code::too_large, "object of " + std::to_string(text.size()) + " bytes");
    }
    Object* object = nullptr;
    // `behind` the bytes: header strings that the bytes hold with escapes only.
    const auto place = [&](std::string_view behind) -> std::shared_ptr<std::uint64_t[]> {
        constexpr std::size_t kWord = sizeof(std::uint64_t);
        const std::size_t size = sizeof(Object) + text.size() + behind.size();
        auto block = std::make_shared_for_overwrite<std::uint64_t[]>((size + kWord - 1) / kWord);
        object = ::new (static_cast<void*>(block.get())) Object();
        object->size_ = static_cast<std::uint32_t>(text.size());
        object->projected_ = projected;
        char* const bytes = reinterpret_cast<char*>(object + 1);
        std::memcpy(bytes, text.data(), text.size());
        std::memcpy(bytes + text.size(), behind.data(), behind.size());
        return object->read_header() ? std::move(block) : nullptr;
    };
    auto block = place("");
    std::vector<std::pair<Span Object::*, Span>> escaped;  // rare: names of RBAC's objects
    std::string behind;
    for (const auto span : {&Object::api_version_,
                            &Object::kind_,
                            &Object::ns_,
                            &Object::name_,
                            &Object::uid_,
                            &Object::resource_version_,
                            &Object::controller_uid_,
                            &Object::controller_name_,
                            &Object::controller_kind_,
                            &Object::controller_api_version_}) {
        const std::string_view raw = block ? object->at(object->*span) : std::string_view();
        if (raw.find('\\') == std::string_view::npos) {
            continue;
        }
        const auto plain = raw::to_text({raw.data() - 1, raw.size() + 2});
        if (!plain || plain->find('\0') != std::string::npos) {
            block = nullptr;
            break;
        }
        escaped.push_back({span,
                           {static_cast<std::uint32_t>(text.size() + behind.size()),
                            static_cast<std::uint32_t>(plain->size())}});
        behind += *plain;
    }
    if (block && !escaped.empty()) {
        block = place(behind);
        for (const auto& [span, where] : escaped) {
            object->*span = where;
        }
    }
    if (!block) {
        return fail(
            Code::invalid,
            "object with a malformed header (kind, name, namespace, uid or resourceVersion)");
    }
    return ObjectPtr(block, object);
}

ObjectPtr Object::decode_usual(std::string_view text,
                               const Projection& projection,
                               const GroupVersionKind* gvk) {
    std::string copy;
    const auto length = compact_copy(text, projection, gvk, copy);
    if (!length || text.find_first_not_of(" \t\r\n", *length) != std::string_view::npos) {
        return nullptr;
    }
    auto stored = store(copy, !projection.keep.empty());
    return stored ? std::move(stored).value() : nullptr;
}

Result<ObjectPtr> Object::decode(std::string_view text,
                                 const Projection& projection,
                                 const GroupVersionKind* gvk) {
    if (ObjectPtr usual = decode_usual(text, projection, gvk)) {
        return usual;
    }
    CAPSTAN_TRY(json::Value value, json::parse(text, {.bytes_max = kObjectBytesMax}));
    return make(std::move(value), projection, gvk);
}

bool Object::read_header() noexcept {
    const std::string_view all = bytes();
    bool good = true;
    // As they are written; store() replaces those with escapes.
    const auto text = [&](std::string_view raw, Span& span) {
        if (raw.size() < 2 || raw.front() != '"') {
            good = false;
            return;
        }
        span.offset = static_cast<std::uint32_t>(raw.data() + 1 - all.data());
        span.length = static_cast<std::uint32_t>(raw.size() - 2);
    };
    std::string_view metadata;
    std::string_view owners;
    raw::each(all, [&](std::string_view key, std::string_view value) {
        if (key == "apiVersion") {
            text(value, api_version_);
        } else if (key == "kind") {
            text(value, kind_);
        } else if (key == "metadata") {
            metadata = value;
        }
        return true;
    });
    raw::each(metadata, [&](std::string_view key, std::string_view value) {
        if (key == "name") {
            text(value, name_);
        } else if (key == "namespace") {
            text(value, ns_);
        } else if (key == "uid") {
            text(value, uid_);
        } else if (key == "resourceVersion") {
            text(value, resource_version_);
        } else if (key == "generation") {
            std::int64_t number = 0;
            for (const char c : value.substr(0, 18)) {
                number = c >= '0' && c <= '9' ? number * 10 + (c - '0') : number;
            }
            generation_ = number;
        } else if (key == "deletionTimestamp") {
            deleting_ = value != "null";
        } else if (key == "ownerReferences") {
            owners = value;
        }
        return true;
    });
    raw::each(owners, [&](std::string_view, std::string_view owner) {
        if (raw::member(owner, "controller") != "true") {
            return true;
        }
        text(raw::member(owner, "uid").value_or(""), controller_uid_);
        text(raw::member(owner, "name").value_or(""), controller_name_);
        text(raw::member(owner, "kind").value_or(""), controller_kind_);
        text(raw::member(owner, "apiVersion").value_or(""), controller_api_version_);
        return false;
    });
    return good && name_.length > 0;
}

std::optional<std::string_view> Object::field(std::string_view pointer) const noexcept {
    return raw::pointer(bytes(), pointer);
}

std::optional<std::string> Object::string_field(std::string_view pointer) const {
    const auto found = field(pointer);
    return found ? raw::to_text(*found) : std::nullopt;
}

namespace {

void collect(std::string_view at, std::string_view pattern, std::vector<std::string>& found) {
    if (pattern.empty()) {
        if (auto text = raw::to_text(at)) {
            found.push_back(std::move(*text));
        }
        return;
    }
    const std::string_view token = pattern.substr(1, pattern.find('/', 1) - 1);
    const std::string_view rest = pattern.substr(token.size() + 1);
    if (token == "*") {
        raw::each(at, [&](std::string_view, std::string_view value) {
            collect(value, rest, found);
            return true;
        });
    } else if (const auto next = raw::pointer(at, pattern.substr(0, token.size() + 1))) {
        collect(*next, rest, found);
    }
}

std::optional<std::string> map_entry(std::string_view object,
                                     std::string_view map,
                                     std::string_view key) {
    const auto entries = raw::pointer(object, map);
    const auto value = entries ? raw::member(*entries, key) : std::nullopt;
    return value ? raw::to_text(*value) : std::nullopt;
}

}  // namespace

std::vector<std::string> Object::string_fields(std::string_view pattern) const {
    std::vector<std::string> found;
    if (pattern.starts_with('/')) {
        collect(bytes(), pattern, found);
    }
    return found;
}

std::optional<std::string> Object::label(std::string_view key) const {
    return map_entry(bytes(), "/metadata/labels", key);
}

std::optional<std::string> Object::annotation(std::string_view key) const {
    return map_entry(bytes(), "/metadata/annotations", key);
}

std::vector<std::pair<std::string, std::string>> Object::labels() const {
    std::vector<std::pair<std::string, std::string>> found;
    raw::each(field("/metadata/labels").value_or(""),
              [&](std::string_view key, std::string_view value) {
                  found.emplace_back(key, raw::to_text(value).value_or(""));
                  return true;
              });
    return found;
}

json::Value Object::parse() const {
    auto value = json::parse(bytes(), {.bytes_max = size_});
    CAPSTAN_CHECK(value.has_value(), "stored object does not parse");
    return std::move(value).value();
}

std::optional<int> compare_resource_versions(std::string_view a, std::string_view b) noexcept {
    const auto comparable = [](std::string_view text) {
        return !text.empty() && text.front() != '0' &&
               std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    };
    if (!comparable(a) || !comparable(b)) {
        return std::nullopt;
    }
    if (a.size() != b.size()) {
        return a.size() < b.size() ? -1 : 1;
    }
    const int order = a.compare(b);
    return order < 0 ? -1 : (order > 0 ? 1 : 0);
}

}  // namespace capstan::kube
