// Carries out what stateful_set, job and the claim rules decide. Level-triggered: sync() looks at
// everything. Owner: the node. Thread: [io].
#pragma once

#include "runtime/local/node/mirror.hpp"
#include "runtime/local/node/node.hpp"
#include "runtime/local/node/stateful_set.hpp"

#include <functional>
#include <memory>
#include <set>
#include <string>

namespace capstan::local {

class Controllers {
public:
    // `again`: something failed or is due later; sync() is wanted.
    Controllers(net::Loop& loop,
                NodeApi& api,
                Mirror& mirror,
                const NodeOptions& options,
                std::function<void()> again);
    void sync();
    // The claim is gone: its directory goes as soon as no pod of that claim is left.
    void claim_deleted(const json::Value& claim);

private:
    void sync_set(const json::Value& set);
    // Pods that nobody controls and that the set would make: of its name and its labels.
    void adopt_pods(const json::Value& set);
    void sync_job(const json::Value& job);
    void sync_claim(const json::Value& claim);
    void drop_claim_dirs();
    void create(const GroupVersionKind& kind, json::Value object);
    void remove(const GroupVersionKind& kind, const std::string& ns, const PodRemoval& removal);
    // `status`: desired; fields of the present status that it lacks are removed.
    void write_status(const GroupVersionKind& kind,
                      const json::Value& object,
                      const json::Value& status);
    void failed(std::string_view what, const ObjectKey& key, const Error& error);
    void wake_at(MonotonicTime when);

    net::Loop& loop_;
    NodeApi& api_;
    Mirror& mirror_;
    const NodeOptions& options_;
    const std::function<void()> again_;
    struct DroppedClaim {
        ObjectKey key;
        std::string dir;
        auto operator<=>(const DroppedClaim&) const = default;
    };
    std::set<DroppedClaim> dropped_;
    std::unique_ptr<net::Timer> timer_;
    MonotonicTime timer_at_{kNever};
};

}  // namespace capstan::local
