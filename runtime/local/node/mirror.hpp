// The node's own picture of the API: the objects of a few kinds, kept by watches.
//
// What a call of ours returned is put in at once, so that a decision is not taken twice while its
// event is under way. Owner: the node. Thread: [io].
#pragma once

#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/local/node/node_api.hpp"

#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace capstan::local {

class Mirror {
public:
    // `on_change` runs inside the watch's handler, for each change, after it was taken over; `old`
    // and `now` may be nullptr (added, deleted).
    using OnChange = std::function<void(
        const GroupVersionKind& kind, const json::Value* old, const json::Value* now)>;
    Mirror(NodeApi& api, OnChange on_change) : api_(api), on_change_(std::move(on_change)) {}

    void watch(const GroupVersionKind& kind);
    void put(const GroupVersionKind& kind, json::Value object);
    const std::map<ObjectKey, json::Value>& all(const GroupVersionKind& kind) const;
    const json::Value* find(const GroupVersionKind& kind, const ObjectKey& key) const;
    // Objects whose controller has this uid.
    std::vector<const json::Value*> controlled_by(const GroupVersionKind& kind,
                                                  const std::string& uid) const;

private:
    void take(const GroupVersionKind& kind, const NodeChange& change);

    NodeApi& api_;
    const OnChange on_change_;
    std::map<GroupVersionKind, std::map<ObjectKey, json::Value>> objects_;
    std::vector<std::unique_ptr<NodeWatch>> watches_;
};

}  // namespace capstan::local
