#include "runtime/local/apiserver/apply_typed.hpp"

#include "runtime/local/apiserver/apply_shape.hpp"

#include <set>

namespace capstan::local {
namespace {

bool is_empty(const json::Value* value) {
    if (value == nullptr || value->is_null()) {
        return true;
    }
    const json::Object* members = value->if_object();
    const json::Array* items = value->if_array();
    return (members != nullptr && members->empty()) || (items != nullptr && items->empty());
}

Result<void> fill_set(const json::Value& value,
                      const SchemaNode* node,
                      bool at_root,
                      FieldSet& set);

Result<void> fill_map(const json::Object& members,
                      const SchemaNode* node,
                      bool at_root,
                      FieldSet& set) {
    for (const json::Member& member : members) {
        FieldSet& child = set.children["f:" + member.key];
        const SchemaNode* schema = member_schema(node, member.key, at_root);
        CAPSTAN_TRY(fill_set(member.value, schema, false, child));
        const json::Object* below = member.value.if_object();
        child.member = child.member || member.value.is_null() ||
                       (below != nullptr && below->empty()) || is_open_member(node, member.key);
        if (child.empty()) {
            set.children.erase("f:" + member.key);  // an empty associative list states nothing
        }
    }
    return ok();
}

Result<void> fill_list(const json::Array& items,
                       const SchemaNode* node,
                       Shape shape,
                       FieldSet& set) {
    for (const json::Value& item : items) {
        auto element = item_element(node, shape, item);
        if (!element) {
            return fail(Code::invalid,
                        "associative list with keys has an element that omits all key fields");
        }
        const auto [at, added] = set.children.try_emplace(std::move(*element));
        if (!added) {
            return fail(Code::invalid, "duplicate entries for key " + to_text({at->first}));
        }
        at->second.member = true;
        if (shape == Shape::list_map) {
            CAPSTAN_TRY(fill_set(item, node->items.get(), false, at->second));
        }
    }
    return ok();
}

Result<void> fill_set(const json::Value& value,
                      const SchemaNode* node,
                      bool at_root,
                      FieldSet& set) {
    switch (const Shape shape = shape_of(node, value)) {
        case Shape::leaf: set.member = true; return ok();
        case Shape::map: return fill_map(*value.if_object(), node, at_root, set);
        default: return fill_list(*value.if_array(), node, shape, set);
    }
}

// Walks two values at once; equal subtrees are skipped.
class Comparer {
public:
    explicit Comparer(Comparison& out) : out_(out) {}

