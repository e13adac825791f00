// Reviews: may I, who am I. Nothing is stored.
#include "runtime/local/apiserver/server_state.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

AuthzAttributes attributes_of(const json::View& spec) {
    AuthzAttributes attributes;
    const json::View resource = spec["resourceAttributes"];
    const json::View path = spec["nonResourceAttributes"];
    if (path.present()) {
        attributes.verb = path["verb"].string_or("");
        attributes.non_resource_path = path["path"].string_or("");
        return attributes;
    }
    attributes.verb = resource["verb"].string_or("");
    attributes.group = resource["group"].string_or("");
    attributes.resource = resource["resource"].string_or("");
    attributes.subresource = resource["subresource"].string_or("");
    attributes.ns = resource["namespace"].string_or("");
    attributes.name = resource["name"].string_or("");
    return attributes;
}

json::Value strings(const std::vector<std::string>& items) {
    json::Value out = json::list();
    for (const std::string& item : items) {
        out.push_back(item);
    }
    return out;
}

}  // namespace

Answer<ApiResponse> ApiServer::State::review(Call& call) {
    CAPSTAN_TRY(json::Value body, parse_body(call));
    const std::string& kind = call.kind->gvk.kind;
    body.set("apiVersion", call.kind->gvk.api_version());
    body.set("kind", kind);
    if (kind == "SelfSubjectReview") {
        body["status"] = {{"userInfo",
                           {{"username", call.request.user.name},
                            {"groups", strings(call.request.user.groups)}}}};
        return json_response(201, json::dump(body) + "\n");
    }
    const json::View spec = json::View(body)["spec"];
    User user = call.request.user;
    if (kind == "SubjectAccessReview" || kind == "LocalSubjectAccessReview") {
        user.name = spec["user"].string_or("");
        user.groups.clear();
        for (const json::Value& group : spec["groups"].array()) {
            user.groups.emplace_back(json::View(group).string_or(""));
        }
    } else if (kind != "SelfSubjectAccessReview") {
        return refuse(method_not_allowed(kind + " is not evaluated by this server"));
    }
    if (user.name.empty() && user.groups.empty()) {
        return refuse(invalid("authorization.k8s.io",
                              "",
                              "",
                              {{"FieldValueInvalid",
                                "Invalid value: \"\": at least one of user or group must be "
                                "specified",
                                "spec.user"}}));
    }
    const AuthzAttributes attributes = attributes_of(spec);
    const bool master =
        std::find(user.groups.begin(), user.groups.end(), kGroupMasters) != user.groups.end();
    const bool allowed = !options.rbac || master || authorize(rbac_objects(), user, attributes);
    body["status"] = {{"allowed", allowed}};
    return json_response(201, json::dump(body) + "\n");
}

}  // namespace capstan::local
