#include "runtime/cli/local_client.hpp"

#include "runtime/cli/paths.hpp"
#include "runtime/cli/text_table.hpp"
#include "runtime/config/yaml.hpp"
#include "runtime/kube/status.hpp"
#include "runtime/local/apiserver/api_server.hpp"
#include "runtime/local/apiserver/rbac.hpp"
#include "runtime/net/url.hpp"

namespace capstan::cli {
namespace {

constexpr const char* kJson = "application/json";
constexpr const char* kTable = "application/json;as=Table;v=v1;g=meta.k8s.io";

}  // namespace

Result<json::Value> LocalClient::send(const char* method,
                                      const std::string& target,
                                      const char* accept,
                                      std::string body) {
    local::ApiRequest request;
    request.method = method;
    request.target = target;
    request.content_type = body.empty() ? "" : "application/apply-patch+yaml";
    request.accept = accept;
    request.body = std::move(body);
    request.user_agent = options_.manager;
    request.user = {"capstan-admin",
                    {std::string(local::kGroupMasters), std::string(local::kGroupAuthenticated)}};
    const local::ApiResponse response = server_.handle(request);
    auto parsed = json::parse(response.body);
    if (response.status >= 200 && response.status < 300) {
        return parsed;
    }
    const std::string message(parsed ? json::View(parsed.value())["message"].string_or("no message")
                                     : "no message");
    Error error = kube::error_of_response(response.status, {}, response.body, false);
    error.message = message;  // unquoted: it is our own server
    return fail(std::move(error));
}

Result<std::string> LocalClient::path(const GroupVersionKind& gvk,
                                      const std::string& ns,
                                      const std::string& name) {
    const std::string base = (gvk.group.empty() ? "/api/" : "/apis/") + gvk.api_version();
    CAPSTAN_TRY(const json::Value resources, send("GET", base, kJson, {}));
    const json::View list = json::View(resources)["resources"];
    for (std::size_t i = 0; i < list.array().size(); ++i) {
        const std::string_view plural = list[i]["name"].string_or("");
        if (list[i]["kind"].string_or("") != gvk.kind ||
            plural.find('/') != std::string_view::npos) {
            continue;
        }
        const bool namespaced = list[i]["namespaced"].bool_or(true);
        return base + (namespaced && !ns.empty() ? "/namespaces/" + net::encode_segment(ns) : "") +
               "/" + std::string(plural) + (name.empty() ? "" : "/" + net::encode_segment(name));
    }
    return fail(Code::not_found, "kind " + gvk.kind + " is not served in " + gvk.api_version());
}

Result<json::Value> LocalClient::get(const GroupVersionKind& gvk, const ObjectKey& key) {
    CAPSTAN_TRY(const std::string target, path(gvk, key.ns, key.name));
    return send("GET", target, kJson, {});
}

Result<std::vector<json::Value>> LocalClient::list(const GroupVersionKind& gvk,
                                                   const std::string& ns) {
    CAPSTAN_TRY(const std::string target, path(gvk, ns, {}));
    CAPSTAN_TRY(json::Value answer, send("GET", target, kJson, {}));
    json::Value* items = answer.find("items");
    return items == nullptr || items->if_array() == nullptr ? std::vector<json::Value>()
                                                            : std::move(*items->if_array());
}

Result<std::vector<std::vector<std::string>>> LocalClient::table(const GroupVersionKind& gvk,
                                                                 const std::string& ns,
                                                                 bool wide) {
    CAPSTAN_TRY(const std::string target, path(gvk, ns, {}));
    CAPSTAN_TRY(const json::Value answer, send("GET", target, kTable, {}));
    return table_rows(answer, wide, false);
}

Result<json::Value> LocalClient::apply(const json::Value& object, const std::string& subresource) {
    const json::View view(object);
    CAPSTAN_TRY(const std::string_view api_version, view["apiVersion"].as_string());
    CAPSTAN_TRY(const std::string_view kind, view["kind"].as_string());
    CAPSTAN_TRY(const std::string_view name, view["metadata"]["name"].as_string());
    const std::string ns(view["metadata"]["namespace"].string_or(options_.ns));
    CAPSTAN_TRY(const std::string target,
                path(GroupVersionKind::from_api_version(api_version, kind), ns, std::string(name)));
    return send("PATCH",
                target + (subresource.empty() ? "" : "/" + subresource) +
                    "?fieldManager=" + options_.manager + "&force=true" +
                    (options_.strict ? "&fieldValidation=Strict" : ""),
                kJson,
                json::dump(object));
}

Result<void> install_crds(LocalClient& client, const std::string& directory) {
    const std::string crds = directory + "/crds";
    const std::vector<std::string> files = files_in(crds, ".yaml");
    if (files.empty()) {
        return fail(Code::not_found,
                    crds + " holds no CRDs; remedy: build or install capstan again");
    }
    for (const std::string& file : files) {
        CAPSTAN_TRY(const auto documents, config::load_all_file(file));
        for (const config::Document& document : documents) {
            if (auto applied = client.apply(document.value); !applied) {
                return fail(with_context(applied.error(), file));
            }
        }
    }
    return ok();
}

}  // namespace capstan::cli
