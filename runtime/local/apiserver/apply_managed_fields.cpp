#include "runtime/local/apiserver/apply_managed_fields.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace capstan::local {
namespace {

// Fields nobody owns (fieldmanager's stripmeta).
void strip_unowned(FieldSet& set) {
    static const std::vector<FieldPath> kUnowned = {
        {"f:apiVersion"},
        {"f:kind"},
        {"f:metadata", "f:name"},
        {"f:metadata", "f:namespace"},
        {"f:metadata", "f:creationTimestamp"},
        {"f:metadata", "f:selfLink"},
        {"f:metadata", "f:uid"},
        {"f:metadata", "f:generation"},
        {"f:metadata", "f:managedFields"},
        {"f:metadata", "f:resourceVersion"},
    };
    for (const FieldPath& path : kUnowned) {
        set.erase_subtree(path);
    }
    const auto metadata = set.children.find("f:metadata");
    if (metadata != set.children.end()) {
        metadata->second.member = false;
        if (metadata->second.empty()) {
            set.children.erase(metadata);
        }
    }
}

std::string manager_text(const ManagedEntry& entry) {
    std::string text = "\"" + entry.manager + "\"";
    if (!entry.subresource.empty()) {
        text += " with subresource \"" + entry.subresource + "\"";
    }
    if (!entry.apply) {
        text += " using " + entry.api_version;
    }
    return text;
}

StatusError apply_conflict(const std::vector<std::pair<const ManagedEntry*, FieldSet>>& conflicts) {
    StatusError error;
    error.code = 409;
    error.reason = "Conflict";
    std::string listing;
    std::size_t count = 0;
    for (const auto& [entry, fields] : conflicts) {
        const auto paths = fields.paths();
        listing += (listing.empty() ? "conflicts with " : "\nconflicts with ") +
                   manager_text(*entry) + ":";
        for (const FieldPath& path : paths) {
            const std::string field = to_text(path);
            listing += "\n- " + field;
            error.causes.push_back(
                {"FieldManagerConflict", "conflict with " + manager_text(*entry), field});
            ++count;
        }
    }
    if (count == 1) {
        error.message = "Apply failed with 1 conflict: " + error.causes[0].message + ": " +
                        error.causes[0].field;
    } else {
        error.message = "Apply failed with " + std::to_string(count) + " conflicts: " + listing;
    }
    return error;
}

// Takes what changed from all managers but `own`: added and modified fields, and
// everything that is gone.
void take_from_others(ManagedFields& entries, const ManagedEntry* own, const Comparison& change) {
    FieldSet gone = change.removed;
    gone.add(change.added);
    gone.add(change.modified);
    for (ManagedEntry& entry : entries) {
        if (&entry != own) {
            entry.set = entry.set.difference(gone);
        }
    }
}

// At most kUpdateManagersMax Update entries: the oldest merge, per version, into "ancient-changes".
void cap_update_managers(ManagedFields& entries) {
    std::vector<std::size_t> updates;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (!entries[i].apply) {
            updates.push_back(i);
        }
    }
    if (updates.size() <= kUpdateManagersMax) {
        return;
    }
    std::stable_sort(updates.begin(), updates.end(), [&](std::size_t a, std::size_t b) {
        return entries[a].time < entries[b].time;
    });
    std::map<std::string, ManagedEntry> buckets;
    // One bucket at least is added, so one more entry than the surplus goes.
    const std::size_t surplus = updates.size() - kUpdateManagersMax + 1;
    for (std::size_t i = 0; i < surplus; ++i) {
        ManagedEntry& old = entries[updates[i]];
        ManagedEntry& bucket = buckets[old.api_version];
        bucket.manager = "ancient-changes";
        bucket.api_version = old.api_version;
        bucket.time = std::max(bucket.time, old.time);
        bucket.set.add(old.set);
        old.set = FieldSet{};
    }
    for (auto& [version, bucket] : buckets) {
        entries.push_back(std::move(bucket));
    }
}

// [{}]: the client wants to start anew.
bool is_reset(const json::Value& field) {
    const json::Array* items = field.if_array();
    return items != nullptr && items->size() == 1 && (*items)[0].is_object() &&
           (*items)[0].if_object()->empty();
}

