// What the node needs from an API server, and nothing more.
//
// The node shares its process and its loop thread with the embedded API server, so calls are
// plain functions. One implementation sits on local::ApiServer, another is the fake of the
// tests. Thread: all [io].
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace capstan::local {

enum class NodeChangeType : std::uint8_t { added, modified, deleted };

struct NodeChange {
    NodeChangeType type{NodeChangeType::added};
    json::Value object;  // deleted: the last state
};

// Ends the subscription when destroyed.
class NodeWatch {
public:
    virtual ~NodeWatch() = default;
};

struct RemoveOptions {
    std::string uid;                 // precondition; empty: none
    std::int64_t grace_seconds{-1};  // -1: the object's own; 0: at once
};

class NodeApi {
public:
    virtual ~NodeApi() = default;
    // Errors, for all: not_found, conflict, exists, invalid, as the server answers them.
    virtual Result<json::Value> get(const GroupVersionKind& kind, const ObjectKey& key) = 0;
    virtual Result<json::Value> create(const GroupVersionKind& kind, json::Value object) = 0;
    // JSON merge patch (RFC 7386); `metadata.uid` in the patch is a precondition.
    virtual Result<json::Value> patch(const GroupVersionKind& kind,
                                      const ObjectKey& key,
                                      json::Value patch) = 0;
    virtual Result<json::Value> patch_status(const GroupVersionKind& kind,
                                             const ObjectKey& key,
                                             json::Value patch) = 0;
    virtual Result<void> remove(const GroupVersionKind& kind,
                                const ObjectKey& key,
                                const RemoveOptions& options) = 0;
    // Every object of the kind in all namespaces: first the present ones as `added`, then each
    // change in order. The handler never runs inside a call of this interface.
    [[nodiscard]] virtual std::unique_ptr<NodeWatch> watch(
        const GroupVersionKind& kind, std::function<void(const NodeChange&)> handler) = 0;
};

}  // namespace capstan::local
