// Calls to the embedded API server inside its own process, as system:masters. Thread: [io].
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"

#include <string>
#include <utility>
#include <vector>

namespace capstan::local {
class ApiServer;
}

namespace capstan::cli {

struct LocalClientOptions {
    std::string manager{"capstan-up"};  // field manager of what is applied
    std::string ns{"default"};          // of namespaced objects that name none
    bool strict{false};                 // fields the kind does not know are refused
};

class LocalClient {
public:
    // borrowed; outlives *this
    explicit LocalClient(local::ApiServer& server, LocalClientOptions options = {})
        : server_(server), options_(std::move(options)) {}

    // Errors of all: as the server's Status says (code, message); not_found also for a
    // kind that is not served.
    Result<json::Value> get(const GroupVersionKind& gvk, const ObjectKey& key);
    Result<std::vector<json::Value>> list(const GroupVersionKind& gvk, const std::string& ns);
    // The rows kubectl would show, header first. `wide`: all columns.
    Result<std::vector<std::vector<std::string>>> table(const GroupVersionKind& gvk,
                                                        const std::string& ns,
                                                        bool wide);
    // Server-side apply with force. Gives the stored object. `subresource`: "status", or none.
    Result<json::Value> apply(const json::Value& object, const std::string& subresource = {});

private:
    Result<std::string> path(const GroupVersionKind& gvk,
                             const std::string& ns,
                             const std::string& name);
    Result<json::Value> send(const char* method,
                             const std::string& target,
                             const char* accept,
                             std::string body);
    local::ApiServer& server_;
    const LocalClientOptions options_;
};

// Applies every object of the *.yaml files in `directory`/crds. Errors: not_found, there is none;
// of the server, with the file.
Result<void> install_crds(LocalClient& client, const std::string& directory);

}  // namespace capstan::cli
