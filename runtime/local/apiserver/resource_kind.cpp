#include "runtime/local/apiserver/resource_kind.hpp"

#include "runtime/local/apiserver/builtin_kinds.hpp"

#include <algorithm>
#include <cctype>
#include <tuple>

namespace capstan::local {
namespace {

std::vector<std::string> builtin_fields(const BuiltinKind& kind) {
    if (kind.plural == "pods") {
        return {"spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "status.phase",
                "status.podIP",
                "status.nominatedNodeName"};
    }
    if (kind.plural == "events") {
        const std::string object = kind.group.empty() ? "involvedObject" : "regarding";
        std::vector<std::string> fields = {"reason", "reportingComponent", "source", "type"};
        for (const char* field :
             {"kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"}) {
            fields.push_back(object + "." + field);
        }
        return fields;
    }
    if (kind.plural == "secrets") {
        return {"type"};
    }
    if (kind.plural == "namespaces") {
        return {"status.phase"};
    }
    if (kind.plural == "nodes") {
        return {"spec.unschedulable"};
    }
    if (kind.plural == "jobs") {
        return {"status.successful"};
    }
    if (kind.plural == "services") {
        return {"spec.clusterIP", "spec.type"};
    }
    return {};
}

KindPtr from_builtin(const BuiltinKind& from) {
    auto kind = std::make_shared<ResourceKind>();
    kind->gvk = {from.group, from.version, from.kind};
    kind->plural = from.plural;
    kind->singular = from.singular;
    kind->short_names = from.short_names;
    kind->categories = from.categories;
    kind->subresources = from.subresources;
    kind->namespaced = from.namespaced;
    kind->create_only = from.create_only;
    // Both Event APIs show the same objects; stored as core v1.
    const bool event = from.plural == "events";
    kind->storage = event ? "events" : storage_id(from.group, from.plural);
    kind->storage_api_version = event ? "v1" : kind->gvk.api_version();
    kind->selectable_fields = builtin_fields(from);
    if (kind->has_subresource("scale")) {
        kind->scale = {"/spec/replicas", "/status/replicas", "/spec/selector"};
    }
    return kind;
}

std::string path_of(std::string_view group, std::string_view version, std::string_view plural) {
    std::string path(group);
    path += '/';
    path += version;
    path += '/';
    path += plural;
    return path;
}

struct ParsedVersion {
    bool regular{false};
    int stability{0};  // 3 GA, 2 beta, 1 alpha
    long major{0};
    long minor{0};
};

ParsedVersion parse_version(std::string_view text) {
    ParsedVersion parsed;
    std::size_t at = 0;
    const auto number = [&](long& out) {
        const std::size_t start = at;
        while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0 &&
               at - start < 9) {
            out = out * 10 + (text[at++] - '0');
        }
        return at > start;
    };
    if (text.empty() || text[at++] != 'v' || !number(parsed.major)) {
        return parsed;
    }
    parsed.stability = 3;
    for (const auto& [word, stability] :
         {std::pair<std::string_view, int>{"beta", 2}, {"alpha", 1}}) {
        if (text.substr(at).starts_with(word)) {
            at += word.size();
            parsed.stability = stability;
            if (!number(parsed.minor)) {
                return {};
            }
            break;
        }
    }
    parsed.regular = at == text.size();
    return parsed;
}

}  // namespace

std::string storage_id(std::string_view group, std::string_view plural) {
    std::string id(group);
    if (!id.empty()) {
        id += '/';
    }
    id += plural;
    return id;
}

bool version_before(std::string_view a, std::string_view b) {
    const ParsedVersion x = parse_version(a);
    const ParsedVersion y = parse_version(b);
    if (x.regular != y.regular) {
        return x.regular;
    }
    if (!x.regular) {
        return a < b;
    }
    return std::tie(x.stability, x.major, x.minor) > std::tie(y.stability, y.major, y.minor);
}

bool ResourceKind::has_subresource(std::string_view name) const noexcept {
    return std::find(subresources.begin(), subresources.end(), name) != subresources.end();
}

ObjectSchema ResourceKind::merge_schema() const {
    return {custom ? (schema ? schema->root() : nullptr) : builtin_schema(gvk)};
}

Registry::Registry() {
    for (const BuiltinKind& kind : builtin_kinds()) {
        builtin_.push_back(from_builtin(kind));
    }
    rebuild();
}

KindPtr Registry::find(std::string_view group,
                       std::string_view version,
                       std::string_view plural) const {
    const auto found = by_path_.find(path_of(group, version, plural));
    return found == by_path_.end() ? nullptr : found->second;
}

KindPtr Registry::find_kind(const GroupVersionKind& gvk) const {
    for (const KindPtr& kind : kinds_) {
        if (kind->gvk == gvk) {
            return kind;
        }
    }
    return nullptr;
}

KindPtr Registry::by_storage(std::string_view storage) const {
    KindPtr any;
    for (const KindPtr& kind : kinds_) {
        if (kind->storage == storage) {
            if (kind->gvk.api_version() == kind->storage_api_version) {
                return kind;
            }
            any = any ? any : kind;
        }
    }
    return any;
}

bool Registry::has_group_version(std::string_view group, std::string_view version) const {
    return std::any_of(kinds_.begin(), kinds_.end(), [&](const KindPtr& kind) {
        return kind->gvk.group == group && kind->gvk.version == version;
    });
}

void Registry::set_crd(const std::string& name, std::vector<KindPtr> kinds) {
    crds_[name] = std::move(kinds);
    rebuild();
}

void Registry::erase_crd(const std::string& name) {
    crds_.erase(name);
    rebuild();
}

std::vector<OpenApiKind> Registry::openapi_kinds() const {
    std::vector<OpenApiKind> out;
    for (const KindPtr& kind : kinds_) {
        out.push_back({kind->gvk.group,
                       kind->gvk.version,
                       kind->gvk.kind,
                       kind->plural,
                       kind->namespaced,
                       kind->subresources,
                       kind->custom ? &kind->raw_schema : nullptr,
                       kind->create_only});
    }
    return out;
}

void Registry::rebuild() {
    kinds_ = builtin_;
    for (const auto& [name, kinds] : crds_) {
        kinds_.insert(kinds_.end(), kinds.begin(), kinds.end());
    }
    by_path_.clear();
    for (const KindPtr& kind : kinds_) {
        by_path_.emplace(path_of(kind->gvk.group, kind->gvk.version, kind->plural), kind);
    }
    ++generation_;
}

}  // namespace capstan::local
