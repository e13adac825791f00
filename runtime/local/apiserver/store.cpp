#include "runtime/local/apiserver/store.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

const Store::Objects kNoObjects;
const std::vector<ObjectAddress> kNoAddresses;

std::string_view uid_of(const json::Value& object) {
    return json::View(object)["metadata"]["uid"].string_or("");
}

void move_to_front(json::Object& members, std::string_view key, std::size_t& front) {
    for (std::size_t i = front; i < members.size(); ++i) {
        if (members[i].key == key) {
            std::rotate(members.begin() + static_cast<std::ptrdiff_t>(front),
                        members.begin() + static_cast<std::ptrdiff_t>(i),
                        members.begin() + static_cast<std::ptrdiff_t>(i) + 1);
            ++front;
            return;
        }
    }
}

}  // namespace

std::string object_key(std::string_view ns, std::string_view name) {
    std::string key(ns);
    if (!key.empty()) {
        key += '/';
    }
    key += name;
    return key;
}

StoredPtr make_stored(json::Value value, std::uint64_t revision) {
    auto stored = std::make_shared<Stored>();
    json::Object& members = *value.if_object();
    std::size_t front = 0;
    move_to_front(members, "apiVersion", front);
    move_to_front(members, "kind", front);
    move_to_front(members, "metadata", front);
    stored->revision = revision;
    stored->text = json::dump(value);
    if (members.size() >= 2) {
        // {"apiVersion":…,"kind":…, : both values are plain text, so their length in the
        // dump is that of the dump.
        stored->body = std::string_view(R"({"apiVersion":,"kind":,)").size() +
                       json::dump(members[0].value).size() + json::dump(members[1].value).size();
        stored->body = std::min(stored->body, stored->text.size());
    }
    stored->value = std::move(value);
    return stored;
}

StoredPtr Store::find(std::string_view resource, std::string_view key) const {
    const Objects& all = objects(resource);
    const auto found = all.find(key);
    return found == all.end() ? nullptr : found->second;
}

const Store::Objects& Store::objects(std::string_view resource) const {
    const auto found = by_resource_.find(resource);
    return found == by_resource_.end() ? kNoObjects : found->second;
}

std::vector<std::string> Store::resources() const {
    std::vector<std::string> names;
    for (const auto& [name, objects] : by_resource_) {
        if (!objects.empty()) {
            names.push_back(name);
        }
    }
    return names;
}

void Store::begin() {
    CAPSTAN_CHECK(!open_, "transaction inside a transaction");
    open_ = true;
    revision_before_ = revision_;
    changes_.clear();
}

StoredPtr Store::put(std::string_view resource, std::string_view key, json::Value value) {
    CAPSTAN_CHECK(open_, "put outside a transaction");
    ++revision_;
    value["metadata"].set("resourceVersion", std::to_string(revision_));
    StoredPtr after = make_stored(std::move(value), revision_);
    Change change{
        std::string(resource), std::string(key), find(resource, key), after, nullptr, revision_};
    apply(change.resource, change.key, change.before, after);
    changes_.push_back(std::move(change));
    return after;
}

void Store::erase(std::string_view resource, std::string_view key) {
    CAPSTAN_CHECK(open_, "erase outside a transaction");
    StoredPtr before = find(resource, key);
    CAPSTAN_CHECK(before != nullptr, std::string(key));
    ++revision_;
    json::Value last = before->value;
    last["metadata"].set("resourceVersion", std::to_string(revision_));
    Change change{std::string(resource),
                  std::string(key),
                  before,
                  nullptr,
                  make_stored(std::move(last), revision_),
                  revision_};
    apply(change.resource, change.key, before, nullptr);
    changes_.push_back(std::move(change));
}

Result<std::vector<Change>> Store::commit() {
    CAPSTAN_CHECK(open_, "commit outside a transaction");
    if (journal_ && !changes_.empty()) {
        if (auto written = journal_(changes_); !written) {
            Error error = std::move(written).assume_error();
            rollback();
            return fail(std::move(error));
        }
    }
    open_ = false;
    return std::exchange(changes_, {});
}

void Store::rollback() {
    CAPSTAN_CHECK(open_, "rollback outside a transaction");
    for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
        apply(change->resource, change->key, change->after, change->before);
    }
    changes_.clear();
    revision_ = revision_before_;
    open_ = false;
}

void Store::restore(std::string_view resource,
                    std::string_view key,
                    json::Value value,
                    std::uint64_t revision) {
    apply(std::string(resource),
          std::string(key),
          find(resource, key),
          make_stored(std::move(value), revision));
    restore_revision(revision);
}

void Store::restore_erase(std::string_view resource, std::string_view key, std::uint64_t revision) {
    if (const StoredPtr before = find(resource, key)) {
        apply(std::string(resource), std::string(key), before, nullptr);
    }
    restore_revision(revision);
}

void Store::restore_revision(std::uint64_t revision) {
    revision_ = std::max(revision_, revision);
}

const ObjectAddress* Store::by_uid(std::string_view uid) const {
    const auto found = uids_.find(std::string(uid));
    return found == uids_.end() ? nullptr : &found->second;
}

const std::vector<ObjectAddress>& Store::dependents(std::string_view owner_uid) const {
    const auto found = dependents_.find(std::string(owner_uid));
    return found == dependents_.end() ? kNoAddresses : found->second;
}

void Store::apply(const std::string& resource,
                  const std::string& key,
                  const StoredPtr& before,
                  const StoredPtr& after) {
    const ObjectAddress at{resource, key};
    if (before) {
        index(at, *before, false);
        text_bytes_ -= before->text.size();
    }
    if (after) {
        index(at, *after, true);
        text_bytes_ += after->text.size();
        by_resource_[resource][key] = after;
    } else {
        by_resource_[resource].erase(key);
    }
}

void Store::index(const ObjectAddress& at, const Stored& object, bool add) {
    const std::string uid(uid_of(object.value));
    if (add) {
        uids_[uid] = at;
    } else {
        uids_.erase(uid);
    }
    const json::View references = json::View(object.value)["metadata"]["ownerReferences"];
    for (const json::Value& reference : references.array()) {
        const std::string owner{json::View(reference)["uid"].string_or("")};
        if (add) {
            dependents_[owner].push_back(at);
            continue;
        }
        const auto found = dependents_.find(owner);
        if (found == dependents_.end()) {
            continue;
        }
        std::erase(found->second, at);
        if (found->second.empty()) {
            dependents_.erase(found);
        }
    }
}

}  // namespace capstan::local