    void run(const json::Value* left, const json::Value* right, const SchemaNode* node) {
        if (left == nullptr && right == nullptr) {
            return;
        }
        if (left != nullptr && right != nullptr && *left == *right) {
            return;
        }
        // Nothing and null take whatever shape the other side has.
        const bool no_left = left == nullptr || left->is_null();
        const bool no_right = right == nullptr || right->is_null();
        const Shape left_shape = no_left ? Shape::leaf : shape_of(node, *left);
        const Shape right_shape = no_right ? Shape::leaf : shape_of(node, *right);
        if (!no_left && !no_right && left_shape != right_shape) {
            // The type changed: what is below goes or comes, the value itself is another.
            if (left_shape == Shape::leaf || right_shape == Shape::leaf) {
                leaf(left, right);
            }
            if (left_shape != Shape::leaf && !is_empty(left)) {
                walk(left, nullptr, node, left_shape);
            }
            if (right_shape != Shape::leaf && !is_empty(right)) {
                walk(nullptr, right, node, right_shape);
            }
        } else {
            walk(left, right, node, no_left ? right_shape : left_shape);
        }
        if (left == nullptr) {
            out_.added.insert(path_);
        } else if (right == nullptr) {
            out_.removed.insert(path_);
        }
    }

private:
    void walk(const json::Value* left,
              const json::Value* right,
              const SchemaNode* node,
              Shape shape) {
        if (shape == Shape::leaf || (is_empty(left) && is_empty(right))) {
            leaf(left, right);
        } else if (shape == Shape::map) {
            maps(left == nullptr ? nullptr : left->if_object(),
                 right == nullptr ? nullptr : right->if_object(),
                 left,
                 right,
                 node);
        } else {
            lists(left, right, node, shape);
        }
    }
    void leaf(const json::Value* left, const json::Value* right) {
        if (left == nullptr) {
            out_.added.insert(path_);
        } else if (right == nullptr) {
            out_.removed.insert(path_);
        } else {
            out_.modified.insert(path_);
        }
    }
    void maps(const json::Object* left_members,
              const json::Object* right_members,
              const json::Value* left,
              const json::Value* right,
              const SchemaNode* node) {
        const bool at_root = path_.empty();
        const auto descend =
            [&](const std::string& key, const json::Value* a, const json::Value* b) {
                path_.push_back("f:" + key);
                run(a, b, member_schema(node, key, at_root));
                path_.pop_back();
            };
        if (left_members != nullptr) {
            for (const json::Member& member : *left_members) {
                descend(member.key,
                        &member.value,
                        right == nullptr ? nullptr : right->find(member.key));
            }
        }
        if (right_members != nullptr) {
            for (const json::Member& member : *right_members) {
                if (left == nullptr || left->find(member.key) == nullptr) {
                    descend(member.key, nullptr, &member.value);
                }
            }
        }
    }
    void lists(const json::Value* left,
               const json::Value* right,
               const SchemaNode* node,
               Shape shape) {
        const ItemIndex left_items =
            left == nullptr ? ItemIndex{} : index_items(node, shape, *left);
        const ItemIndex right_items =
            right == nullptr ? ItemIndex{} : index_items(node, shape, *right);
        const auto descend =
            [&](const std::string& element, const json::Value* a, const json::Value* b) {
                path_.push_back(element);
                run(a, b, node->items.get());
                path_.pop_back();
            };
        for (const auto& [element, item] : left_items) {
            const auto other = right_items.find(element);
            descend(element, item, other == right_items.end() ? nullptr : other->second);
        }
        for (const auto& [element, item] : right_items) {
            if (!left_items.contains(element)) {
                descend(element, nullptr, item);
            }
        }
    }

    Comparison& out_;
    FieldPath path_;
};

json::Value merge_value(const json::Value& live,
                        const json::Value& config,
                        const SchemaNode* node,
                        bool at_root);

json::Value merge_map(const json::Value& live,
                      const json::Value& config,
                      const SchemaNode* node,
                      bool at_root) {
    json::Object out;
    for (const json::Member& member : *live.if_object()) {
        const json::Value* other = config.find(member.key);
        out.emplace_back(
            member.key,
            other == nullptr
                ? member.value
                : merge_value(
                      member.value, *other, member_schema(node, member.key, at_root), false));
    }
    for (const json::Member& member : *config.if_object()) {
        if (live.find(member.key) == nullptr) {
            out.push_back(member);
        }
    }
    return json::Value(std::move(out));
}

// Two lists of items with keys become one: items that both have keep the order of `config`, those
// of one side stay where they stood among the shared ones, live before config.
class ListMerger {
public:
    ListMerger(const json::Array& live,
               const json::Array& config,
               const SchemaNode* node,
               Shape shape)
        : live_(live),
          config_(config),
          node_(node),
          live_keys_(keys_of(live, shape, "i:live")),
          config_keys_(keys_of(config, shape, "i:config")),
          in_live_(live_keys_.begin(), live_keys_.end()),
          in_config_(config_keys_.begin(), config_keys_.end()) {}

