// capstan.client/1: live requests, checked against the manifest before anything is sent.
#include "runtime/control/host_tables.hpp"

#include "runtime/control/call.hpp"
#include "runtime/control/client_request.hpp"
#include "runtime/control/unit.hpp"

namespace capstan::control {
namespace {

using kube::CallHandle;
using kube::ObjectPtr;

capstan_rc hand_over(CallState& call,
                     ObjectPtr object,
                     const GroupVersionKind& gvk,
                     const capstan_obj** out) {
    if (out == nullptr) {
        return CAPSTAN_OK;
    }
    *out = call.hand_out(std::move(object), gvk, true);
    return *out == nullptr ? report(CAPSTAN_E_TOO_LARGE, "no object handle is left") : CAPSTAN_OK;
}

Result<ObjectPtr> await_object(CallState& call,
                               MonotonicTime until,
                               std::function<CallHandle(kube::Client::ObjectDone)> begin) {
    return await_on_loop<ObjectPtr, CallHandle>(call, until, std::move(begin));
}

capstan_rc get(capstan_call* handle,
               capstan_str gvk,
               capstan_str ns,
               capstan_str name,
               const capstan_obj** out) noexcept {
    capstan_rc rc = CAPSTAN_OK;
    Asked asked;
    if (!permit(asked, handle, gvk, "get", view(name), "", &rc)) {
        return rc;
    }
    CallState& call = *asked.call;
    kube::GetOptions options;
    options.deadline = request_deadline(call);
    kube::Client& client = call.core->parts.client;
    auto object =
        await_object(call,
                     options.deadline,
                     [&client, options, kind = asked.gvk, key = ObjectKey{text(ns), text(name)}](
                         auto done) { return client.get(kind, key, options, std::move(done)); });
    return object ? hand_over(call, std::move(object).value(), asked.gvk, out)
                  : report(object.error());
}

capstan_rc list(capstan_call* handle,
                capstan_str gvk,
                capstan_str ns,
                capstan_str selector,
                capstan_rc (*visit)(void*, const capstan_obj*),
                void* user) noexcept {
    capstan_rc rc = CAPSTAN_OK;
    Asked asked;
    if (!permit(asked, handle, gvk, "list", "", "", &rc)) {
        return rc;
    }
    CallState& call = *asked.call;
    kube::Client& client = call.core->parts.client;
    kube::ListOptions options;
    options.ns = text(ns);
    options.label_selector = text(selector);
    std::size_t seen = 0;
    do {
        options.deadline = request_deadline(call, kube::kListTimeout);
        auto page = await_on_loop<kube::ListPage, CallHandle>(
            call,
            options.deadline,
            [&client, options, kind = asked.gvk](std::function<void(Result<kube::ListPage>)> done) {
                return client.list(kind, options, std::move(done));
            });
        if (!page) {
            return report(page.error());
        }
        if (const auto& bad = page.value().unreadable; !bad.empty()) {
            return report(
                CAPSTAN_E_UNAVAIL,
                "list " + asked.gvk.to_string() + ": it is not whole: " + bad.front().text());
        }
        for (ObjectPtr& object : page.value().items) {
            if (++seen > kListItemsMax) {
                return report(CAPSTAN_E_TOO_LARGE,
                              "more than " + std::to_string(kListItemsMax) + " objects");
            }
            auto reference = std::make_shared<ObjectRef>(
                ObjectRef{std::move(object), asked.gvk, true, true, call.weak_from_this()});
            void* borrowed = handles().objects.insert(std::move(reference));
            if (borrowed == nullptr) {
                return report(CAPSTAN_E_TOO_LARGE, "no object handle is left");
            }
            rc = visit(user, static_cast<const capstan_obj*>(borrowed));
            handles().objects.take(borrowed);
            if (rc != CAPSTAN_OK) {
                return rc;
            }
        }
        options.continue_token = page.value().continue_token;
    } while (!options.continue_token.empty());
    return CAPSTAN_OK;
}

void count_write(const CallState& call, std::string_view verb, const Result<ObjectPtr>& result) {
    call.core->metrics.writes
        .with({call.unit->manifest().id, verb, result ? "ok" : to_string(result.error().code)})
        .add();
}

// The object's key; apiVersion and kind are checked against `gvk` and filled in when absent.
Result<ObjectKey> check_object(json::Value& object, const GroupVersionKind& gvk) {
    if (!object.is_object()) {
        return fail(Code::invalid, "the object is no JSON object");
    }
    const std::pair<const char*, std::string> expected[] = {{"apiVersion", gvk.api_version()},
                                                            {"kind", gvk.kind}};
    for (const auto& [member, value] : expected) {
        const json::View found = json::View(object)[std::string_view(member)];
        if (!found.present()) {
            object.set(member, value);
        } else if (found.string_or("") != value) {
            return fail(found.error("expected " + value));
        }
    }
    const json::View metadata = json::View(object)["metadata"];
    CAPSTAN_TRY(const std::string_view name, metadata["name"].as_string());
    return ObjectKey{std::string(metadata["namespace"].string_or("")), std::string(name)};
}

ObjectPtr cached_object(const CallState& call, const GroupVersionKind& gvk, const ObjectKey& key) {
    for (const ReadStore& store : call.unit->stores()) {
        if (store.gvk == gvk && store.synced->load()) {
            if (auto object = store.store->get(key); object != nullptr) {
                return object;
            }
        }
    }
    return nullptr;
}

capstan_rc apply(capstan_call* handle,
                 capstan_str gvk,
                 capstan_str obj_json,
                 capstan_str sub,
                 std::uint32_t flags,
                 const capstan_obj** out) noexcept {
    capstan_rc rc = CAPSTAN_OK;
    if (obj_json.len > kube::kRequestBytesMax) {
        return report(CAPSTAN_E_TOO_LARGE,
                      "the object is over " + std::to_string(kube::kRequestBytesMax) + " bytes");
    }
    auto parsed = json::parse(view(obj_json));
    if (!parsed) {
        return report(parsed.error());
    }
    json::Value& intent = parsed.value();
    const std::string name{json::View(intent)["metadata"]["name"].string_or("")};
    Asked asked;
    if (!permit(asked, handle, gvk, "patch", name, view(sub), &rc)) {
        return rc;
    }
    CallState& call = *asked.call;
    const auto key = check_object(intent, asked.gvk);
    if (!key) {
        return report(key.error());
    }
    const std::string& manager = call.unit->field_manager();
    if (manager.empty()) {
        return report(CAPSTAN_E_INVALID, "the manifest has no fieldManager");
    }
    const bool dry_run = (flags & CAPSTAN_APPLY_DRY_RUN) != 0;
    const IntentBook::Id id{asked.gvk, key.value(), text(sub), manager};
    if (!dry_run && (flags & CAPSTAN_APPLY_ALWAYS) == 0) {
        if (auto cached = cached_object(call, asked.gvk, key.value());
            call.core->intents.would_change_nothing(id, intent, cached)) {
            call.core->metrics.suppressed_writes.with({call.unit->manifest().id}).add();
            if (out != nullptr) {
                *out = call.hand_out(std::move(cached), asked.gvk, false);
            }
            return CAPSTAN_OK;
        }
    }
    kube::PatchOptions options;
    options.type = kube::PatchType::apply;
    options.subresource = text(sub);
    options.field_manager = manager;
    options.force = (flags & CAPSTAN_APPLY_NO_FORCE) == 0;
    options.dry_run = dry_run;
    options.deadline = request_deadline(call);
    kube::Client& client = call.core->parts.client;
    auto object = await_object(
        call,
        options.deadline,
        [&client, options, kind = asked.gvk, k = key.value(), body = json::dump(intent)](
            auto done) { return client.patch(kind, k, body, options, std::move(done)); });
    count_write(call, "apply", object);
    if (!object) {
        call.core->intents.forget(id);  // after a timeout nobody knows what holds
        return report(object.error());
    }
    if (!dry_run) {
        call.core->intents.remember(id, intent, object.value());
        call.note_own_write(asked.gvk, object.value());
    }
    return hand_over(call, std::move(object).value(), asked.gvk, out);
}

capstan_rc patch(capstan_call* handle,
                 capstan_str gvk,
                 capstan_str ns,
                 capstan_str name,
                 std::int32_t type,
                 capstan_str body,
                 capstan_str sub,
                 const capstan_obj** out) noexcept {
    capstan_rc rc = CAPSTAN_OK;
    if (type != CAPSTAN_PATCH_JSON && type != CAPSTAN_PATCH_MERGE) {
        return report(CAPSTAN_E_INVALID, "unknown patch type " + std::to_string(type));
    }
    if (body.len > kube::kRequestBytesMax) {
        return report(CAPSTAN_E_TOO_LARGE,
                      "the patch is over " + std::to_string(kube::kRequestBytesMax) + " bytes");
    }
    Asked asked;
    if (!permit(asked, handle, gvk, "patch", view(name), view(sub), &rc)) {
        return rc;
    }
    CallState& call = *asked.call;
    kube::PatchOptions options;
    options.type = type == CAPSTAN_PATCH_JSON ? kube::PatchType::json : kube::PatchType::merge;
    options.subresource = text(sub);
    options.field_manager = call.unit->field_manager();
    options.deadline = request_deadline(call);
    kube::Client& client = call.core->parts.client;
    auto object = await_object(call,
                               options.deadline,
                               [&client,
                                options,
                                kind = asked.gvk,
                                key = ObjectKey{text(ns), text(name)},
                                bytes = text(body)](auto done) {
                                   return client.patch(kind, key, bytes, options, std::move(done));
                               });
    count_write(call, "patch", object);
    if (!object) {
        Error error = object.error();
        // The API server answers a failed "test" of a JSON patch with 422 and this text: the object
        // is not what the patch was made for, which is a conflict and not a bad patch.
        if (type == CAPSTAN_PATCH_JSON && error.code == Code::invalid &&
            error.message.find("rejected our request due to an error in our request") !=
                std::string::npos) {
            error.code = Code::conflict;
        }
        return report(error);
    }
    call.note_own_write(asked.gvk, object.value());
    return hand_over(call, std::move(object).value(), asked.gvk, out);
}

capstan_rc create(capstan_call* handle,
                  capstan_str gvk,
                  capstan_str obj_json,
                  const capstan_obj** out) noexcept {
    capstan_rc rc = CAPSTAN_OK;
    if (obj_json.len > kube::kRequestBytesMax) {
        return report(CAPSTAN_E_TOO_LARGE,
                      "the object is over " + std::to_string(kube::kRequestBytesMax) + " bytes");
    }
    auto parsed = json::parse(view(obj_json));
    if (!parsed) {
        return report(parsed.error());
    }
    Asked asked;
    if (!permit(asked, handle, gvk, "create", "", "", &rc)) {
        return rc;
    }
    CallState& call = *asked.call;
    const auto key = check_object(parsed.value(), asked.gvk);
    if (!key) {
        return report(key.error());
    }
    kube::WriteOptions options;
    options.field_manager = call.unit->field_manager();
    options.deadline = request_deadline(call);
    kube::Client& client = call.core->parts.client;
    auto object = await_object(call,
                               options.deadline,
                               [&client,
                                options,
                                kind = asked.gvk,
                                ns = key.value().ns,
                                bytes = json::dump(parsed.value())](auto done) {
                                   return client.create(kind, ns, bytes, options, std::move(done));
                               });
    count_write(call, "create", object);
    if (!object) {
        return report(object.error());
    }
    call.note_own_write(asked.gvk, object.value());
    return hand_over(call, std::move(object).value(), asked.gvk, out);
}

Result<kube::DeleteOptions> delete_options(std::string_view options_json) {
    kube::DeleteOptions options;
    options.propagation = kube::Propagation::background;
    if (options_json.empty()) {
        return options;
    }
    CAPSTAN_TRY(const json::Value tree, json::parse(options_json));
    const json::View wanted(tree);
    const std::string_view propagation = wanted["propagationPolicy"].string_or("Background");
    if (propagation == "Foreground") {
        options.propagation = kube::Propagation::foreground;
    } else if (propagation == "Orphan") {
        options.propagation = kube::Propagation::orphan;
    } else if (propagation != "Background") {
        return fail(wanted["propagationPolicy"].error("expected Background, Foreground or Orphan"));
    }
    if (wanted["gracePeriodSeconds"].present()) {
        CAPSTAN_TRY(options.grace_period_seconds, wanted["gracePeriodSeconds"].as_int());
    }
    return options;
}

capstan_rc remove(capstan_call* handle, const capstan_obj* obj, capstan_str options_json) noexcept {
    const auto reference = handles().objects.find(obj);
    const auto owner = reference == nullptr ? nullptr : reference->call.lock();
    if (reference == nullptr || !reference->live || owner == nullptr || owner->handle != handle) {
        capstan_rc rc = CAPSTAN_OK;
        const auto call = enter(handle, &rc);
        if (call == nullptr) {
            return rc;
        }
        return report(CAPSTAN_E_INVALID,
                      "only an object from a live get of the same call can be deleted");
    }
    capstan_rc rc = CAPSTAN_OK;
    Asked asked;
    const std::string gvk = reference->gvk.to_string();
    const ObjectKey key = reference->object->key();
    if (!permit(asked, handle, str(gvk), "delete", key.name, "", &rc)) {
        return rc;
    }
    CallState& call = *asked.call;
    auto options = delete_options(view(options_json));
    if (!options) {
        return report(options.error());
    }
    options.value().uid = std::string(reference->object->uid());
    options.value().resource_version = std::string(reference->object->resource_version());
    options.value().deadline = request_deadline(call);
    kube::Client& client = call.core->parts.client;
    auto object = await_object(call,
                               options.value().deadline,
                               [&client, o = options.value(), kind = asked.gvk, key](auto done) {
                                   return client.remove(kind, key, o, std::move(done));
                               });
    count_write(call, "delete", object);
    if (!object) {
        return report(object.error());
    }
    if (object.value() == nullptr) {
        call.core->parts.cache.note_delete(asked.gvk, key, options.value().uid);
    } else {
        call.note_own_write(asked.gvk, object.value());
    }
    return CAPSTAN_OK;
}

}  // namespace

const capstan_ext_client kClientTable{
    {sizeof(capstan_ext_client), CAPSTAN_ABI}, &get, &list, &apply, &patch, &create, &remove};

}  // namespace capstan::control
