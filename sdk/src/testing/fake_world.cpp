#include "fake_state.hpp"

#include "capstan/label_selector.hpp"

#include <algorithm>
#include <charconv>

namespace capstan::testing {

namespace {

Error problem(Code code, std::string_view what, std::string_view gk, const ObjectKey& key) {
    return {code, std::string(gk) + " " + key.to_string() + ": " + std::string(what), {}};
}

// Members of `before` (objects only) that `after` does not have any more are erased from `target`.
void erase_dropped(json::Value& target, const json::Value& before, const json::Value& after) {
    for (const json::Member& member : json::View(before).object()) {
        json::Value* inner = target.find(member.key);
        const json::Value* kept = after.find(member.key);
        if (inner == nullptr) {
            continue;
        }
        if (member.value.is_object()) {
            const json::Value none = json::object();
            erase_dropped(
                *inner, member.value, kept != nullptr && kept->is_object() ? *kept : none);
            if (kept == nullptr && inner->is_object() && inner->if_object()->empty()) {
                target.erase(member.key);
            }
        } else if (kept == nullptr) {
            target.erase(member.key);
        }
    }
}

bool has_finalizers(const json::Value& object) {
    return !json::View(object)["metadata"]["finalizers"].array().empty();
}
bool is_deleting(const json::Value& object) {
    return json::View(object)["metadata"]["deletionTimestamp"].present();
}

// A write through the main resource keeps the status, one through "status" keeps all but it.
json::Value split_status(const json::Value& stored, json::Value wanted, std::string_view sub) {
    const json::Value* status = sub == "status" ? wanted.find("status") : stored.find("status");
    json::Value kept = status != nullptr ? *status : json::Value();
    json::Value result = sub == "status" ? stored : std::move(wanted);
    if (kept.is_null()) {
        result.erase("status");
    } else {
        result.set("status", std::move(kept));
    }
    return result;
}

Result<void> check_preconditions(const json::Value& stored,
                                 const json::Value& wanted,
                                 std::string_view gk,
                                 const ObjectKey& key) {
    for (const std::string_view field : {"resourceVersion", "uid"}) {
        const auto given = json::View(wanted)["metadata"][field].string_or("");
        if (!given.empty() && given != json::View(stored)["metadata"][field].string_or("")) {
            return fail(problem(Code::conflict, std::string(field) + " differs", gk, key));
        }
    }
    return ok();
}

}  // namespace

std::string group_kind_of(std::string_view gvk) {
    const auto parsed = GroupVersionKind::parse(gvk);
    return parsed ? parsed.value().group_kind() : std::string(gvk);
}

ObjectKey key_of(const json::Value& object) {
    const json::View metadata = json::View(object)["metadata"];
    return {std::string(metadata["namespace"].string_or("")),
            std::string(metadata["name"].string_or(""))};
}

json::Value& FakeWorld::store(const Slot& slot, json::Value next) {
    Entry& entry = entries_[slot];
    json::Value& metadata = next["metadata"];
    if (entry.current.is_null()) {
        metadata.set("uid", "uid-" + std::to_string(++uid_));
        metadata.set("generation", 1);
        metadata.set("creationTimestamp", "2026-01-01T00:00:00Z");
    } else {
        for (const std::string_view kept :
             {"uid", "generation", "creationTimestamp", "deletionTimestamp"}) {
            const json::View value = json::View(entry.current)["metadata"][kept];
            if (value.present()) {
                metadata.set(kept, *value.value());
            }
        }
        const json::Value* before = entry.current.find("spec");
        const json::Value* after = next.find("spec");
        if ((before == nullptr) != (after == nullptr) ||
            (before != nullptr && !(*before == *after))) {
            metadata.set("generation", json::View(metadata)["generation"].int_or(0) + 1);
        }
    }
    metadata.set("resourceVersion", std::to_string(++version_));
    entry.previous = std::exchange(entry.current, std::move(next));
    if (is_deleting(entry.current) && !has_finalizers(entry.current)) {
        entry.previous = std::exchange(entry.current, json::Value());
        return entry.previous;
    }
    return entry.current;
}

json::Value FakeWorld::put(json::Value object) {
    const json::View view(object);
    const std::string gk = GroupVersionKind::from_api_version(view["apiVersion"].string_or(""),
                                                              view["kind"].string_or(""))
                               .group_kind();
    const ObjectKey key = key_of(object);
    return store({gk, key}, std::move(object));
}

Result<json::Value> FakeWorld::create(std::string_view gvk, json::Value object) {
    const std::string gk = group_kind_of(gvk);
    const ObjectKey key = key_of(object);
    if (find(gk, key) != nullptr) {
        return fail(problem(Code::exists, "exists", gk, key));
    }
    object.erase("status");
    return store({gk, key}, std::move(object));
}

Result<json::Value> FakeWorld::apply(std::string_view gvk,
                                     const json::Value& intent,
                                     std::string_view sub,
                                     bool dry_run,
                                     bool& changed) {
    const std::string gk = group_kind_of(gvk);
    const ObjectKey key = key_of(intent);
    if (key.name.empty()) {
        return fail(problem(Code::invalid, "/metadata/name is missing", gk, key));
    }
    const json::Value* stored = find(gk, key);
    if (stored == nullptr && !sub.empty()) {
        return fail(problem(Code::not_found, "not found", gk, key));
    }
    json::Value next = stored != nullptr ? *stored : json::object();
    if (stored != nullptr) {
        CAPSTAN_TRY(check_preconditions(*stored, intent, gk, key));
    }
    Entry& entry = entries_[{gk, key}];
    json::Value& last = sub == "status" ? entry.status_intent : entry.intent;
    erase_dropped(next, last, intent);
    merge_patch(next, intent);
    next = split_status(stored != nullptr ? *stored : json::object(), std::move(next), sub);
    changed = stored == nullptr || !(next == *stored);
    if (!changed || dry_run) {
        changed = changed && !dry_run;
        return next;
    }
    last = intent;
    return store({gk, key}, std::move(next));
}

Result<json::Value> FakeWorld::patch(std::string_view gvk,
                                     const ObjectKey& key,
                                     std::int32_t type,
                                     const json::Value& body,
                                     std::string_view sub,
                                     bool& changed) {
    const std::string gk = group_kind_of(gvk);
    const json::Value* stored = find(gk, key);
    if (stored == nullptr) {
        return fail(problem(Code::not_found, "not found", gk, key));
    }
    json::Value next = *stored;
    if (type == CAPSTAN_PATCH_MERGE) {
        merge_patch(next, body);
    } else {
        CAPSTAN_TRY(json_patch(next, body));
    }
    CAPSTAN_TRY(check_preconditions(*stored, next, gk, key));
    next = split_status(*stored, std::move(next), sub);
    changed = !(next == *stored);
    return changed ? store({gk, key}, std::move(next)) : next;
}

Result<void> FakeWorld::remove(std::string_view gk,
                               const ObjectKey& key,
                               const json::Value* precondition) {
    const auto at = entries_.find({std::string(gk), key});
    if (at == entries_.end() || at->second.current.is_null()) {
        return fail(problem(Code::not_found, "not found", gk, key));
    }
    Entry& entry = at->second;
    if (precondition != nullptr) {
        CAPSTAN_TRY(check_preconditions(entry.current, *precondition, gk, key));
    }
    if (!has_finalizers(entry.current)) {
        entry.previous = std::exchange(entry.current, json::Value());
        entry.intent = entry.status_intent = json::Value();
    } else if (!is_deleting(entry.current)) {
        entry.previous = entry.current;
        entry.current["metadata"].set("deletionTimestamp", "2026-01-01T00:00:00Z");
        entry.current["metadata"].set("resourceVersion", std::to_string(++version_));
    }
    return ok();
}

const json::Value* FakeWorld::find(std::string_view gk, const ObjectKey& key, bool stale) const {
    const auto at = entries_.find({std::string(gk), key});
    if (at == entries_.end()) {
        return nullptr;
    }
    const json::Value& value = stale ? at->second.previous : at->second.current;
    return value.is_null() ? nullptr : &value;
}

std::vector<const json::Value*> FakeWorld::list(std::string_view gk,
                                                std::string_view ns,
                                                std::string_view selector,
                                                bool stale) const {
    std::vector<const json::Value*> found;
    const auto parsed = LabelSelector::parse(selector);
    for (const auto& [slot, entry] : entries_) {
        const json::Value& value = stale ? entry.previous : entry.current;
        if (slot.first != gk || value.is_null() || (!ns.empty() && slot.second.ns != ns)) {
            continue;
        }
        if (parsed && parsed.value().matches(value.pointer("/metadata/labels"))) {
            found.push_back(&value);
        }
    }
    return found;
}

void merge_patch(json::Value& target, const json::Value& patch) {
    if (!patch.is_object()) {
        target = patch;
        return;
    }
    if (!target.is_object()) {
        target = json::object();
    }
    for (const json::Member& member : *patch.if_object()) {
        if (member.value.is_null()) {
            target.erase(member.key);
        } else if (json::Value* inner = target.find(member.key)) {
            merge_patch(*inner, member.value);
        } else {
            json::Value fresh = json::object();
            merge_patch(fresh, member.value);
            target.set(member.key, std::move(fresh));
        }
    }
}

namespace {

// The last token of a pointer, unescaped.
std::string last_token(std::string_view pointer) {
    std::string token;
    for (std::size_t i = pointer.rfind('/') + 1; i < pointer.size(); ++i) {
        if (pointer[i] == '~' && i + 1 < pointer.size()) {
            token += pointer[++i] == '1' ? '/' : '~';
        } else {
            token += pointer[i];
        }
    }
    return token;
}

bool change_array(json::Array& array,
                  const std::string& token,
                  std::string_view op,
                  const json::Value& value) {
    std::size_t index = array.size();
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), index);
    const bool append = token == "-" && op == "add";
    if (!append && (error != std::errc{} || end != token.data() + token.size() ||
                    index >= array.size() + (op == "add" ? 1 : 0))) {
        return false;
    }
    const auto at = array.begin() + static_cast<std::ptrdiff_t>(append ? array.size() : index);
    if (op == "add") {
        array.insert(at, value);
    } else if (op == "remove") {
        array.erase(at);
    } else {
        *at = value;
    }
    return true;
}

