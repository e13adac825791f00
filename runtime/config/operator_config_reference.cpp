// The reference of docs/operations.md: keys and types come from decoding itself, defaults from the
// configuration's own, only the meanings are written here. tools/gen-operations puts it in place.
#include "runtime/config/operator_config.hpp"

#include <algorithm>
#include <array>

namespace capstan::config {
namespace {

struct Meaning {
    std::string_view path;
    std::string_view text;
};

constexpr Meaning kMeanings[] = {
    {"/apiVersion", "required"},
    {"/kind", "required"},
    {"/plugins", "plugins that are loaded, by id (`etcd.capstan.dev`) or its first label (`etcd`)"},
    {"/plugins/NAME/enabled", "false: known, not loaded"},
    {"/plugins/NAME/path", "file; empty: searched in `pluginDirs`"},
    {"/plugins/NAME/featureGates", "gates of the plugin; `capstan inspect` lists them"},
    {"/plugins/NAME/controllers", "settings of a controller of the plugin"},
    {"/plugins/NAME/controllers/NAME/maxConcurrent",
     "keys reconciled at once; default: the manifest's, else 4; a key never runs twice at once"},
    {"/plugins/NAME/permissions",
     "what of its manifest's permissions the plugin may use; without the key all, empty none"},
    {"/plugins/NAME/permissions/ITEM/groups", "required"},
    {"/plugins/NAME/permissions/ITEM/resources", "required"},
    {"/plugins/NAME/permissions/ITEM/verbs", "required"},
    {"/plugins/NAME/permissions/ITEM/resourceNames", "empty: all names"},
    {"/plugins/NAME/config", "handed to the plugin, which checks it"},
    {"/pluginDirs",
     "searched in order; neither they nor the files in them may be writable by others"},
    {"/kubeconfig", "empty: the pod's service account, else `$KUBECONFIG`"},
    {"/context", "of the kubeconfig; empty: its `current-context`"},
    {"/namespaces",
     "namespaces that are watched, at most 32, each with streams of its own; empty: all"},
    {"/listeners", ""},
    {"/listeners/ops", "health, metrics and the debug page of the host"},
    {"/listeners/ops/enabled", ""},
    {"/listeners/ops/address", "`0.0.0.0` or `::` for all"},
    {"/listeners/ops/port", "0: any free one, said in the log"},
    {"/listeners/ops/tls", "none: plain HTTP"},
    {"/listeners/ops/authentication",
     "of `/metrics` and `/debug`; kubernetes: a bearer token that the API server knows and that "
     "may "
     "`get` the path"},
    {"/listeners/api", "routes of the plugins; naming it turns it on"},
    {"/listeners/api/enabled", "true when `api` is named"},
    {"/listeners/api/address", "`0.0.0.0` or `::` for all"},
    {"/listeners/api/port", "0: any free one, said in the log"},
    {"/listeners/api/tls", "none: plain HTTP"},
    {"/listeners/webhook", "admission webhooks of the plugins; naming it turns it on"},
    {"/listeners/webhook/enabled", "true when `webhook` is named"},
    {"/listeners/webhook/address", "the API server calls it"},
    {"/listeners/webhook/port", "0: any free one, said in the log"},
    {"/listeners/webhook/tls", "required"},
    {"/logging", ""},
    {"/logging/level", ""},
    {"/limits", ""},
    {"/limits/requestsInFlight", "to the API server; watches are not counted"},
    {"/limits/requestTimeout", "of a request to the API server"},
    {"/limits/reconcileTimeout", "then the call is cancelled and the key retried"},
    {"/limits/cacheSyncTimeout", "longest wait for the first lists at start"},
    {"/limits/cacheBytes",
     "what the caches may hold; above it `/readyz` fails with the largest kinds; 0: no budget"},
    {"/gracefulStop", "longest wait for running reconciles at stop; 0: none"},
    {"/leaderElection", ""},
    {"/leaderElection/enabled", "of several replicas one runs reconciles, the others stand by"},
    {"/leaderElection/leaseName", ""},
    {"/leaderElection/leaseNamespace", "empty: the pod's"},
    {"/leaderElection/identity", "shown as holder, with a random part; empty: the host's name"},
    {"/leaderElection/leaseDuration", "longer than `renewDeadline`"},
    {"/leaderElection/renewDeadline", "longer than 1.2 x `retryPeriod`"},
    {"/leaderElection/retryPeriod", ""},
};
// Of both listeners.
constexpr Meaning kTlsMeanings[] = {
    {"certificateFile", "PEM; with `keyFile`"},
    {"keyFile", "PEM; with `certificateFile`"},
    {"clientCaFile", "PEM; whose client certificates are accepted"},
    {"clientAuth", "other than none needs `clientCaFile`, `certificateFile` and `keyFile`"},
};
constexpr std::string_view kTls = "/tls/";

const Meaning* meaning_of(std::string_view path) {
    const auto find = [](const auto& list, std::string_view wanted) {
        const auto found = std::find_if(
            std::begin(list), std::end(list), [&](const Meaning& m) { return m.path == wanted; });
        return found == std::end(list) ? nullptr : &*found;
    };
    const std::size_t tls = path.find(kTls);
    return tls == std::string_view::npos ? find(kMeanings, path)
                                         : find(kTlsMeanings, path.substr(tls + kTls.size()));
}

// "/plugins/NAME/path" -> "plugins.NAME.path"
std::string dotted(std::string path) {
    path.erase(0, 1);
    std::replace(path.begin(), path.end(), '/', '.');
    return path;
}

}  // namespace

std::string operator_config_reference() {
    OperatorConfig usual;
    usual.plugins["NAME"].controllers["NAME"] = {};
    const json::Value defaults = to_json(usual);
    std::string out = "| key | type | default | meaning |\n|---|---|---|---|\n";
    for (const FieldShape& field : operator_config_fields()) {
        const Meaning* meaning = meaning_of(field.path);
        CAPSTAN_CHECK(meaning != nullptr, field.path + " has no meaning in the reference");
        const json::Value* found = defaults.pointer(field.path);
        const bool shown = found != nullptr && !field.type.starts_with("object");
        const std::string* text = shown ? found->if_string() : nullptr;
        const std::string value =
            !shown ? ""
                   : "`" + (text != nullptr && !text->empty() ? *text : json::dump(*found)) + "`";
        out += "| `" + dotted(field.path) + "` | " + field.type + " | " + value + " | " +
               std::string(meaning->text) + " |\n";
    }
    return out;
}

}  // namespace capstan::config
