#include "runtime/plugin/manifest.hpp"

#include "runtime/plugin/config_schema.hpp"
#include "runtime/plugin/manifest_reader.hpp"
#include "runtime/plugin/variables.hpp"

#include <algorithm>
#include <set>

namespace capstan::plugin {

namespace {

std::string indexed(const std::string& path, std::size_t i) {
    return path + "/" + std::to_string(i);
}

void read_abi(StrictObject& top, Manifest& manifest, Problems& problems) {
    const json::Value* value = top.take("abi");
    if (value == nullptr) {
        top.problem("abi", "missing");
        return;
    }
    StrictObject abi(*value, top.at("abi"), problems);
    manifest.abi_major = abi.number("major", 0, 1, 65535);
    manifest.abi_min_minor = abi.number("minMinor", 0, 0, 65535);
    manifest.abi_built_minor = abi.number("builtMinor", manifest.abi_min_minor, 0, 65535);
    if (manifest.abi_major == 0) {
        abi.problem("major", "missing");
    }
    if (manifest.abi_built_minor < manifest.abi_min_minor) {
        abi.problem("builtMinor", "is lower than minMinor");
    }
    abi.finish();
}

void read_requires(StrictObject& top, Manifest& manifest, Problems& problems) {
    const json::Value* value = top.take("requires");
    if (value == nullptr) {
        return;
    }
    StrictObject needs(*value, top.at("requires"), problems);
    manifest.extensions = needs.texts("extensions");
    manifest.kubernetes = needs.text("kubernetes");
    if (!manifest.kubernetes.empty() &&
        (!manifest.kubernetes.starts_with(">=") ||
         !Version::parse(std::string_view(manifest.kubernetes).substr(2)))) {
        needs.problem("kubernetes", "expected the form \">=1.29\"");
    }
    needs.finish();
}

void read_services(StrictObject& top, Manifest& manifest, Problems& problems) {
    const json::Array& items = top.list("services");
    for (std::size_t i = 0; i < items.size(); ++i) {
        StrictObject item(items[i], indexed(top.at("services"), i), problems);
        manifest.services.push_back({item.text("name", Need::required)});
        item.finish(true);
    }
}

RouteSpec read_route(const json::Value& value, const std::string& path, Problems& problems) {
    StrictObject item(value, path, problems);
    RouteSpec route;
    route.name = item.text("name", Need::required);
    route.path = item.text("path");
    route.prefix = item.text("prefix");
    route.methods = item.texts("methods");
    route.runs_long = item.one_of("class", {"quick", "long"}, "quick") == "long";
    if (route.path.empty() == route.prefix.empty()) {
        problems.add(path, "needs either \"path\" or \"prefix\"");
    }
    if ((!route.path.empty() && route.path.front() != '/') ||
        (!route.prefix.empty() && (route.prefix.front() != '/' || route.prefix.back() != '/'))) {
        problems.add(path, "a path begins with '/', a prefix begins and ends with '/'");
    }
    static const std::set<std::string, std::less<>> kMethods = {
        "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"};
    for (const std::string& method : route.methods) {
        if (!kMethods.contains(method)) {
            item.problem("methods",
                         "\"" + method + "\" is none of GET, HEAD, POST, PUT, PATCH, DELETE");
        }
    }
    item.finish(true);
    return route;
}

void read_cli(StrictObject& top, Manifest& manifest, Problems& problems) {
    const json::Array& items = top.list("cli");
    for (std::size_t i = 0; i < items.size(); ++i) {
        StrictObject item(items[i], indexed(top.at("cli"), i), problems);
        CliCommand command;
        command.name = item.text("name", Need::required);
        command.summary = item.text("summary", Need::required);
        item.finish(true);
        manifest.cli.push_back(std::move(command));
    }
}

void read_crds(StrictObject& top, Manifest& manifest, Problems& problems) {
    const json::Array& items = top.list("crds");
    for (std::size_t i = 0; i < items.size(); ++i) {
        StrictObject item(items[i], indexed(top.at("crds"), i), problems);
        CrdRef crd;
        crd.group = item.text("group", Need::required);
        crd.kind = item.text("kind", Need::required);
        crd.versions = item.texts("versions", Need::required);
        crd.storage = item.text("storage", Need::required);
        crd.schema_digest = item.text("schemaDigest");
        crd.shipped_in = item.text("shippedIn");
        if (!crd.storage.empty() &&
            std::find(crd.versions.begin(), crd.versions.end(), crd.storage) ==
                crd.versions.end()) {
            item.problem("storage", "is none of \"versions\"");
        }
        item.finish(true);
        manifest.crds.push_back(std::move(crd));
    }
}

void read_identity(StrictObject& top, Manifest& manifest) {
    if (top.number("schema", 0, 1, 1) == 0) {
        top.problem("schema", "must be 1");
    }
    manifest.id = top.text("id", Need::required);
    if (!manifest.id.empty() && !is_dns_subdomain(manifest.id)) {
        top.problem("id", "expected a DNS name like \"etcd.example.com\"");
    }
    manifest.version = top.text("version", Need::required);
    if (!manifest.version.empty() && !Version::parse(manifest.version)) {
        top.problem("version", "expected a version like \"1.4.0\"");
    }
    manifest.license = top.text("license");
    manifest.handover = top.one_of("handover", {"none"}, "none");
    manifest.field_manager = top.text("fieldManager");
    if (manifest.field_manager.size() > kFieldManagerBytesMax) {
        top.problem("fieldManager",
                    "is longer than " + std::to_string(kFieldManagerBytesMax) + " bytes");
    }
    if (!has_only_whole_variables(manifest.field_manager)) {
        top.problem("fieldManager", "a \"$\" begins a variable, as in \"operator-$(POD_NAME)\"");
    }
    manifest.finalizers = top.texts("finalizers");
    for (const std::string& finalizer : manifest.finalizers) {
        const std::size_t slash = finalizer.find('/');
        if (slash == std::string::npos ||
            !is_dns_subdomain(std::string_view(finalizer).substr(0, slash))) {
            top.problem("finalizers", "\"" + finalizer + "\" is not of the form \"domain/name\"");
        }
    }
}

void read_config_and_isolation(StrictObject& top, Manifest& manifest, Problems& problems) {
    if (const json::Value* value = top.take("config")) {
        StrictObject config(*value, top.at("config"), problems);
        if (const json::Value* schema = config.take("schema")) {
            manifest.config_schema = *schema;
            for (const std::string& problem : schema_problems(*schema)) {
                config.problem("schema", problem);
            }
        }
        config.finish();
    }
    if (const json::Value* value = top.take("isolation")) {
        StrictObject isolation(*value, top.at("isolation"), problems);
        manifest.isolation_minimum =
            isolation.one_of("minimum", {"in-process", "process"}, "in-process");
        isolation.finish();
    }
}

Manifest read_manifest(const json::Value& document, Problems& problems) {
    Manifest manifest;
    manifest.document = document;
    StrictObject top(document, "", problems);
    read_identity(top, manifest);
    read_abi(top, manifest, problems);
    read_requires(top, manifest, problems);
    if (const json::Value* gates = top.take("featureGates")) {
        manifest.gates = GateTable::parse(*gates, top.at("featureGates"), problems);
    }
    read_controllers(top, manifest, problems);
    read_services(top, manifest, problems);
    const json::Array& routes = top.list("routes");
    for (std::size_t i = 0; i < routes.size(); ++i) {
        manifest.routes.push_back(read_route(routes[i], indexed(top.at("routes"), i), problems));
    }
    read_webhooks(top, manifest, problems);
    read_cli(top, manifest, problems);
    manifest.permissions = read_rules(top, "permissions", problems);
    manifest.grants = read_rules(top, "grants", problems);
    read_crds(top, manifest, problems);
    read_config_and_isolation(top, manifest, problems);
    top.finish(true);
    return manifest;
}

}  // namespace

std::string_view to_string(Role role) noexcept {
    switch (role) {
        case Role::primary: return "for";
        case Role::owns: return "owns";
        case Role::maps: return "maps";
    }
    return "";
}

std::optional<Manifest> parse_manifest(std::string_view text,
                                       const HostOffer& host,
                                       Problems& problems) {
    json::ParseOptions options;
    options.depth_max = kManifestDepthMax;
    options.bytes_max = kManifestBytesMax;
    const Result<json::Value> document = json::parse(text, options);
    if (!document) {
        problems.add("", "the manifest is no valid JSON: " + document.error().message);
        return std::nullopt;
    }
    Problems found;
    Manifest manifest = read_manifest(document.value(), found);
    check_manifest(manifest, host, found);
    problems.append(found);
    if (!found.empty()) {
        return std::nullopt;
    }
    return manifest;
}

Result<Manifest> parse_manifest(std::string_view text, const HostOffer& host) {
    Problems problems;
    std::optional<Manifest> manifest = parse_manifest(text, host, problems);
    if (manifest) {
        return std::move(*manifest);
    }
    std::string message;
    for (const std::string& line : problems.lines()) {
        message += (message.empty() ? "" : "; ") + line;
    }
    return fail(Code::invalid, std::move(message));
}

}  // namespace capstan::plugin
