// Paths that are no resource: versions, discovery, health, OpenAPI.
#include "runtime/local/apiserver/server_state.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

json::Value strings(const std::vector<std::string>& items) {
    json::Value out = json::list();
    for (const std::string& item : items) {
        out.push_back(item);
    }
    return out;
}

json::Value verbs_of(const ResourceKind& kind) {
    if (kind.create_only) {
        return json::list({"create"});
    }
    return json::list(
        {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"});
}

json::Value subresource_verbs(std::string_view name) {
    if (name == "log") {
        return json::list({"get"});
    }
    if (name == "token") {
        return json::list({"create"});
    }
    return json::list({"get", "patch", "update"});
}

// Kind of the body of a subresource.
GroupVersionKind subresource_kind(const ResourceKind& kind, std::string_view name) {
    if (name == "scale") {
        return {"autoscaling", "v1", "Scale"};
    }
    if (name == "token") {
        return {"authentication.k8s.io", "v1", "TokenRequest"};
    }
    return kind.gvk;
}

json::Value gvk_json(const GroupVersionKind& gvk) {
    return {{"group", gvk.group}, {"version", gvk.version}, {"kind", gvk.kind}};
}

// Groups in order of first appearance, each with its versions, newest first.
std::vector<std::pair<std::string, std::vector<std::string>>> groups_of(const Registry& registry) {
    std::vector<std::pair<std::string, std::vector<std::string>>> groups;
    for (const KindPtr& kind : registry.kinds()) {
        auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& entry) {
            return entry.first == kind->gvk.group;
        });
        if (group == groups.end()) {
            groups.push_back({kind->gvk.group, {}});
            group = groups.end() - 1;
        }
        auto& versions = group->second;
        if (std::find(versions.begin(), versions.end(), kind->gvk.version) == versions.end()) {
            versions.push_back(kind->gvk.version);
        }
    }
    for (auto& [group, versions] : groups) {
        std::sort(versions.begin(), versions.end(), version_before);
    }
    return groups;
}

std::string group_version(const std::string& group, const std::string& version) {
    return group.empty() ? version : group + "/" + version;
}

json::Value group_json(const std::string& group, const std::vector<std::string>& versions) {
    json::Value list = json::list();
    for (const std::string& version : versions) {
        list.push_back({{"groupVersion", group_version(group, version)}, {"version", version}});
    }
    return {{"name", group},
            {"versions", list},
            {"preferredVersion",
             {{"groupVersion", group_version(group, versions.front())},
              {"version", versions.front()}}}};
}

