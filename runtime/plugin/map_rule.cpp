#include "runtime/plugin/map_rule.hpp"

#include "runtime/plugin/predicate_compare.hpp"

#include <algorithm>

namespace capstan::plugin {

namespace {

std::string_view text_at(const json::Value* value) noexcept {
    return value != nullptr && value->if_string() != nullptr ? std::string_view(*value->if_string())
                                                             : std::string_view();
}

std::string below(std::string_view path, std::string_view key) {
    return std::string(path) + "/" + json::escape_pointer_token(key);
}

void parse_refers_from(const json::Value& tree,
                       const std::string& path,
                       MapRule& rule,
                       Problems& problems) {
    rule.kind = MapRule::Kind::refers_from;
    const auto gvk = GroupVersionKind::parse(text_at(tree.find("gvk")));
    rule.field = text_at(tree.find("field"));
    if (!gvk || !(gvk.value() == rule.primary)) {
        problems.add(path + "/gvk", "must be the kind of this controller's \"for\" watch");
    }
    if (rule.field.empty() || !split_pointer(rule.field)) {
        problems.add(path + "/field",
                     "expected a JSON pointer into the primary, like \"/spec/secretRef/name\"");
    }
    for (const json::Member& member : json::View(tree).object()) {
        if (member.key != "gvk" && member.key != "field") {
            problems.add(below(path, member.key), "unknown member; known are gvk and field");
        }
    }
}

void parse_name(const json::Value& tree,
                const std::string& path,
                MapRule& rule,
                Problems& problems) {
    rule.kind = MapRule::Kind::name;
    rule.prefix = text_at(tree.find("prefix"));
    rule.suffix = text_at(tree.find("suffix"));
    for (const json::Member& member : json::View(tree).object()) {
        if ((member.key != "prefix" && member.key != "suffix") || !member.value.is_string()) {
            problems.add(below(path, member.key), "expected \"prefix\" or \"suffix\" (strings)");
        }
    }
    if (!tree.is_object()) {
        problems.add(path, "expected an object with \"prefix\" and \"suffix\"");
    }
}

void add_owner_key(const MapRule& rule,
                   const json::Value* object,
                   const std::string& ns,
                   std::vector<ObjectKey>& keys) {
    OwnerMatch match;
    match.kind = rule.primary.kind;
    match.controller = true;
    const json::Value* owner = find_owner(object, match);
    if (owner == nullptr) {
        return;
    }
    const auto gvk =
        GroupVersionKind::from_api_version(text_at(owner->find("apiVersion")), rule.primary.kind);
    const std::string_view name = text_at(owner->find("name"));
    if (gvk.group == rule.primary.group && !name.empty()) {
        keys.push_back({ns, std::string(name)});  // another version of the group is the same kind
    }
}

void map_one(const MapRule& rule,
             const json::Value* object,
             const MapLookups& lookups,
             std::vector<ObjectKey>& keys) {
    const bool leaves = lookups.primary_cluster_scoped && rule.kind != MapRule::Kind::identity;
    const std::string ns(leaves ? std::string_view() : text_at(metadata(object, "namespace")));
    const std::string name(text_at(metadata(object, "name")));
    const auto append = [&keys](std::vector<ObjectKey> more) {
        keys.insert(
            keys.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    };
    switch (rule.kind) {
        case MapRule::Kind::identity: keys.push_back({ns, name}); return;
        case MapRule::Kind::owner: add_owner_key(rule, object, ns, keys); return;
        case MapRule::Kind::refers_from:
            append(lookups.by_field(rule.primary, rule.field, name, ns));
            return;
        case MapRule::Kind::all: append(lookups.all(rule.primary, ns)); return;
        case MapRule::Kind::label: {
            const std::string_view value = text_at(member(metadata(object, "labels"), rule.key));
            if (!value.empty()) {
                keys.push_back({ns, std::string(value)});
            }
            return;
        }
        case MapRule::Kind::name: {
            const std::size_t around = rule.prefix.size() + rule.suffix.size();
            if (name.size() > around && name.starts_with(rule.prefix) &&
                name.ends_with(rule.suffix)) {
                keys.push_back({ns, name.substr(rule.prefix.size(), name.size() - around)});
            }
            return;
        }
    }
}

}  // namespace

std::string_view to_string(MapRule::Kind kind) noexcept {
    switch (kind) {
        case MapRule::Kind::identity: return "for";
        case MapRule::Kind::owner: return "owns";
        case MapRule::Kind::refers_from: return "refersFrom";
        case MapRule::Kind::label: return "label";
        case MapRule::Kind::name: return "name";
        case MapRule::Kind::all: return "all";
    }
    return "";
}

MapRule MapRule::parse(const json::Value& tree,
                       const GroupVersionKind& primary,
                       std::string_view path,
                       Problems& problems) {
    MapRule rule;
    rule.primary = primary;
    if (!tree.is_object() || tree.if_object()->size() != 1) {
        problems.add(path, "expected an object with one of refersFrom, label, name, all");
        return rule;
    }
    const json::Member& member = tree.if_object()->front();
    const std::string at = below(path, member.key);
    if (member.key == "refersFrom") {
        parse_refers_from(member.value, at, rule, problems);
    } else if (member.key == "label") {
        rule.kind = Kind::label;
        rule.key = text_at(&member.value);
        if (rule.key.empty()) {
            problems.add(at, "expected a label key");
        }
    } else if (member.key == "name") {
        parse_name(member.value, at, rule, problems);
    } else if (member.key == "all") {
        rule.kind = Kind::all;
        if (member.value.if_bool() == nullptr || !*member.value.if_bool()) {
            problems.add(at, "is written with true");
        }
    } else {
        problems.add(at, "unknown map rule; known are refersFrom, label, name, all");
    }
    return rule;
}

MappedKeys map_keys(const MapRule& rule,
                    const json::Value* old_object,
                    const json::Value* new_object,
                    const MapLookups& lookups) {
    MappedKeys result;
    if (new_object != nullptr) {
        map_one(rule, new_object, lookups, result.keys);
    }
    if (old_object != nullptr && old_object != new_object) {
        map_one(rule, old_object, lookups, result.keys);
    }
    std::sort(result.keys.begin(), result.keys.end());
    result.keys.erase(std::unique(result.keys.begin(), result.keys.end()), result.keys.end());
    if (result.keys.size() > kMappedKeysMax) {
        result.keys.resize(kMappedKeysMax);
        result.truncated = true;
    }
    return result;
}

}  // namespace capstan::plugin
