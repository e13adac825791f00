// From request to call: who asks, for what, may they.
#include "runtime/local/apiserver/server_state.hpp"

#include "capstan/clock.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

User effective_user(const User& user) {
    if (user.name.empty()) {
        return {std::string(kUserAnonymous), {std::string(kGroupUnauthenticated)}};
    }
    User out = user;
    const auto has = [&](std::string_view group) {
        return std::find(out.groups.begin(), out.groups.end(), group) != out.groups.end();
    };
    if (!has(kGroupAuthenticated) && !has(kGroupUnauthenticated)) {
        out.groups.emplace_back(kGroupAuthenticated);
    }
    return out;
}

bool is_master(const User& user) {
    return std::find(user.groups.begin(), user.groups.end(), kGroupMasters) != user.groups.end();
}

// The one name a collection request is limited to by fieldSelector; "" when it is not. Such a
// request is authorized as one for that name, as in Kubernetes.
std::string selected_name(const RequestInfo& info) {
    std::string_view rest = info.parameter("fieldSelector");
    constexpr std::string_view kField = "metadata.name=";
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find(','), rest.size());
        std::string_view term = rest.substr(0, end);
        if (term.starts_with(kField)) {
            term.remove_prefix(kField.size() +
                               (term.substr(kField.size()).starts_with('=') ? 1 : 0));
            return std::string(term);
        }
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return {};
}

std::string lower_method(std::string_view method) {
    std::string out(method);
    for (char& c : out) {
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return out;
}

std::string options_kind(std::string_view verb) {
    if (verb == "update") {
        return "UpdateOptions";
    }
    if (verb == "patch") {
        return "PatchOptions";
    }
    return verb.starts_with("delete") ? "DeleteOptions" : "CreateOptions";
}

Answer<void> read_manager(Call& call, const std::string& options) {
    call.manager = call.info.parameter("fieldManager");
    if (call.manager.size() > kManagerBytesMax) {
        return refuse(invalid(
            "meta.k8s.io",
            options,
            "",
            {{"FieldValueTooLong", "Too long: may not be more than 128 bytes", "fieldManager"}}));
    }
    const bool printable = std::none_of(call.manager.begin(), call.manager.end(), [](char c) {
        return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
    });
    if (!printable) {
        return refuse(invalid("meta.k8s.io",
                              options,
                              "",
                              {{"FieldValueInvalid",
                                "Invalid value: " + json::dump(call.manager) +
                                    ": holds a character that is not printable",
                                "fieldManager"}}));
    }
    if (call.manager.empty()) {
        const std::string& agent = call.request.user_agent;
        call.manager = agent.substr(0, std::min({agent.find('/'), agent.size(), kManagerBytesMax}));
        call.manager = call.manager.empty() ? "unknown" : call.manager;
    }
    return boost::outcome_v2::success();
}

Answer<void> read_options(Call& call) {
    const RequestInfo& info = call.info;
    const std::string options = options_kind(info.verb);
    const auto unsupported = [&](const char* field, std::string_view value, const char* known) {
        return invalid(
            "meta.k8s.io",
            options,
            "",
            {{"FieldValueNotSupported",
              "Unsupported value: \"" + std::string(value) + "\": supported values: " + known,
              field}});
    };
    const std::string_view dry_run = info.parameter("dryRun");
    if (!dry_run.empty() && dry_run != "All") {
        return refuse(unsupported("dryRun", dry_run, "\"All\""));
    }
    call.dry_run = !dry_run.empty();
    const std::string_view validation = info.parameter("fieldValidation");
    if (validation == "Strict") {
        call.validation = FieldValidation::strict;
    } else if (validation == "Ignore") {
        call.validation = FieldValidation::ignore;
    } else if (!validation.empty() && validation != "Warn") {
        return refuse(
            unsupported("fieldValidation", validation, "\"\", \"Ignore\", \"Strict\", \"Warn\""));
    }
    return read_manager(call, options);
}

}  // namespace

RbacObjects ApiServer::State::rbac_objects() const {
    const auto visit_all = [this](std::string_view resource,
                                  std::string_view prefix,
                                  const RbacObjects::Visit& visit) {
        const Store::Objects& objects = store.objects(resource);
        for (auto it = objects.lower_bound(prefix);
             it != objects.end() && it->first.starts_with(prefix);
             ++it) {
            if (!visit(it->second->value)) {
                return;
            }
        }
    };
    const auto value_of = [this](std::string_view resource,
                                 const std::string& key) -> const json::Value* {
        const StoredPtr found = store.find(resource, key);
        return found ? &found->value : nullptr;  // the store keeps it alive for this call
    };
    return {
        [visit_all](const RbacObjects::Visit& visit) {
            visit_all("rbac.authorization.k8s.io/clusterrolebindings", "", visit);
        },
        [visit_all](std::string_view ns, const RbacObjects::Visit& visit) {
            visit_all("rbac.authorization.k8s.io/rolebindings", std::string(ns) + "/", visit);
        },
        [value_of](std::string_view name) {
            return value_of("rbac.authorization.k8s.io/clusterroles", std::string(name));
        },
        [value_of](std::string_view ns, std::string_view name) {
            return value_of("rbac.authorization.k8s.io/roles", object_key(ns, name));
        },
    };
}

