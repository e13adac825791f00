// Calls to the embedded API server inside its own process, as system:masters. Thread: [io].
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"

#include <string>
#include <vector>

namespace capstan::local {
class ApiServer;
}

namespace capstan::cli {

class LocalClient {
public:
    // borrowed; outlives *this
    explicit LocalClient(local::ApiServer& server) noexcept : server_(server) {}

    // Errors of all: as the server's Status says (code, message); not_found also for a
    // kind that is not served.
    Result<json::Value> get(const GroupVersionKind& gvk, const ObjectKey& key);
    Result<std::vector<json::Value>> list(const GroupVersionKind& gvk, const std::string& ns);
    // The rows kubectl would show, header first. `wide`: all columns.
    Result<std::vector<std::vector<std::string>>> table(const GroupVersionKind& gvk,
                                                        const std::string& ns,
                                                        bool wide);
    // Server-side apply with force under the field manager "capstan-up". A namespaced object
    // without a namespace goes to "default". Gives the stored object.
    Result<json::Value> apply(json::Value object);

private:
    Result<std::string> path(const GroupVersionKind& gvk,
                             const std::string& ns,
                             const std::string& name);
    Result<json::Value> send(const char* method,
                             const std::string& target,
                             const char* accept,
                             std::string body);
    local::ApiServer& server_;
};

}  // namespace capstan::cli
