// Which URL a kind lives at, by discovery on demand.
//
// First the aggregated document (apidiscovery.k8s.io) of the core group or of all others, of which
// only what somebody waits for is kept; then, and with servers that do not have it, one document
// per group and version, one fetch of each in flight. Found kinds stay until forget(); missing ones
// are asked for again after kMissingTtl, up to kMissingTtlMax when they stay away. Thread: [io].
#pragma once

#include "capstan/error.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/net/http.hpp"
#include "runtime/net/loop.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::kube {

inline constexpr std::chrono::seconds kMissingTtl{5};
inline constexpr std::chrono::seconds kMissingTtlMax{30};
inline constexpr std::size_t kDiscoveryBytesMax = 64u * 1024 * 1024;  // of the aggregated document
inline constexpr std::size_t kGroupVersionsMax = 512;

struct Resource {
    GroupVersionKind gvk;
    std::string plural;
    bool namespaced{true};
    std::vector<std::string> verbs;         // as listed by the server
    std::vector<std::string> subresources;  // "status", "scale"

    std::string group_resource() const;  // "leases.coordination.k8s.io", "pods"
};

// "/apis/apps/v1/namespaces/x/statefulsets/y/status". `name` empty: the collection; `ns` empty with
// a namespaced kind: all namespaces. Errors: invalid (a segment that is ".", "..", or holds "/" or
// "%"; a namespace for a cluster-scoped kind; a name without namespace for a namespaced one).
Result<std::string> object_path(const Resource& resource,
                                std::string_view ns,
                                std::string_view name,
                                std::string_view subresource = {});

class Resources {
public:
    // Sends a GET and gives a 200, or the error; the client provides it. `accept` empty: JSON.
    using Fetched = std::function<void(Result<net::HttpResponse>)>;
    using Fetch = std::function<void(std::string target, std::string accept, Fetched done)>;
    using Done = std::function<void(Result<Resource>)>;

    Resources(net::Loop& loop, Fetch fetch);
    ~Resources();
    Resources(const Resources&) = delete;
    Resources& operator=(const Resources&) = delete;

    // Never calls `done` inside the call. Errors: not_found ("kind Etcd is not served in
    // druid.gardener.cloud/v1alpha1"), or the error of the discovery request.
    void resolve(const GroupVersionKind& gvk, Done done);
    void forget(const GroupVersionKind& gvk);  // after a 404 of a resource call

private:
    struct State;
    std::shared_ptr<State> state_;  // shared with callbacks in flight
};

}  // namespace capstan::kube