json::Value group_list(const Registry& registry) {
    json::Value groups = json::list();
    for (const auto& [group, versions] : groups_of(registry)) {
        if (!group.empty()) {
            groups.push_back(group_json(group, versions));
        }
    }
    return {{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", std::move(groups)}};
}

json::Value resource_list(const Registry& registry,
                          std::string_view group,
                          std::string_view version) {
    json::Value resources = json::list();
    for (const KindPtr& kind : registry.kinds()) {
        if (kind->gvk.group != group || kind->gvk.version != version) {
            continue;
        }
        json::Value entry = {
            {"name", kind->plural},
            {"singularName", kind->singular},
            {"namespaced", kind->namespaced},
            {"kind", kind->gvk.kind},
            {"verbs", verbs_of(*kind)},
        };
        if (!kind->short_names.empty()) {
            entry.set("shortNames", strings(kind->short_names));
        }
        if (!kind->categories.empty()) {
            entry.set("categories", strings(kind->categories));
        }
        resources.push_back(std::move(entry));
        for (const std::string& name : kind->subresources) {
            const GroupVersionKind body = subresource_kind(*kind, name);
            json::Value sub = {{"name", kind->plural + "/" + name},
                               {"singularName", ""},
                               {"namespaced", kind->namespaced},
                               {"kind", body.kind},
                               {"verbs", subresource_verbs(name)}};
            if (!(body == kind->gvk)) {
                sub.set("group", body.group);
                sub.set("version", body.version);
            }
            resources.push_back(std::move(sub));
        }
    }
    return {{"kind", "APIResourceList"},
            {"apiVersion", "v1"},
            {"groupVersion", group_version(std::string(group), std::string(version))},
            {"resources", std::move(resources)}};
}

json::Value aggregated_resource(const ResourceKind& kind) {
    json::Value entry = {
        {"resource", kind.plural},
        {"responseKind", gvk_json(kind.gvk)},
        {"scope", kind.namespaced ? "Namespaced" : "Cluster"},
        {"singularResource", kind.singular},
        {"verbs", verbs_of(kind)},
    };
    if (!kind.short_names.empty()) {
        entry.set("shortNames", strings(kind.short_names));
    }
    if (!kind.categories.empty()) {
        entry.set("categories", strings(kind.categories));
    }
    if (!kind.subresources.empty()) {
        json::Value subs = json::list();
        for (const std::string& name : kind.subresources) {
            subs.push_back({{"subresource", name},
                            {"responseKind", gvk_json(subresource_kind(kind, name))},
                            {"verbs", subresource_verbs(name)}});
        }
        entry.set("subresources", std::move(subs));
    }
    return entry;
}

json::Value aggregated(const Registry& registry, bool core) {
    json::Value items = json::list();
    for (const auto& [group, versions] : groups_of(registry)) {
        if (group.empty() != core) {
            continue;
        }
        json::Value version_list = json::list();
        for (const std::string& version : versions) {
            json::Value resources = json::list();
            for (const KindPtr& kind : registry.kinds()) {
                if (kind->gvk.group == group && kind->gvk.version == version) {
                    resources.push_back(aggregated_resource(*kind));
                }
            }
            version_list.push_back({{"version", version},
                                    {"resources", std::move(resources)},
                                    {"freshness", "Current"}});
        }
        items.push_back({{"metadata", {{"name", group}, {"creationTimestamp", nullptr}}},
                         {"versions", std::move(version_list)}});
    }
    return {{"kind", "APIGroupDiscoveryList"},
            {"apiVersion", "apidiscovery.k8s.io/v2"},
            {"metadata", json::object()},
            {"items", std::move(items)}};
}

ApiResponse aggregated_response(const Registry& registry, bool core) {
    ApiResponse response = json_response(200, json::dump(aggregated(registry, core)) + "\n");
    response.content_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    return response;
}

ApiResponse text_response(std::string body) {
    ApiResponse response;
    response.content_type = "text/plain; charset=utf-8";
    response.body = std::move(body);
    return response;
}

ApiResponse document(const json::Value& value) {
    return json_response(200, json::dump(value) + "\n");
}

json::Value version_document() {
    // The minor version tells clients which features to expect; the rest is about this server.
    return {{"major", "1"},
            {"minor", "34"},
            {"gitVersion", "v1.34.4+capstan"},
            {"gitCommit", ""},
            {"gitTreeState", ""},
            {"buildDate", ""},
            {"goVersion", ""},
            {"compiler", ""},
            {"platform", "linux/amd64"}};
}

// /openapi/…: built once per state of the registry.
Answer<ApiResponse> openapi(ApiServer::State& state,
                            const std::vector<std::string>& segments,
                            std::string_view accept) {
    auto& cache = state.openapi_cache;
    if (cache.generation != state.registry.generation()) {
        cache.documents.clear();
        cache.generation = state.registry.generation();
    }
    if (segments[1] == "v2" && segments.size() == 2 &&
        accept.find(kOpenApiV2Accept) != std::string_view::npos) {
        ApiResponse response =
            json_response(200, openapi_v2_protobuf(state.registry.openapi_kinds()));
        response.content_type = kOpenApiV2Type;
        return response;
    }
    std::string key;
    for (const std::string& segment : segments) {
        key += "/" + segment;
    }
    std::string& body = cache.documents[key];
    if (body.empty()) {
        const std::vector<OpenApiKind> kinds = state.registry.openapi_kinds();
        json::Value value;
        if (segments[1] == "v2" && segments.size() == 2) {
            value = openapi_v2_document(kinds);
        } else if (segments[1] == "v3" && segments.size() == 2) {
            value = openapi_v3_index(kinds);
        } else if (segments[1] == "v3" && segments.size() == 4 && segments[2] == "api") {
            value = openapi_v3_document(kinds, "", segments[3]);
        } else if (segments[1] == "v3" && segments.size() == 5 && segments[2] == "apis") {
            value = openapi_v3_document(kinds, segments[3], segments[4]);
        }
        if (value.is_null()) {
            cache.documents.erase(key);
            return refuse(path_not_found());
        }
        body = json::dump(value);
    }
    return json_response(200, body);
}

}  // namespace

Answer<ApiResponse> ApiServer::State::non_resource(const ApiRequest& request,
                                                   const RequestInfo& info) {
    const auto& segments = info.segments;
    if (request.method != "GET" && request.method != "HEAD") {
        return refuse(
            method_not_allowed("the server does not allow this method on the requested resource"));
    }
    const std::string first = segments.empty() ? std::string() : segments[0];
    if (segments.size() <= 2 && (first == "healthz" || first == "livez" || first == "readyz")) {
        return text_response("ok");
    }
    if (segments.empty()) {
        return document({{"paths",
                          json::list({"/api",
                                      "/api/v1",
                                      "/apis",
                                      "/healthz",
                                      "/livez",
                                      "/openapi/v2",
                                      "/openapi/v3",
                                      "/readyz",
                                      "/version"})}});
    }
    if (first == "version" && segments.size() == 1) {
        return document(version_document());
    }
    if (first == "openapi" && segments.size() >= 2) {
        return openapi(*this, segments, request.accept);
    }
    const bool many = accepts_aggregated_discovery(request.accept);
    if (first == "api" && segments.size() == 1) {
        if (many) {
            return aggregated_response(registry, true);
        }
        return document({{"kind", "APIVersions"},
                         {"versions", json::list({"v1"})},
                         {"serverAddressByClientCIDRs", json::list()}});
    }
    if (first == "apis" && segments.size() == 1) {
        return many ? aggregated_response(registry, false) : document(group_list(registry));
    }
    if (first == "api" && segments.size() == 2 && registry.has_group_version("", segments[1])) {
        return document(resource_list(registry, "", segments[1]));
    }
    if (first == "apis" && segments.size() == 2) {
        for (const auto& [group, versions] : groups_of(registry)) {
            if (group == segments[1]) {
                json::Value value = {{"kind", "APIGroup"}, {"apiVersion", "v1"}};
                const json::Value entry = group_json(group, versions);
                for (const json::Member& member : *entry.if_object()) {
                    value.set(member.key, member.value);
                }
                return document(value);
            }
        }
    }
    if (first == "apis" && segments.size() == 3 &&
        registry.has_group_version(segments[1], segments[2])) {
        return document(resource_list(registry, segments[1], segments[2]));
    }
    return refuse(path_not_found());
}

}  // namespace capstan::local
