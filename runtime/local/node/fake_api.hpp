// An API server for the tests of the node.
//
// Its lies: one resource version counter, no validation, no defaults, no owner garbage collection,
// generateName counts up, a pod is deleted at once only with grace 0, everything else at once.
#pragma once

#include "runtime/local/node/node_api.hpp"
#include "runtime/local/node/objects.hpp"
#include "runtime/net/loop.hpp"

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace capstan::local::testing {

inline void apply_merge_patch(json::Value& target, const json::Value& patch) {
    if (!patch.is_object()) {
        target = patch;
        return;
    }
    if (!target.is_object()) {
        target = json::object();
    }
    for (const auto& [key, value] : *patch.if_object()) {
        if (value.is_null()) {
            target.erase(key);
        } else {
            apply_merge_patch(target[key], value);
        }
    }
}

class FakeApi final : public NodeApi {
public:
    explicit FakeApi(net::Loop& loop) : loop_(loop) {}

    Result<json::Value> get(const GroupVersionKind& kind, const ObjectKey& key) override {
        const auto it = objects_[kind].find(key);
        if (it == objects_[kind].end()) {
            return fail(Code::not_found, kind.kind + " " + key.to_string() + ": not found");
        }
        return it->second;
    }
    Result<json::Value> create(const GroupVersionKind& kind, json::Value object) override {
        auto& meta = object["metadata"];
        if (meta.find("name") == nullptr) {
            meta.set("name",
                     std::string(json::View(meta)["generateName"].string_or("")) +
                         std::to_string(++counter_));
        }
        const auto key = key_of(object);
        if (objects_[kind].contains(key)) {
            return fail(Code::exists, key.to_string() + ": exists");
        }
        meta.set("uid", "uid-" + std::to_string(++counter_) + "-" + unique);
        meta.set("creationTimestamp", to_rfc3339(loop_.wall_now()));
        store(kind, key, object, NodeChangeType::added);
        ++creates;
        return object;
    }
    Result<json::Value> patch(const GroupVersionKind& kind,
                              const ObjectKey& key,
                              json::Value patch) override {
        CAPSTAN_TRY(auto object, get(kind, key));
        const auto uid = json::View(patch)["metadata"]["uid"].string_or("");
        if (!uid.empty() && uid != uid_of(object)) {
            return fail(Code::conflict, "uid differs");
        }
        apply_merge_patch(object, patch);
        store(kind, key, object, NodeChangeType::modified);
        ++patches;
        return object;
    }
    Result<json::Value> patch_status(const GroupVersionKind& kind,
                                     const ObjectKey& key,
                                     json::Value value) override {
        return patch(kind, key, std::move(value));
    }
    Result<void> remove(const GroupVersionKind& kind,
                        const ObjectKey& key,
                        const RemoveOptions& options) override {
        CAPSTAN_TRY(auto object, get(kind, key));
        if (!options.uid.empty() && options.uid != uid_of(object)) {
            return fail(Code::conflict, "uid differs");
        }
        if (kind == kPodKind && options.grace_seconds != 0) {
            if (!is_deleting(object)) {
                object["metadata"].set("deletionTimestamp", to_rfc3339(loop_.wall_now()));
                store(kind, key, object, NodeChangeType::modified);
            }
            return ok();
        }
        objects_[kind].erase(key);
        notify(kind, {NodeChangeType::deleted, object});
        return ok();
    }
    std::unique_ptr<NodeWatch> watch(const GroupVersionKind& kind,
                                     std::function<void(const NodeChange&)> handler) override {
        auto shared = std::make_shared<std::function<void(const NodeChange&)>>(std::move(handler));
        watches_.emplace_back(kind, shared);
        for (const auto& [key, object] : objects_[kind]) {
            post(shared, {NodeChangeType::added, object});
        }
        class Handle final : public NodeWatch {
        public:
            explicit Handle(std::shared_ptr<std::function<void(const NodeChange&)>> h)
                : handler_(std::move(h)) {}

        private:
            std::shared_ptr<std::function<void(const NodeChange&)>> handler_;
        };
        return std::make_unique<Handle>(std::move(shared));
    }

    // The watches of a kind fall behind: they see nothing but what see_next() shows them.
    void fall_behind(const GroupVersionKind& kind) { behind_ = kind; }
    bool see_next() {  // false: nothing is left
        if (unseen_.empty()) {
            return false;
        }
        const NodeChange change = std::move(unseen_.front());
        unseen_.erase(unseen_.begin());
        const auto kind = *std::exchange(behind_, std::nullopt);
        notify(kind, change);
        behind_ = kind;
        return true;
    }

    std::size_t count(const GroupVersionKind& kind) { return objects_[kind].size(); }

    std::string unique{"x"};  // part of every uid
    int creates{0};
    int patches{0};

private:
    using Handler = std::function<void(const NodeChange&)>;
    void store(const GroupVersionKind& kind,
               const ObjectKey& key,
               json::Value& object,
               NodeChangeType type) {
        object["metadata"].set("resourceVersion", std::to_string(++counter_));
        objects_[kind].insert_or_assign(key, object);
        notify(kind, {type, object});
    }
    void notify(const GroupVersionKind& kind, const NodeChange& change) {
        if (kind == behind_) {
            unseen_.push_back(change);
            return;
        }
        for (const auto& [watched, handler] : watches_) {
            if (auto shared = handler.lock(); shared && watched == kind) {
                post(shared, change);
            }
        }
    }
    void post(const std::shared_ptr<Handler>& handler, NodeChange change) {
        loop_.post([weak = std::weak_ptr<Handler>(handler), change = std::move(change)] {
            if (const auto shared = weak.lock()) {
                (*shared)(change);
            }
        });
    }

    net::Loop& loop_;
    std::map<GroupVersionKind, std::map<ObjectKey, json::Value>> objects_;
    std::vector<std::pair<GroupVersionKind, std::weak_ptr<Handler>>> watches_;
    int counter_{0};
    std::optional<GroupVersionKind> behind_;
    std::vector<NodeChange> unseen_;
};

}  // namespace capstan::local::testing
