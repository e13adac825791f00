#include "test/controllers/memory_store.hpp"

#include <algorithm>
#include <iterator>

namespace capstan::test {

namespace {

struct KeyedList {
    std::string_view name, key;
};
constexpr KeyedList kKeyedLists[] = {
    {"conditions", "type"},
    {"members", "name"},
    {"memberRefs", "name"},
    {"ownerReferences", "uid"},
};

std::string_view key_of_list(std::string_view name) {
    for (const KeyedList& list : kKeyedLists) {
        if (list.name == name) {
            return list.key;
        }
    }
    return {};
}

json::Value* item_with(json::Value& list, std::string_view key, const json::Value& like) {
    for (json::Value& item : *list.if_array()) {
        const json::Value* a = item.find(key);
        const json::Value* b = like.find(key);
        if (a != nullptr && b != nullptr && *a == *b) {
            return &item;
        }
    }
    return nullptr;
}

void merge(json::Value& into, const json::Value& intent, std::string_view name);

void merge_list(json::Value& into, const json::Value& intent, std::string_view key) {
    for (const json::Value& item : *intent.if_array()) {
        if (json::Value* found = item_with(into, key, item)) {
            merge(*found, item, "");
        } else {
            into.push_back(item);
        }
    }
}

void merge(json::Value& into, const json::Value& intent, std::string_view name) {
    const std::string_view list_key = key_of_list(name);
    if (into.is_object() && intent.is_object()) {
        for (const json::Member& member : *intent.if_object()) {
            merge(into[member.key], member.value, member.key);
        }
    } else if (into.is_array() && intent.is_array() && !list_key.empty()) {
        merge_list(into, intent, list_key);
    } else {
        into = intent;
    }
}

// Takes out of `from` what `before` had and `intent` has no longer.
void drop(json::Value& from,
          const json::Value& before,
          const json::Value* intent,
          std::string_view name) {
    if (!from.is_object() || !before.is_object()) {
        return;
    }
    static_cast<void>(name);
    for (const json::Member& member : *before.if_object()) {
        json::Value* present = from.find(member.key);
        const json::Value* kept = intent == nullptr ? nullptr : intent->find(member.key);
        if (present == nullptr) {
            continue;
        }
        const std::string_view list_key = key_of_list(member.key);
        if (member.value.is_array() && present->is_array() && !list_key.empty()) {
            json::Value rest = json::list();
            for (json::Value& item : *present->if_array()) {
                json::Value had = member.value;
                json::Value has = kept == nullptr ? json::list() : *kept;
                if (item_with(had, list_key, item) == nullptr ||
                    item_with(has, list_key, item) != nullptr) {
                    rest.push_back(item);
                }
            }
            *present = rest;
        } else if (member.value.is_object() && present->is_object()) {
            drop(*present, member.value, kept, member.key);
        } else if (kept == nullptr) {
            from.erase(member.key);
        }
    }
}

}  // namespace

bool covers(const json::Value& object, const json::Value& intent) {
    json::Value merged = object;
    merge(merged, intent, "");
    return merged == object;
}

MemoryStore::Key MemoryStore::key_of(const json::Value& object) {
    const json::View view(object);
    const auto gvk = GroupVersionKind::from_api_version(view["apiVersion"].string_or(""),
                                                        view["kind"].string_or(""));
    return {gvk.group_kind(),
            {std::string(view["metadata"]["namespace"].string_or("")),
             std::string(view["metadata"]["name"].string_or(""))}};
}

void MemoryStore::stamp(json::Value& object, bool is_new) {
    json::Value& meta = object["metadata"];
    ++version_;
    meta.set("resourceVersion", std::to_string(version_));
    if (is_new) {
        meta.set("uid", "uid-" + key_of(object).first + "-" + key_of(object).second.name);
        meta.set("generation", 1);
    }
}

void MemoryStore::settle(const Key& key) {
    const json::View meta = json::View(objects_.at(key))["metadata"];
    if (meta["deletionTimestamp"].present() && meta["finalizers"].array().empty()) {
        objects_.erase(key);
    }
}

void MemoryStore::put(json::Value object) {
    const Key key = key_of(object);
    auto found = objects_.find(key);
    if (found == objects_.end()) {
        stamp(object, true);
        objects_.emplace(key, std::move(object));
        return;
    }
    json::Value& old = found->second;
    const json::Value* spec = object.find("spec");
    if (spec != nullptr && (old.find("spec") == nullptr || !(*old.find("spec") == *spec))) {
        old["metadata"].set("generation", json::View(old)["metadata"]["generation"].int_or(0) + 1);
    }
    for (const json::Member& member : *object.if_object()) {
        if (member.key == "metadata") {
            for (const json::Member& field : *member.value.if_object()) {
                old["metadata"].set(field.key, field.value);
            }
        } else {
            old.set(member.key, member.value);
        }
    }
    stamp(old, false);
    settle(key);
}

const json::Value* MemoryStore::find(std::string_view group_kind, const ObjectKey& key) const {
    auto found = objects_.find({std::string(group_kind), key});
    return found == objects_.end() ? nullptr : &found->second;
}

std::vector<const json::Value*> MemoryStore::list(std::string_view group_kind,
                                                  std::string_view ns,
                                                  std::string_view selector) const {
    std::vector<const json::Value*> out;
    for (const auto& [key, object] : objects_) {
        bool matches = key.first == group_kind && (ns.empty() || key.second.ns == ns);
        for (std::string_view rest = selector; matches && !rest.empty();) {
            const std::string_view term = rest.substr(0, rest.find(','));
            rest.remove_prefix(std::min(rest.size(), term.size() + 1));
            const std::size_t equals = term.find('=');
            matches = json::View(object)["metadata"]["labels"][term.substr(0, equals)].string_or(
                          "\n") == term.substr(equals + 1);
        }
        if (matches) {
            out.push_back(&object);
        }
    }
    return out;
}

std::string MemoryStore::world() const {
    std::string out;
    for (const auto& [key, object] : objects_) {
        json::Value bare = object;
        bare["metadata"].erase("resourceVersion");
        if (json::Value* status = bare.find("status")) {
            status->erase("lastOperation");  // its run id and time differ between runs
        }
        out += json::dump_sorted(bare) + "\n";
    }
    return out;
}

Result<void> MemoryStore::create(const json::Value& object) {
    const Key key = key_of(object);
    if (objects_.contains(key)) {
        return fail(Code::exists, key.first + " " + key.second.to_string() + " exists");
    }
    put(object);
    return ok();
}

Result<void> MemoryStore::apply(const json::Value& intent,
                                std::string_view subresource,
                                const json::Value& before) {
    const Key key = key_of(intent);
    auto found = objects_.find(key);
    if (found == objects_.end()) {
        if (!subresource.empty()) {
            return fail(Code::not_found, key.first + " " + key.second.to_string() + " not found");
        }
        put(intent);
        return ok();
    }
    json::Value made = found->second;
    if (subresource == "status") {
        const json::Value* status = intent.find("status");
        drop(made["status"].is_null() ? (made["status"] = json::object()) : made["status"],
             before.find("status") == nullptr ? json::object() : *before.find("status"),
             status,
             "status");
        merge(made["status"], status == nullptr ? json::object() : *status, "status");
    } else {
        drop(made, before, &intent, "");
        merge(made, intent, "");
    }
    if (made == found->second) {
        return ok();
    }
    int controllers = 0;
    for (const json::Value& owner : json::View(made)["metadata"]["ownerReferences"].array()) {
        controllers += json::View(owner)["controller"].bool_or(false) ? 1 : 0;
    }
    if (controllers > 1) {
        return fail(Code::invalid,
                    "metadata.ownerReferences: Only one reference can have Controller set to true");
    }
    if (!(made["spec"] == found->second["spec"])) {
        made["metadata"].set("generation",
                             json::View(made)["metadata"]["generation"].int_or(0) + 1);
    }
    found->second = std::move(made);
    stamp(found->second, false);
    return ok();
}

Result<void> MemoryStore::patch_json(std::string_view group_kind,
                                     const ObjectKey& key,
                                     const json::Value& operations) {
    const Key full{std::string(group_kind), key};
    auto found = objects_.find(full);
    if (found == objects_.end()) {
        return fail(Code::not_found, key.to_string() + " not found");
    }
    json::Value made = found->second;
    for (const json::Value& operation : json::View(operations).array()) {
        const json::View view(operation);
        const std::string path(view["path"].string_or(""));
        const std::size_t slash = path.rfind('/');
        std::string last = path.substr(slash + 1);
        for (std::size_t at = last.find("~1"); at != std::string::npos; at = last.find("~1")) {
            last.replace(at, 2, "/");
        }
        json::Value* parent = made.pointer(path.substr(0, slash));
        const std::string_view op = view["op"].string_or("");
        if (parent == nullptr) {
            return fail(Code::invalid, path + ": no such place");
        }
        if (op == "test") {
            const json::Value* present = made.pointer(path);
            if (present == nullptr || !(*present == *operation.find("value"))) {
                return fail(Code::conflict, path + ": test failed");
            }
        } else if (op == "remove" && parent->is_array()) {
            parent->if_array()->erase(parent->if_array()->begin() + std::stol(last));
        } else if (op == "remove") {
            parent->erase(last);
        } else {
            parent->set(last, *operation.find("value"));
        }
    }
    found->second = std::move(made);
    stamp(found->second, false);
    settle(full);
    return ok();
}

Result<void> MemoryStore::remove(std::string_view group_kind,
                                 const ObjectKey& key,
                                 std::string_view uid,
                                 std::string_view version) {
    const Key full{std::string(group_kind), key};
    auto found = objects_.find(full);
    if (found == objects_.end()) {
        return fail(Code::not_found, key.to_string() + " not found");
    }
    json::Value& meta = found->second["metadata"];
    if (json::View(meta)["uid"].string_or("") != uid ||
        json::View(meta)["resourceVersion"].string_or("") != version) {
        return fail(Code::conflict, key.to_string() + ": precondition failed");
    }
    meta.set("deletionTimestamp", "2026-01-01T00:00:00Z");
    settle(full);
    return ok();
}

}  // namespace capstan::test