// The managers a write starts from: those the client sent to the main resource, else the live ones.
ManagedFields managers_of(const json::Value* live, const json::Value& updated, bool main) {
    const json::Value* metadata = updated.find("metadata");
    const json::Value* sent = metadata == nullptr ? nullptr : metadata->find("managedFields");
    if (main && sent != nullptr && is_reset(*sent)) {
        return {};
    }
    ManagedFields entries;
    if (main && sent != nullptr) {
        entries = decode_managed_fields(updated);
    }
    return entries.empty() && live != nullptr ? decode_managed_fields(*live) : entries;
}

ManagedEntry* find_entry(ManagedFields& entries, const WriteIdentity& identity, bool apply) {
    for (ManagedEntry& entry : entries) {
        // An applier keeps its entry when it moves to another version; an
        // updater has one per version.
        if (entry.apply == apply && entry.manager == identity.manager &&
            entry.subresource == identity.subresource &&
            (apply || entry.api_version == identity.api_version)) {
            return &entry;
        }
    }
    return nullptr;
}

void keep_old_if_only_times_differ(const json::Value* live, json::Value& updated) {
    const json::Value* old = live == nullptr ? nullptr : live->pointer("/metadata/managedFields");
    if (old != nullptr && same_but_times(*live, updated)) {
        updated["metadata"].set("managedFields", *old);
    }
}

}  // namespace

ManagedFields decode_managed_fields(const json::Value& object) {
    ManagedFields entries;
    const json::View list = json::View(object)["metadata"]["managedFields"];
    for (const json::Value& item : list.array()) {
        const json::View view(item);
        const std::string_view operation = view["operation"].string_or("");
        const json::Value* fields = item.find("fieldsV1");
        if (fields == nullptr || (operation != "Apply" && operation != "Update")) {
            continue;
        }
        ManagedEntry entry;
        entry.manager = view["manager"].string_or("");
        entry.apply = operation == "Apply";
        entry.api_version = view["apiVersion"].string_or("");
        entry.subresource = view["subresource"].string_or("");
        entry.time = view["time"].string_or("");
        entry.set = from_fields_v1(*fields);
        entries.push_back(std::move(entry));
    }
    return entries;
}

void encode_managed_fields(ManagedFields entries, json::Value& object) {
    std::erase_if(entries, [](const ManagedEntry& entry) { return entry.set.empty(); });
    if (entries.empty()) {
        object["metadata"].erase("managedFields");
        return;
    }
    std::stable_sort(
        entries.begin(), entries.end(), [](const ManagedEntry& a, const ManagedEntry& b) {
            return std::tuple(!a.apply,
                              std::string_view(a.time),
                              std::string_view(a.manager),
                              std::string_view(a.api_version),
                              std::string_view(a.subresource)) <
                   std::tuple(!b.apply,
                              std::string_view(b.time),
                              std::string_view(b.manager),
                              std::string_view(b.api_version),
                              std::string_view(b.subresource));
        });
    json::Value list = json::list();
    for (const ManagedEntry& entry : entries) {
        json::Value item = {
            {"manager", entry.manager},
            {"operation", entry.apply ? "Apply" : "Update"},
            {"apiVersion", entry.api_version},
        };
        if (!entry.time.empty()) {
            item.set("time", entry.time);
        }
        item.set("fieldsType", "FieldsV1");
        item.set("fieldsV1", to_fields_v1(entry.set));
        if (!entry.subresource.empty()) {
            item.set("subresource", entry.subresource);
        }
        list.push_back(std::move(item));
    }
    object["metadata"].set("managedFields", std::move(list));
}

void track_update(const json::Value* live,
                  json::Value& updated,
                  const ObjectSchema& schema,
                  const WriteIdentity& identity) {
    ManagedFields entries = managers_of(live, updated, identity.subresource.empty());
    if (live != nullptr && entries.empty()) {
        // Nobody tracks this object; the first apply will.
        updated["metadata"].erase("managedFields");
        return;
    }
    const json::Value nothing = json::object();
    const Comparison change = compare(live == nullptr ? nothing : *live, updated, schema);
    ManagedEntry* own = find_entry(entries, identity, false);
    // `own` is not spared from what it removed, nor do others keep what it changed.
    take_from_others(entries, own, change);
    FieldSet mine = change.added;
    mine.add(change.modified);
    strip_unowned(mine);
    if (own != nullptr) {
        own->set = own->set.difference(change.removed);
    }
    if (!mine.empty()) {
        if (own == nullptr) {
            entries.push_back(
                {identity.manager, false, identity.api_version, identity.subresource, {}, {}});
            own = &entries.back();
        }
        own->set.add(mine);
        own->time = identity.time;
    }
    cap_update_managers(entries);
    encode_managed_fields(std::move(entries), updated);
    keep_old_if_only_times_differ(live, updated);
}