Answer<void> ApiServer::State::authorize_call(const User& user, const RequestInfo& info) const {
    const User asking = effective_user(user);
    const bool collection = info.name.empty() && (info.verb == "list" || info.verb == "watch" ||
                                                  info.verb == "deletecollection");
    AuthzAttributes attributes{
        info.verb,
        info.group,
        info.resource,
        info.subresource,
        info.ns,
        collection ? selected_name(info) : info.name,
        {},
    };
    if (!options.rbac || is_master(asking) || authorize(rbac_objects(), asking, attributes)) {
        return boost::outcome_v2::success();
    }
    StatusError error = forbidden(info.group, info.resource, info.name, {});
    error.message = forbidden_text(asking, attributes);
    return refuse(std::move(error));
}

Answer<void> ApiServer::State::authorize_path(const User& user,
                                              std::string_view method,
                                              std::string_view path) const {
    const User asking = effective_user(user);
    AuthzAttributes attributes;
    attributes.verb = lower_method(method);
    attributes.non_resource_path = path;
    if (!options.rbac || is_master(asking) || authorize(rbac_objects(), asking, attributes)) {
        return boost::outcome_v2::success();
    }
    StatusError error;
    error.code = 403;
    error.reason = "Forbidden";
    error.message = forbidden_text(asking, attributes);
    return refuse(std::move(error));
}

Answer<Call> ApiServer::State::prepare(const ApiRequest& request) {
    CAPSTAN_TRY(RequestInfo info, parse_request(request.method, request.target));
    Call call{request,
              std::move(info),
              nullptr,
              {},
              false,
              false,
              FieldValidation::warn,
              {},
              to_rfc3339(clock.wall_now()),
              {}};
    const RequestInfo& at = call.info;
    if (!at.is_resource) {
        CAPSTAN_TRY(authorize_path(request.user, request.method, at.path));
        return call;
    }
    CAPSTAN_TRY(authorize_call(request.user, at));
    call.kind = registry.find(at.group, at.version, at.resource);
    if (!call.kind || (!at.subresource.empty() && !call.kind->has_subresource(at.subresource))) {
        return refuse(path_not_found());
    }
    const bool item = !at.name.empty();
    const bool write = at.verb == "create" || at.verb == "update" || at.verb == "patch";
    if (!call.kind->namespaced && !at.ns.empty() && at.resource != "namespaces") {
        return refuse(path_not_found());
    }
    if (call.kind->namespaced && at.ns.empty() && (item || write)) {
        return refuse(at.verb == "create" && call.kind->create_only
                          ? method_not_allowed("a namespace is required")
                          : path_not_found());
    }
    if (at.resource == "namespaces" && at.group.empty()) {
        call.info.ns.clear();  // set for authorisation only
    }
    CAPSTAN_TRY(read_options(call));
    CAPSTAN_TRY(call.render.as, parse_accept(request.accept));
    call.render.include = parse_include_object(at.parameter("includeObject"));
    call.render.now = clock.wall_now();
    return call;
}

Answer<ApiResponse> ApiServer::State::dispatch(Call& call) {
    const std::string& verb = call.info.verb;
    const std::string& sub = call.info.subresource;
    const StatusError refused =
        method_not_allowed("the server does not allow this method on the requested resource");
    if (call.kind->create_only) {
        return verb == "create" ? review(call) : Answer<ApiResponse>(refuse(refused));
    }
    if (sub == "log") {
        if (verb != "get") {
            return refuse(refused);
        }
        CAPSTAN_TRY(const PodLogRequest wanted, pod_log(call));
        if (!options.pod_log) {
            StatusError error = internal_error("no node keeps logs here");
            error.code = 501;
            return refuse(std::move(error));
        }
        return options.pod_log(wanted);
    }
    if (sub == "token") {
        return verb == "create" ? create_token(call) : Answer<ApiResponse>(refuse(refused));
    }
    if (sub == "scale") {
        return verb == "get" || verb == "update" || verb == "patch"
                   ? scale(call)
                   : Answer<ApiResponse>(refuse(refused));
    }
    if (!sub.empty() && sub != "status") {
        return refuse(path_not_found());
    }
    if (verb == "get") {
        return get(call);
    }
    if (verb == "list" && sub.empty()) {
        return list(call);
    }
    if (verb == "create" && sub.empty() && call.info.name.empty()) {
        return create(call);
    }
    if (verb == "update" && !call.info.name.empty()) {
        return update(call);
    }
    if (verb == "patch" && !call.info.name.empty()) {
        return patch(call);
    }
    if (verb == "delete" && sub.empty()) {
        return remove(call);
    }
    if (verb == "deletecollection") {
        return remove_collection(call);
    }
    if (verb == "watch") {
        return refuse(bad_request("a watch cannot be answered in one piece"));
    }
    return refuse(refused);
}

ApiResponse ApiServer::State::render(const Call& call, const Stored& object, int status) const {
    return json_response(status, render_object(object, *call.kind, call.render) + "\n");
}

}  // namespace capstan::local
