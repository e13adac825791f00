#include "runtime/local/apiserver/openapi.hpp"

#include <cstdint>

namespace capstan::local {

namespace {

constexpr std::uint64_t kFnvOffset = 14695981039346656037ULL;
constexpr std::uint64_t kFnvPrime = 1099511628211ULL;

std::string hash_text(std::string_view text) {
    std::uint64_t hash = kFnvOffset;
    for (const char c : text) {
        hash = (hash ^ static_cast<unsigned char>(c)) * kFnvPrime;
    }
    static constexpr char kHex[] = "0123456789ABCDEF";
    std::string out;
    for (int shift = 60; shift >= 0; shift -= 4) {
        out += kHex[hash >> shift & 15u];
    }
    return out;
}

// "cloud.gardener.druid.v1alpha1.Etcd", as the real server names schemas of custom resources.
std::string schema_name(const OpenApiKind& kind) {
    std::string reversed;
    std::string_view rest =
        kind.group.empty() ? std::string_view("core.api.k8s.io") : std::string_view(kind.group);
    while (!rest.empty()) {
        const std::size_t dot = rest.rfind('.');
        reversed += rest.substr(dot == std::string_view::npos ? 0 : dot + 1);
        reversed += '.';
        rest = dot == std::string_view::npos ? std::string_view() : rest.substr(0, dot);
    }
    return reversed + kind.version + "." + kind.kind;
}

json::Value gvk_extension(const OpenApiKind& kind) {
    return {{"group", kind.group}, {"version", kind.version}, {"kind", kind.kind}};
}

json::Value parameter(std::string_view name,
                      std::string_view place,
                      std::string_view type,
                      std::string_view text) {
    json::Value out = {{"name", name},
                       {"in", place},
                       {"description", text},
                       {"schema", {{"type", type}, {"uniqueItems", true}}}};
    if (place == "path") {
        out.set("required", true);
    }
    return out;
}

enum class Verb : std::uint8_t { get, list, post, put, patch, remove, remove_collection };

struct VerbInfo {
    const char* method;
    const char* action;
    const char* operation;  // prefix of the operationId
};

VerbInfo info_of(Verb verb) {
    switch (verb) {
        case Verb::get: return {"get", "get", "read"};
        case Verb::list: return {"get", "list", "list"};
        case Verb::post: return {"post", "post", "create"};
        case Verb::put: return {"put", "put", "replace"};
        case Verb::patch: return {"patch", "patch", "patch"};
        case Verb::remove: return {"delete", "delete", "delete"};
        case Verb::remove_collection: return {"delete", "deletecollection", "deleteCollection"};
    }
    return {"get", "get", "read"};
}

bool writes(Verb verb) {
    return verb == Verb::post || verb == Verb::put || verb == Verb::patch;
}

json::Value parameters_of(Verb verb) {
    json::Value out = json::list();
    if (verb != Verb::get && verb != Verb::list) {
        out.push_back(
            parameter("dryRun", "query", "string", "All: the request is checked and not stored."));
    }
    if (writes(verb)) {
        out.push_back(
            parameter("fieldManager", "query", "string", "Name of the actor making the change."));
        out.push_back(
            parameter("fieldValidation",
                      "query",
                      "string",
                      "What to do with unknown and duplicate fields: Ignore, Warn or Strict."));
    }
    if (verb == Verb::patch) {
        out.push_back(parameter(
            "force", "query", "boolean", "Apply only: take over fields of other managers."));
    }
    if (verb == Verb::list || verb == Verb::remove_collection) {
        for (const char* name : {"labelSelector", "fieldSelector", "continue", "resourceVersion"}) {
            out.push_back(parameter(name, "query", "string", "As in the Kubernetes API."));
        }
        out.push_back(parameter("limit", "query", "integer", "Objects in one page."));
    }
    if (verb == Verb::list) {
        out.push_back(parameter("watch", "query", "boolean", "Stream changes instead."));
        out.push_back(parameter("allowWatchBookmarks", "query", "boolean", "Send bookmarks."));
    }
    return out;
}

json::Value body_of(Verb verb, const json::Value& reference) {
    json::Value content = json::object();
    if (verb == Verb::patch) {
        // Strategic merge is served for builtin kinds but not announced: kubectl would then need
        // complete schemas here, and without the announcement it uses the types compiled into it.
        for (const char* type : {"application/json-patch+json",
                                 "application/merge-patch+json",
                                 "application/apply-patch+yaml"}) {
            content.set(type, {{"schema", {{"type", "object"}}}});
        }
    } else {
        content.set("*/*", {{"schema", reference}});
    }
    return {{"content", std::move(content)}};
}

json::Value operation(const OpenApiKind& kind, Verb verb, std::string_view suffix) {
    const VerbInfo info = info_of(verb);
    const json::Value reference = {{"$ref", "#/components/schemas/" + schema_name(kind)}};
    json::Value out = {
        {"operationId",
         std::string(info.operation) + kind.version + kind.kind + std::string(suffix)},
        {"parameters", parameters_of(verb)},
        {"responses",
         {{"200",
           {{"description", "OK"}, {"content", {{"application/json", {{"schema", reference}}}}}}}}},
        {"x-kubernetes-action", info.action},
        {"x-kubernetes-group-version-kind", gvk_extension(kind)},
    };
    if (writes(verb)) {
        out.set("requestBody", body_of(verb, reference));
    }
    return out;
}

json::Value path_item(const OpenApiKind& kind,
                      std::initializer_list<Verb> verbs,
                      std::string_view suffix,
                      bool named) {
    json::Value out = json::object();
    for (const Verb verb : verbs) {
        out.set(info_of(verb).method, operation(kind, verb, suffix));
    }
    json::Value parameters = json::list();
    if (named) {
        parameters.push_back(parameter("name", "path", "string", "Name of the object."));
    }
    if (kind.namespaced) {
        parameters.push_back(parameter("namespace", "path", "string", "Namespace of the object."));
    }
    parameters.push_back(parameter("pretty", "query", "string", "Print for people."));
    out.set("parameters", std::move(parameters));
    return out;
}

void add_paths(const OpenApiKind& kind, json::Value& paths) {
    const std::string base = "/" + openapi_path(kind.group, kind.version) + "/";
    const std::string collection =
        base + (kind.namespaced ? "namespaces/{namespace}/" : "") + kind.plural;
    if (kind.create_only) {
        paths.set(collection, path_item(kind, {Verb::post}, "", false));
        return;
    }
    paths.set(collection,
              path_item(kind, {Verb::list, Verb::post, Verb::remove_collection}, "", false));
    const std::string item = collection + "/{name}";
    paths.set(item, path_item(kind, {Verb::get, Verb::put, Verb::patch, Verb::remove}, "", true));
    for (const std::string& sub : kind.subresources) {
        if (sub == "status") {
            paths.set(item + "/status",
                      path_item(kind, {Verb::get, Verb::put, Verb::patch}, "Status", true));
        }
    }
}

json::Value schema_of(const OpenApiKind& kind) {
    json::Value schema = kind.schema != nullptr && kind.schema->is_object()
                             ? *kind.schema
                             : json::Value{{"type", "object"}};
    if (kind.schema == nullptr) {
        schema.set("x-kubernetes-preserve-unknown-fields", true);
    }
    json::Value& properties = schema["properties"];
    if (!properties.is_object()) {
        properties = json::object();
    }
    for (const char* name : {"apiVersion", "kind"}) {
        if (properties.find(name) == nullptr) {
            properties.set(name, {{"type", "string"}});
        }
    }
    properties.set("metadata",
                   {{"type", "object"}, {"description", "Standard object's metadata."}});
    schema.set("x-kubernetes-group-version-kind", json::list({gvk_extension(kind)}));
    return schema;
}

bool belongs(const OpenApiKind& kind, std::string_view group, std::string_view version) {
    return kind.group == group && kind.version == version;
}

json::Value info() {
    return {{"title", "Kubernetes"}, {"version", "v1.34.0"}};
}

}  // namespace

std::string openapi_path(std::string_view group, std::string_view version) {
    return group.empty() ? "api/" + std::string(version)
                         : "apis/" + std::string(group) + "/" + std::string(version);
}

json::Value openapi_v3_document(const std::vector<OpenApiKind>& kinds,
                                std::string_view group,
                                std::string_view version) {
    json::Value paths = json::object();
    json::Value schemas = json::object();
    for (const OpenApiKind& kind : kinds) {
        if (belongs(kind, group, version)) {
            add_paths(kind, paths);
            schemas.set(schema_name(kind), schema_of(kind));
        }
    }
    if (paths.if_object()->empty()) {
        return json::Value();
    }
    return {{"openapi", "3.0.0"},
            {"info", info()},
            {"paths", std::move(paths)},
            {"components", {{"schemas", std::move(schemas)}}}};
}

json::Value openapi_v3_index(const std::vector<OpenApiKind>& kinds) {
    json::Value paths = json::object();
    for (const OpenApiKind& kind : kinds) {
        const std::string path = openapi_path(kind.group, kind.version);
        if (paths.find(path) == nullptr) {
            const std::string hash =
                hash_text(json::dump(openapi_v3_document(kinds, kind.group, kind.version)));
            paths.set(path, {{"serverRelativeURL", "/openapi/v3/" + path + "?hash=" + hash}});
        }
    }
    return {{"paths", std::move(paths)}};
}

json::Value openapi_v2_document(const std::vector<OpenApiKind>& kinds) {
    json::Value definitions = json::object();
    for (const OpenApiKind& kind : kinds) {
        definitions.set(schema_name(kind),
                        {{"type", "object"},
                         {"x-kubernetes-group-version-kind", json::list({gvk_extension(kind)})}});
    }
    return {{"swagger", "2.0"},
            {"info", info()},
            {"paths", json::object()},
            {"definitions", std::move(definitions)}};
}

}  // namespace capstan::local
