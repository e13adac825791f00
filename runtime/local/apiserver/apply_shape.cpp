#include "runtime/local/apiserver/apply_shape.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace capstan::local {
namespace {

std::unique_ptr<SchemaNode> open_map() {
    auto node = std::make_unique<SchemaNode>();
    node->type = SchemaType::object;
    node->additional_properties = std::make_unique<SchemaNode>();
    node->additional_properties->type = SchemaType::string;
    return node;
}

std::unique_ptr<SchemaNode> list_node(ListType type, std::vector<std::string> keys) {
    auto node = std::make_unique<SchemaNode>();
    node->type = SchemaType::array;
    node->list_type = type;
    node->map_keys = std::move(keys);
    node->items = std::make_unique<SchemaNode>();
    return node;
}

// metav1.ObjectMeta: ownerReferences merge by uid, each reference is one
// atom; finalizers are a set.
std::unique_ptr<SchemaNode> make_object_meta() {
    auto node = std::make_unique<SchemaNode>();
    node->type = SchemaType::object;
    auto owners = list_node(ListType::map, {"uid"});
    owners->items->map_type = MapType::atomic;
    node->properties.push_back({"annotations", open_map()});
    node->properties.push_back({"finalizers", list_node(ListType::set, {})});
    node->properties.push_back({"labels", open_map()});
    node->properties.push_back({"managedFields", list_node(ListType::atomic, {})});
    node->properties.push_back({"ownerReferences", std::move(owners)});
    return node;
}

const SchemaNode* object_meta_schema() {
    static const std::unique_ptr<SchemaNode> kNode = make_object_meta();
    return kNode.get();
}

// Below a field whose content the schema does not tell.
const SchemaNode* untyped_schema() {
    static const std::unique_ptr<SchemaNode> kNode = [] {
        auto node = std::make_unique<SchemaNode>();
        node->preserve_unknown_fields = true;
        return node;
    }();
    return kNode.get();
}

}  // namespace

Shape shape_of(const SchemaNode* node, const json::Value& value) {
    if (value.is_object()) {
        return node != nullptr && node->map_type == MapType::atomic ? Shape::leaf : Shape::map;
    }
    if (value.is_array() && node != nullptr) {
        if (node->list_type == ListType::set) {
            return Shape::list_set;
        }
        if (node->list_type == ListType::map) {
            return Shape::list_map;
        }
    }
    return Shape::leaf;
}

const SchemaNode* member_schema(const SchemaNode* node, std::string_view name, bool at_root) {
    if (at_root && name == "metadata") {
        return object_meta_schema();
    }
    if (node == nullptr) {
        return nullptr;
    }
    const SchemaNode* child = node->child(name);
    return child == nullptr && node->preserve_unknown_fields ? untyped_schema() : child;
}

bool is_open_member(const SchemaNode* node, std::string_view name) {
    return node != nullptr &&
           (node->additional_properties != nullptr || node->preserve_unknown_fields) &&
           node->property(name) == nullptr;
}

std::optional<std::string> item_element(const SchemaNode* list,
                                        Shape shape,
                                        const json::Value& item) {
    if (shape == Shape::list_set) {
        return "v:" + json::dump_sorted(item);
    }
    if (!item.is_object()) {
        return std::nullopt;
    }
    std::vector<std::string> keys = list->map_keys;
    std::sort(keys.begin(), keys.end());
    json::Object found;
    for (const std::string& key : keys) {
        const json::Value* value = item.find(key);
        if (value == nullptr && list->items != nullptr) {
            const SchemaNode* node = list->items->property(key);
            value = node != nullptr && node->default_value ? &*node->default_value : nullptr;
        }
        if (value == nullptr) {
            // The one default that matters in builtin lists (Service and container ports).
            if (key == "protocol") {
                found.emplace_back(key, json::Value("TCP"));
            }
            continue;
        }
        found.emplace_back(key, *value);
    }
    if (found.empty()) {
        return std::nullopt;
    }
    return "k:" + json::dump(json::Value(std::move(found)));
}

ItemIndex index_items(const SchemaNode* list, Shape shape, const json::Value& value) {
    ItemIndex index;
    if (const json::Array* items = value.if_array()) {
        for (const json::Value& item : *items) {
            if (auto element = item_element(list, shape, item)) {
                index.emplace(std::move(*element), &item);
            }
        }
    }
    return index;
}

}  // namespace capstan::local
