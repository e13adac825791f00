// The objects that tell an API server to ask the webhooks of plugins. Pure.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "runtime/plugin/manifest.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace capstan::cli {

// Where the API server finds the listener: a Service, or a URL.
struct WebhookTarget {
    std::string service, ns;
    std::uint16_t port{443};  // of the Service
    std::string url;          // "https://127.0.0.1:9443"; then no service
    std::string ca_pem;       // signs the listener's certificate
};

// Errors of both: invalid; names the option and the remedy.
Result<void> check_target(const WebhookTarget& target);
// A name that an object may have: a DNS-1123 subdomain.
Result<void> check_object_name(const std::string& option, const std::string& name);

// A List with a MutatingWebhookConfiguration and a ValidatingWebhookConfiguration `name`, each only
// when some plugin has such a webhook. A webhook is called "<name>.<plugin id>".
json::Value webhook_configurations(const std::string& name,
                                   const WebhookTarget& target,
                                   const std::vector<plugin::Manifest>& manifests);

}  // namespace capstan::cli
