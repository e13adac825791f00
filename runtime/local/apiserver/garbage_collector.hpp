// What happens by itself after a write: owners' children go, namespaces and CRDs empty themselves.
//
// note() remembers what a committed change may have orphaned, run() acts on it, in a bounded
// number of deletes per call. Source: Kubernetes "Garbage Collection"; the owner is looked up by
// uid. Thread: the server's.
#pragma once

#include "runtime/local/apiserver/store.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace capstan::local {

inline constexpr std::size_t kCollectedMax = 200;  // objects per run()

// How the collector changes the world; each call is one transaction of the server.
struct CollectorActions {
    std::function<void(const ObjectAddress&)> remove;                       // background delete
    std::function<void(const ObjectAddress&, json::Value updated)> update;  // no change of spec
};

class GarbageCollector {
public:
    explicit GarbageCollector(const Store& store) : store_(store) {}

    void note(const Change& change);
    void note_all();  // [startup] everything may be an orphan
    bool idle() const noexcept { return queue_.empty(); }
    void run(const CollectorActions& actions);

private:
    void enqueue(const ObjectAddress& at);
    void visit(const ObjectAddress& at, const CollectorActions& actions);
    void visit_owners(const ObjectAddress& at,
                      const StoredPtr& object,
                      const CollectorActions& actions);
    void visit_deleted(const ObjectAddress& at,
                       const StoredPtr& object,
                       const CollectorActions& actions);
    void empty_namespace(const ObjectAddress& at,
                         const StoredPtr& object,
                         const CollectorActions& actions);
    void empty_crd(const ObjectAddress& at,
                   const StoredPtr& object,
                   const CollectorActions& actions);

    const Store& store_;
    std::deque<ObjectAddress> queue_;
    std::set<std::pair<std::string, std::string>> queued_;
};

}  // namespace capstan::local