    json::Value run() {
        std::size_t left = 0;
        std::size_t right = 0;
        std::size_t wanted = next_shared(0);  // the shared item whose turn it is
        while (left < live_.size() || right < config_.size()) {
            const bool shared = left < live_.size() && in_config_.contains(live_keys_[left]);
            if (left < live_.size() && right < config_.size() &&
                live_keys_[left] == config_keys_[right]) {
                ++left;
                take(right++);
                wanted = next_shared(wanted + 1);
            } else if (shared && right < config_.size() && wanted < config_.size() &&
                       config_keys_[wanted] != live_keys_[left]) {
                ++left;  // shared, but its turn comes later
            } else if (left < live_.size() && !shared) {
                out_.push_back(live_[left++]);
            } else {
                left += shared && taken_.contains(live_keys_[left]) ? 1 : 0;
                if (right < config_.size()) {
                    wanted = right == wanted ? next_shared(wanted + 1) : wanted;
                    take(right++);
                }
            }
        }
        return json::Value(std::move(out_));
    }

private:
    std::vector<std::string> keys_of(const json::Array& items, Shape shape, const char* none) {
        std::vector<std::string> keys;
        for (const json::Value& item : items) {
            keys.push_back(item_element(node_, shape, item).value_or(none));
        }
        return keys;
    }
    std::size_t next_shared(std::size_t at) const {
        while (at < config_.size() && !in_live_.contains(config_keys_[at])) {
            ++at;
        }
        return at;
    }
    void take(std::size_t at) {
        taken_.insert(config_keys_[at]);
        for (std::size_t i = 0; i < live_.size(); ++i) {
            if (live_keys_[i] == config_keys_[at]) {
                out_.push_back(merge_value(live_[i], config_[at], node_->items.get(), false));
                return;
            }
        }
        out_.push_back(config_[at]);
    }

    const json::Array& live_;
    const json::Array& config_;
    const SchemaNode* node_;
    const std::vector<std::string> live_keys_, config_keys_;
    const std::set<std::string_view> in_live_, in_config_;
    std::set<std::string_view> taken_;
    json::Array out_;
};

json::Value merge_value(const json::Value& live,
                        const json::Value& config,
                        const SchemaNode* node,
                        bool at_root) {
    if (config.is_null()) {
        // Says nothing about a map or list that merges and holds something.
        const bool keeps = shape_of(node, live) != Shape::leaf && !is_empty(&live);
        return keeps ? live : config;
    }
    const Shape shape = shape_of(node, config);
    if (shape == Shape::leaf || shape != shape_of(node, live)) {
        return config;
    }
    if (shape == Shape::map) {
        return merge_map(live, config, node, at_root);
    }
    return ListMerger(*live.if_array(), *config.if_array(), node, shape).run();
}

// What loses its last member becomes null, as there; a schema may refuse that later.
json::Value without(const json::Value& value,
                    const FieldSet& fields,
                    const SchemaNode* node,
                    bool at_root) {
    const Shape shape = shape_of(node, value);
    if (shape == Shape::map) {
        json::Object out;
        for (const json::Member& member : *value.if_object()) {
            const FieldSet* below = fields.child("f:" + member.key);
            if (below == nullptr) {
                out.push_back(member);
            } else if (!below->member) {
                out.emplace_back(
                    member.key,
                    without(member.value, *below, member_schema(node, member.key, at_root), false));
            }
        }
        return out.empty() ? json::Value() : json::Value(std::move(out));
    }
    if (shape == Shape::leaf) {
        return value;
    }
    json::Array out;
    for (const json::Value& item : *value.if_array()) {
        const auto element = item_element(node, shape, item);
        const FieldSet* below = element ? fields.child(*element) : nullptr;
        if (below == nullptr) {
            out.push_back(item);
        } else if (!below->member) {
            out.push_back(without(item, *below, node->items.get(), false));
        }
    }
    return out.empty() ? json::Value() : json::Value(std::move(out));
}

}  // namespace

Result<FieldSet> to_field_set(const json::Value& object, const ObjectSchema& schema) {
    FieldSet set;
    CAPSTAN_TRY(fill_set(object, schema.root, true, set));
    set.member = false;
    return set;
}

Comparison compare(const json::Value& left, const json::Value& right, const ObjectSchema& schema) {
    Comparison out;
    Comparer(out).run(&left, &right, schema.root);
    return out;
}

json::Value merge_typed(const json::Value& live,
                        const json::Value& config,
                        const ObjectSchema& schema) {
    return merge_value(live, config, schema.root, true);
}

json::Value remove_fields(const json::Value& object,
                          const FieldSet& fields,
                          const ObjectSchema& schema) {
    json::Value left = without(object, fields, schema.root, true);
    return left.is_null() ? json::object() : left;
}

}  // namespace capstan::local
