#include "runtime/kube/client.hpp"

#include "capstan/json.hpp"
#include "runtime/kube/client_state.hpp"
#include "runtime/kube/raw_json.hpp"
#include "runtime/kube/verb.hpp"
#include "runtime/net/url.hpp"

#include <algorithm>
#include <utility>

namespace capstan::kube {
namespace {

constexpr std::string_view kJson = "application/json";

// Sends one verb whose answer is an object.
CallHandle object_call(const std::shared_ptr<ClientState>& client,
                       Verb verb,
                       MonotonicTime deadline,
                       Projection projection,
                       std::function<Result<RequestSpec>(const Resource&)> build,
                       Client::ObjectDone done) {
    const auto shared = std::make_shared<Verb>(std::move(verb));  // build fills it, done reads it
    auto finished = [client = client.get(),
                     shared,
                     projection = std::move(projection),
                     done = std::move(done)](Result<net::HttpResponse> result) {
        const auto checked = check(*client, *shared, std::move(result));
        if (!checked) {
            done(fail(checked.error()));
            return;
        }
        auto object = Object::decode(checked.value().body, projection, &shared->gvk);
        if (!object) {
            done(fail(bad_answer(*shared, object.error())));
            return;
        }
        done(std::move(object));
    };
    auto call = std::make_shared<UnaryCall>(
        client, deadline_or(*client, deadline, kCallTimeout), std::move(finished));
    call->start(
        shared->gvk,
        [shared, build = std::move(build)](const Resource& resource) -> Result<RequestSpec> {
            shared->resolved(resource);
            return build(resource);
        });
    return std::make_unique<HandleOf<UnaryCall>>(std::move(call));
}

Result<std::string> item_path(const Resource& resource,
                              const ObjectKey& key,
                              std::string_view subresource = {}) {
    if (key.name.empty()) {  // would silently become the collection
        return fail(Code::invalid, "a name is required");
    }
    return object_path(resource, key.ns, key.name, subresource);
}

Result<void> check_manager(std::string_view manager) {
    const bool printable =
        std::all_of(manager.begin(), manager.end(), [](char c) { return c >= ' ' && c != 0x7f; });
    if (manager.size() > kFieldManagerBytesMax || !printable) {
        return fail(Code::invalid,
                    "a field manager has at most " + std::to_string(kFieldManagerBytesMax) +
                        " printable characters");
    }
    return ok();
}

net::Query write_query(std::string_view manager, FieldValidation validation, bool dry_run) {
    net::Query query;
    add(query, "fieldManager", manager);
    switch (validation) {
        case FieldValidation::server_default: break;
        case FieldValidation::ignore: add(query, "fieldValidation", "Ignore"); break;
        case FieldValidation::warn: add(query, "fieldValidation", "Warn"); break;
        case FieldValidation::strict: add(query, "fieldValidation", "Strict"); break;
    }
    add(query, "dryRun", dry_run ? "All" : "");
    return query;
}

std::string content_type_of(PatchType type) {
    switch (type) {
        case PatchType::json: return "application/json-patch+json";
        case PatchType::merge: return "application/merge-patch+json";
        case PatchType::strategic: return "application/strategic-merge-patch+json";
        case PatchType::apply: return "application/apply-patch+yaml";
    }
    return {};
}

}  // namespace

std::string describe(std::string_view verb,
                     const Resource& resource,
                     std::string_view ns,
                     std::string_view name) {
    std::string text = std::string(verb) + " " + resource.group_resource();
    if (!name.empty()) {
        text += " " + ObjectKey{std::string(ns), std::string(name)}.to_string();
    } else if (!ns.empty()) {
        text += " in " + std::string(ns);
    }
    return text;
}

Client::Client(net::Loop& loop, net::HttpClient& http, ClientOptions options)
    : state_(std::make_shared<ClientState>(loop, http, std::move(options))) {
    state_->resources = std::make_unique<Resources>(
        loop, [state = state_.get()](auto target, auto accept, auto done) {
            state->fetch(std::move(target), std::move(accept), std::move(done));
        });
}

Client::~Client() {
    state_->closed = true;
    state_->renewing.reset();
    state_->fetches.clear();
}

void Client::renew_watches() {
    state_->renew_next(state_->watches);
}

void Client::on_server_back(std::function<void()> listener) {
    state_->server_back = std::move(listener);
}

const Flow& Client::flow() const noexcept {
    return state_->flow;
}

Resources& Client::resources() noexcept {
    return *state_->resources;
}

CallHandle Client::get(const GroupVersionKind& gvk,
                       const ObjectKey& key,
                       GetOptions options,
                       ObjectDone done) {
    auto build = [key, sub = options.subresource](const Resource& resource) -> Result<RequestSpec> {
        RequestSpec spec;
        CAPSTAN_TRY(spec.target, item_path(resource, key, sub));
        spec.repeatable = true;
        return spec;
    };
    return object_call(state_,
                       {"get", gvk, key.ns, key.name, ""},
                       options.deadline,
                       std::move(options.projection),
                       std::move(build),
                       std::move(done));
}

CallHandle Client::create(const GroupVersionKind& gvk,
                          std::string_view ns,
                          std::string body,
                          WriteOptions options,
                          ObjectDone done) {
    std::string name = raw::to_text(raw::pointer(body, "/metadata/name").value_or("")).value_or("");
    auto build = [ns = std::string(ns), body = std::move(body), options](
                     const Resource& resource) -> Result<RequestSpec> {
        CAPSTAN_TRY(check_manager(options.field_manager));
        if (resource.namespaced && ns.empty()) {
            return fail(Code::invalid, "a namespace is required");
        }
        CAPSTAN_TRY(std::string path, object_path(resource, ns, {}));
        const net::Query query =
            write_query(options.field_manager, options.field_validation, options.dry_run);
        return RequestSpec{"POST", with_query(std::move(path), query), std::string(kJson), body};
    };
    return object_call(state_,
                       {"create", gvk, std::string(ns), std::move(name), ""},
                       options.deadline,
                       Projection::none(),
                       std::move(build),
                       std::move(done));
}

CallHandle Client::update(const GroupVersionKind& gvk,
                          const ObjectKey& key,
                          std::string body,
                          WriteOptions options,
                          ObjectDone done) {
    auto build =
        [key, body = std::move(body), options](const Resource& resource) -> Result<RequestSpec> {
        CAPSTAN_TRY(check_manager(options.field_manager));
        const auto version = raw::pointer(body, "/metadata/resourceVersion");
        if (!version || raw::to_text(*version).value_or("").empty()) {
            return fail(Code::invalid, "an update needs metadata.resourceVersion");
        }
        CAPSTAN_TRY(std::string path, item_path(resource, key, options.subresource));
        const net::Query query =
            write_query(options.field_manager, options.field_validation, options.dry_run);
        RequestSpec spec{"PUT", with_query(std::move(path), query), std::string(kJson), body};
        spec.repeatable = true;
        return spec;
    };
    return object_call(state_,
                       {"update", gvk, key.ns, key.name, ""},
                       options.deadline,
                       Projection::none(),
                       std::move(build),
                       std::move(done));
}

CallHandle Client::patch(const GroupVersionKind& gvk,
                         const ObjectKey& key,
                         std::string body,
                         PatchOptions options,
                         ObjectDone done) {
    auto build =
        [key, body = std::move(body), options](const Resource& resource) -> Result<RequestSpec> {
        const bool apply = options.type == PatchType::apply;
        if (apply && options.field_manager.empty()) {
            return fail(Code::invalid, "apply needs a field manager");
        }
        if (options.force && !apply) {
            return fail(Code::invalid, "force is for apply only");
        }
        CAPSTAN_TRY(check_manager(options.field_manager));
        CAPSTAN_TRY(std::string path, item_path(resource, key, options.subresource));
        net::Query query =
            write_query(options.field_manager, options.field_validation, options.dry_run);
        add(query, "force", options.force ? "true" : "");
        RequestSpec spec{
            "PATCH", with_query(std::move(path), query), content_type_of(options.type), body};
        spec.repeatable = apply;
        return spec;
    };
    const std::string verb = options.type == PatchType::apply ? "apply" : "patch";
    return object_call(state_,
                       {verb, gvk, key.ns, key.name, ""},
                       options.deadline,
                       Projection::none(),
                       std::move(build),
                       std::move(done));
}

namespace {

std::string delete_body(const DeleteOptions& options) {
    json::Value body = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
    if (!options.uid.empty()) {
        body["preconditions"].set("uid", options.uid);
    }
    if (!options.resource_version.empty()) {
        body["preconditions"].set("resourceVersion", options.resource_version);
    }
    switch (options.propagation) {
        case Propagation::server_default: break;
        case Propagation::background: body.set("propagationPolicy", "Background"); break;
        case Propagation::foreground: body.set("propagationPolicy", "Foreground"); break;
        case Propagation::orphan: body.set("propagationPolicy", "Orphan"); break;
    }
    if (options.grace_period_seconds) {
        body.set("gracePeriodSeconds", *options.grace_period_seconds);
    }
    if (options.dry_run) {
        body.set("dryRun", json::list({"All"}));
    }
    return json::dump(body);
}

// The object in the answer of a DELETE, when it stays: for finalizers, or to end in peace.
ObjectPtr staying(std::string_view body, const GroupVersionKind& gvk) {
    auto decoded = Object::decode(body, Projection::none(), &gvk);
    if (!decoded || decoded.value()->kind() == "Status" || !decoded.value()->deleting()) {
        return nullptr;
    }
    const Object& object = *decoded.value();
    const bool finalizers = object.field("/metadata/finalizers").value_or("[]") != "[]";
    const bool grace = object.field("/metadata/deletionGracePeriodSeconds").value_or("0") != "0";
    return finalizers || grace ? decoded.value() : nullptr;
}

}  // namespace

CallHandle Client::remove(const GroupVersionKind& gvk,
                          const ObjectKey& key,
                          DeleteOptions options,
                          ObjectDone done) {
    const auto verb = std::make_shared<Verb>(Verb{"delete", gvk, key.ns, key.name, ""});
    auto finished =
        [client = state_.get(), verb, done = std::move(done)](Result<net::HttpResponse> result) {
            const auto checked = check(*client, *verb, std::move(result));
            if (!checked) {
                done(fail(checked.error()));
            } else {
                done(staying(checked.value().body, verb->gvk));
            }
        };
    auto call = std::make_shared<UnaryCall>(
        state_, deadline_or(*state_, options.deadline, kCallTimeout), std::move(finished));
    call->start(gvk,
                [verb,
                 key,
                 body = delete_body(options),
                 conditional = !options.uid.empty() || !options.resource_version.empty()](
                    const Resource& resource) -> Result<RequestSpec> {
                    verb->resolved(resource);
                    CAPSTAN_TRY(std::string path, item_path(resource, key));
                    RequestSpec spec{"DELETE", std::move(path), std::string(kJson), body};
                    spec.repeatable = conditional;
                    return spec;
                });
    return std::make_unique<HandleOf<UnaryCall>>(std::move(call));
}

CallHandle Client::watch(const GroupVersionKind& gvk, WatchOptions options, WatchHandler handler) {
    return start_watch(state_, gvk, std::move(options), std::move(handler));
}

CallHandle Client::raw(std::string method,
                       std::string target,
                       std::string body,
                       MonotonicTime deadline,
                       std::function<void(Result<net::HttpResponse>)> done) {
    auto call = std::make_shared<UnaryCall>(
        state_,
        deadline_or(*state_, deadline, kCallTimeout),
        [client = state_.get(), method, target, done = std::move(done)](
            Result<net::HttpResponse> result) {
            auto accepted = client->accept(std::move(result));
            if (!accepted) {
                done(fail(with_context(accepted.error(), method + " " + target)));
                return;
            }
            done(std::move(accepted));
        });
    RequestSpec spec{std::move(method),
                     std::move(target),
                     body.empty() ? "" : std::string(kJson),
                     std::move(body)};
    call->start(std::move(spec));
    return std::make_unique<HandleOf<UnaryCall>>(std::move(call));
}

}  // namespace capstan::kube
