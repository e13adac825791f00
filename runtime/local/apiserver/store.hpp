// The objects: immutable values by resource and key, one version counter, and transactions.
//
// A transaction is one API call's writes. commit() hands them to the journal first; when
// that fails everything is as before. Readers between begin and commit see the new
// state. Thread: the server's.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace capstan::local {

// One object at one version. `text` is its compact JSON and starts with apiVersion and kind; `body`
// is where the rest begins, so another served version costs a copy and no parsing.
struct Stored {
    json::Value value;
    std::string text;
    std::size_t body{0};
    std::uint64_t revision{0};

    std::string_view rest() const noexcept { return std::string_view(text).substr(body); }
};
// shared: history, indexes and readers keep old versions alive
using StoredPtr = std::shared_ptr<const Stored>;

// Orders members apiVersion, kind, metadata first and serialises.
StoredPtr make_stored(json::Value value, std::uint64_t revision);

// One write. `after` of a delete is null; `tombstone` is then the last state with the
// version of the deletion.
struct Change {
    std::string resource;  // storage id: "apps/statefulsets", "pods"
    std::string key;       // "ns/name" or "name"
    StoredPtr before;
    StoredPtr after;
    StoredPtr tombstone;
    std::uint64_t revision{0};
};

// Where an object is; used by the owner index.
struct ObjectAddress {
    std::string resource;
    std::string key;
    bool operator==(const ObjectAddress&) const = default;
};

class Store {
public:
    using Objects = std::map<std::string, StoredPtr, std::less<>>;

    // Writes `changes` durably, or leaves things as they were and says why.
    using Journal = std::function<Result<void>(const std::vector<Change>& changes)>;
    void set_journal(Journal journal) { journal_ = std::move(journal); }

    StoredPtr find(std::string_view resource, std::string_view key) const;
    const Objects& objects(std::string_view resource) const;
    std::vector<std::string> resources() const;
    std::uint64_t revision() const noexcept { return revision_; }
    // of all objects: what a snapshot would hold
    std::size_t text_bytes() const noexcept { return text_bytes_; }

    void begin();  // requires: no transaction
    // Stores `value` under the next version, which becomes its
    // metadata.resourceVersion. [in a transaction]
    StoredPtr put(std::string_view resource, std::string_view key, json::Value value);
    void erase(std::string_view resource, std::string_view key);  // requires: present
    // Errors: the journal's; the transaction is undone then.
    Result<std::vector<Change>> commit();
    void rollback();

    // Start-up only: replays without journal or version rules.
    void restore(std::string_view resource,
                 std::string_view key,
                 json::Value value,
                 std::uint64_t revision);
    void restore_erase(std::string_view resource, std::string_view key, std::uint64_t revision);
    void restore_revision(std::uint64_t revision);

    // Owner index.
    const ObjectAddress* by_uid(std::string_view uid) const;
    const std::vector<ObjectAddress>& dependents(std::string_view owner_uid) const;

private:
    void apply(const std::string& resource,
               const std::string& key,
               const StoredPtr& before,
               const StoredPtr& after);
    void index(const ObjectAddress& at, const Stored& object, bool add);

    Journal journal_;
    std::map<std::string, Objects, std::less<>> by_resource_;
    std::unordered_map<std::string, ObjectAddress> uids_;
    std::unordered_map<std::string, std::vector<ObjectAddress>> dependents_;
    std::uint64_t revision_{1};
    std::uint64_t revision_before_{0};
    std::size_t text_bytes_{0};
    bool open_{false};
    std::vector<Change> changes_;
};

std::string object_key(std::string_view ns, std::string_view name);

}  // namespace capstan::local