bool change(json::Value& target,
            std::string_view path,
            std::string_view op,
            const json::Value& value) {
    if (path.empty() || path.front() != '/') {
        return false;
    }
    json::Value* parent = target.pointer(path.substr(0, path.rfind('/')));
    if (parent == nullptr) {
        return false;
    }
    const std::string token = last_token(path);
    if (json::Array* array = parent->if_array()) {
        return change_array(*array, token, op, value);
    }
    if (!parent->is_object() || (op != "add" && parent->find(token) == nullptr)) {
        return false;
    }
    if (op == "remove") {
        return parent->erase(token);
    }
    parent->set(token, value);
    return true;
}

}  // namespace

Result<void> json_patch(json::Value& target, const json::Value& operations) {
    CAPSTAN_TRY(const auto list, json::View(operations).as_array());
    for (const json::Value& operation : *list) {
        const json::View view(operation);
        CAPSTAN_TRY(const auto op, view["op"].as_string());
        CAPSTAN_TRY(const auto path, view["path"].as_string());
        const json::Value* given = operation.find("value");
        const json::Value value = given != nullptr ? *given : json::Value();
        if (op == "test") {
            const json::Value* found = target.pointer(path);
            if (found == nullptr || !(*found == value)) {
                return fail(Code::conflict, "test of " + std::string(path) + " failed");
            }
        } else if ((op != "add" && op != "remove" && op != "replace") ||
                   !change(target, path, op, value)) {
            return fail(
                Code::invalid,
                "operation " + std::string(op) + " on " + std::string(path) + " is not possible");
        }
    }
    return ok();
}

}  // namespace capstan::testing
