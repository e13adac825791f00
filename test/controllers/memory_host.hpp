// A plugin host without a runtime: the C ABI over objects in memory, for
// tests of whole controllers.
//
// What it does as the real ones do: server-side apply by manager (dropped fields go away, keyed
// lists merge), uid, resourceVersion, generation, finalizers, JSON patch with tests, preconditions
// on delete, an apply that would change nothing is not sent. Its lies: the cache is never stale; no
// schemas, defaults, RBAC, conflicts between managers, owner collection or events of its own; only
// the lists named in memory_store.cpp merge by key.
// Thread: one.
#pragma once

#include "capstan/capstan.h"
#include "capstan/plugin.hpp"
#include "test/controllers/memory_store.hpp"

#include <set>
#include <string>
#include <vector>

namespace capstan::test {

struct Pass {
    capstan_rc rc{CAPSTAN_OK};
    std::int32_t retry{CAPSTAN_RETRY_NONE};
    std::chrono::nanoseconds after{0};
    std::string message;
};

class MemoryHost {
public:
    // `plugin`: from capstan_plugin_entry(host()), after set_plugin(). `manager`: the
    // manifest's fieldManager.
    explicit MemoryHost(std::string manager);
    ~MemoryHost();
    MemoryHost(const MemoryHost&) = delete;
    MemoryHost& operator=(const MemoryHost&) = delete;

    // Creates an instance; false: refused.
    bool load(const capstan_plugin* (*entry)(const capstan_host*), const json::Value& config);
    Pass reconcile(std::string_view controller, const GroupVersionKind& gvk, const ObjectKey& key);

    MemoryStore store;
    WallTime now{};
    std::set<std::string> gates;      // those that are on
    std::vector<std::string> sent;    // "apply v1/Service shop/main-client", in order
    std::vector<std::string> events;  // reasons
    int calls{0};                     // host calls so far that can fail
    int fail_at{-1};                  // the call with this number fails
    capstan_rc fail_rc{CAPSTAN_E_UNAVAIL};
    bool fail_after{false};  // it fails after it took effect

    struct Tables;  // internal

private:
    friend struct Tables;
    capstan_host host_{};
    const std::string manager_;
    const capstan_plugin* plugin_{nullptr};
    capstan_ctl* ctl_{nullptr};
    Pass pass_;
    std::string last_error_;
    std::map<std::string, std::string> applied_;  // last intent by id
};

}  // namespace capstan::test