Answer<json::Value> apply_config(const json::Value* live,
                                 const json::Value& config,
                                 const ObjectSchema& schema,
                                 const WriteIdentity& identity,
                                 bool force,
                                 const FieldSet& reset) {
    auto stated = to_field_set(config, schema);
    if (!stated) {
        return refuse(
            bad_request("failed to create typed patch object: " + stated.error().message));
    }
    FieldSet set = std::move(stated).assume_value().recursive_difference(reset);
    strip_unowned(set);

    const json::Value nothing = json::object();
    const json::Value& base = live == nullptr ? nothing : *live;
    ManagedFields entries = live == nullptr ? ManagedFields{} : decode_managed_fields(base);
    if (live != nullptr && entries.empty()) {
        // The object was written before anybody tracked it: whoever did owns all of it.
        ManagedEntry before{"before-first-apply",
                            false,
                            identity.api_version,
                            identity.subresource,
                            identity.time,
                            {}};
        before.set = compare(nothing, base, schema).added.recursive_difference(reset);
        strip_unowned(before.set);
        entries.push_back(std::move(before));
    }
    if (find_entry(entries, identity, true) == nullptr) {
        entries.push_back(
            {identity.manager, true, identity.api_version, identity.subresource, {}, {}});
    }
    ManagedEntry* own = find_entry(entries, identity, true);
    const FieldSet last = std::exchange(own->set, std::move(set));
    own->api_version = identity.api_version;

    json::Value merged = merge_typed(base, config, schema);
    if (!last.empty()) {
        FieldSet owned;
        for (const ManagedEntry& entry : entries) {
            owned.add(entry.set);
        }
        owned.insert({"f:metadata"});  // holds the name, which everybody states and nobody owns
        merged =
            remove_fields(merged, last.with_parents().difference(owned.with_parents()), schema);
    }
    Comparison change = compare(base, merged, schema);
    for (FieldSet* fields : {&change.added, &change.removed, &change.modified}) {
        *fields = fields->recursive_difference(reset);
    }
    FieldSet written = change.added;
    written.add(change.modified);
    std::vector<std::pair<const ManagedEntry*, FieldSet>> conflicts;
    for (const ManagedEntry& entry : entries) {
        FieldSet common = &entry == own ? FieldSet{} : entry.set.intersection(written);
        if (!common.empty()) {
            conflicts.emplace_back(&entry, std::move(common));
        }
    }
    if (!conflicts.empty() && !force) {
        return refuse(apply_conflict(conflicts));
    }
    take_from_others(entries, own, change);
    if (!(merged == base)) {  // also the order of a set, which is no change to anybody's fields
        own->time = identity.time;
    }
    encode_managed_fields(std::move(entries), merged);
    keep_old_if_only_times_differ(live, merged);
    return merged;
}

bool same_but_times(const json::Value& a, const json::Value& b) {
    const json::Value* a_meta = a.find("metadata");
    const json::Value* b_meta = b.find("metadata");
    const json::Object* a_members = a.if_object();
    const json::Object* b_members = b.if_object();
    if (a_meta == nullptr || b_meta == nullptr || !a_meta->is_object() || !b_meta->is_object() ||
        a_members->size() != b_members->size() ||
        a_meta->if_object()->size() != b_meta->if_object()->size()) {
        return false;
    }
    const auto equal_members =
        [](const json::Value& x, const json::Value& y, std::string_view skip) {
            return std::all_of(
                x.if_object()->begin(), x.if_object()->end(), [&](const json::Member& member) {
                    const json::Value* other = y.find(member.key);
                    return other != nullptr && (member.key == skip || member.value == *other);
                });
        };
    if (!equal_members(a, b, "metadata") || !equal_members(*a_meta, *b_meta, "managedFields")) {
        return false;
    }
    const json::View a_list = json::View(*a_meta)["managedFields"];
    const json::View b_list = json::View(*b_meta)["managedFields"];
    const json::Array& x = a_list.array();
    const json::Array& y = b_list.array();
    if (x.size() != y.size()) {
        return false;
    }
    const auto without_time = [](json::Value entry) {
        entry.erase("time");
        return entry;
    };
    // The times also order the entries, so compare as sets.
    return std::all_of(x.begin(), x.end(), [&](const json::Value& entry) {
        return std::any_of(y.begin(), y.end(), [&](const json::Value& other) {
            return without_time(entry) == without_time(other);
        });
    });
}

}  // namespace capstan::local
