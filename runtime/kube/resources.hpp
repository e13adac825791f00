// Which URL a kind lives at. Discovery per group-version, on demand, one fetch in flight per
// group-version.
//
// Found kinds stay until forget(); missing ones are asked again after kMissingTtl. Thread: [io].
#pragma once

#include "capstan/error.hpp"
#include "capstan/object_ref.hpp"
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
    // Sends a GET and gives the body of a 200; the client provides it.
    using Fetch =
        std::function<void(std::string target, std::function<void(Result<std::string>)> done)>;
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
