// The objects of the fake host as a plugin reaches them: the tables of cache and client.
#include "fake_state.hpp"

namespace capstan::testing {

namespace {

const FakeObject* to_fake(const capstan_obj* object) noexcept {
    return reinterpret_cast<const FakeObject*>(object);
}
FakeObject* to_mutable(const capstan_obj* object) noexcept {
    return reinterpret_cast<FakeObject*>(const_cast<capstan_obj*>(object));
}
const capstan_obj* to_abi(const FakeObject* object) noexcept {
    return reinterpret_cast<const capstan_obj*>(object);
}

// ---- cache

capstan_rc visit_all(FakeState& state,
                     const std::vector<const json::Value*>& found,
                     capstan_rc (*visit)(void*, const capstan_obj*),
                     void* user) {
    for (const json::Value* value : found) {
        FakeObject* object = state.hand_out(nullptr, *value, false);
        const capstan_rc rc = visit(user, to_abi(object));
        delete object;
        if (rc != CAPSTAN_OK) {
            return rc;
        }
    }
    return CAPSTAN_OK;
}

capstan_rc cache_get(capstan_call* raw,
                     capstan_str gk,
                     capstan_str ns,
                     capstan_str name,
                     const capstan_obj** out) noexcept {
    FakeCall* call = testing::to_fake(raw);
    FakeState& state = *call->state;
    const ObjectKey key = key_from(ns, name);
    if (const capstan_rc rc = state.enter(call, "cache.get", view(gk), key); rc != CAPSTAN_OK) {
        return rc;
    }
    const json::Value* found = state.world.find(view(gk), key, state.stale_cache);
    if (found == nullptr) {
        return state.refuse(
            call,
            {Code::not_found, std::string(view(gk)) + " " + key.to_string() + ": not found", {}});
    }
    *out = to_abi(state.hand_out(call, *found, false));
    return CAPSTAN_OK;
}

capstan_rc cache_list(capstan_call* raw,
                      capstan_str gk,
                      capstan_str ns,
                      capstan_str selector,
                      capstan_rc (*visit)(void*, const capstan_obj*),
                      void* user) noexcept {
    FakeCall* call = testing::to_fake(raw);
    FakeState& state = *call->state;
    if (const capstan_rc rc = state.enter(call, "cache.list", view(gk), key_from(ns, {}));
        rc != CAPSTAN_OK) {
        return rc;
    }
    return visit_all(state,
                     state.world.list(view(gk), view(ns), view(selector), state.stale_cache),
                     visit,
                     user);
}

capstan_str bytes(const capstan_obj* object) noexcept {
    return str(to_fake(object)->bytes);
}

capstan_rc field(const capstan_obj* raw, capstan_str pointer, capstan_str* raw_json) noexcept {
    FakeObject* object = to_mutable(raw);
    const json::Value* found = object->value.pointer(view(pointer));
    if (found == nullptr) {
        return CAPSTAN_E_NOT_FOUND;
    }
    object->fields.push_back(json::dump(*found));
    *raw_json = str(object->fields.back());
    return CAPSTAN_OK;
}

void release(const capstan_obj* raw) noexcept {
    FakeObject* object = to_mutable(raw);
    for (FakeCall* call : object->state->open_calls) {
        call->objects.erase(object);
    }
    delete object;
}

// ---- client

capstan_rc client_get(capstan_call* raw,
                      capstan_str gvk,
                      capstan_str ns,
                      capstan_str name,
                      const capstan_obj** out) noexcept {
    FakeCall* call = testing::to_fake(raw);
    FakeState& state = *call->state;
    const ObjectKey key = key_from(ns, name);
    const std::string gk = group_kind_of(view(gvk));
    if (const capstan_rc rc = state.enter(call, "client.get", gk, key); rc != CAPSTAN_OK) {
        return rc;
    }
    const json::Value* found = state.world.find(gk, key);
    if (found == nullptr) {
        return state.refuse(call,
                            {Code::not_found, gk + " " + key.to_string() + ": not found", {}});
    }
    *out = to_abi(state.hand_out(call, *found, true));
    return CAPSTAN_OK;
}

capstan_rc client_list(capstan_call* raw,
                       capstan_str gvk,
                       capstan_str ns,
                       capstan_str selector,
                       capstan_rc (*visit)(void*, const capstan_obj*),
                       void* user) noexcept {
    FakeCall* call = testing::to_fake(raw);
    FakeState& state = *call->state;
    const std::string gk = group_kind_of(view(gvk));
    if (const capstan_rc rc = state.enter(call, "client.list", gk, key_from(ns, {}));
        rc != CAPSTAN_OK) {
        return rc;
    }
    return visit_all(state, state.world.list(gk, view(ns), view(selector), false), visit, user);
}

capstan_rc finish_write(FakeCall* call,
                        const Result<json::Value>& written,
                        bool changed,
                        const capstan_obj** out) {
    if (!written) {
        return call->state->refuse(call, written.error());
    }
    call->state->calls.back().changed = changed;
    if (out != nullptr) {
        *out = to_abi(call->state->hand_out(call, written.value(), true));
    }
    return CAPSTAN_OK;
}

// Parses the body of a write and enters the call.
capstan_rc begin_write(FakeCall* call,
                       std::string_view verb,
                       capstan_str gvk,
                       const ObjectKey* key,
                       capstan_str body,
                       json::Value& parsed) {
    auto value = json::parse(view(body));
    const ObjectKey target = key != nullptr ? *key : (value ? key_of(value.value()) : ObjectKey{});
    const capstan_rc rc =
        call->state->enter(call, verb, group_kind_of(view(gvk)), target, view(body));
    if (rc != CAPSTAN_OK) {
        return rc;
    }
    if (!value) {
        return call->state->refuse(call, value.error());
    }
    parsed = std::move(value).value();
    return CAPSTAN_OK;
}

capstan_rc apply(capstan_call* raw,
                 capstan_str gvk,
                 capstan_str body,
                 capstan_str sub,
                 std::uint32_t flags,
                 const capstan_obj** out) noexcept {
    FakeCall* call = testing::to_fake(raw);
    json::Value intent;
    if (const capstan_rc rc = begin_write(call, "client.apply", gvk, nullptr, body, intent);
        rc != CAPSTAN_OK) {
        return rc;
    }
    bool changed = false;
    const auto written = call->state->world.apply(
        view(gvk), intent, view(sub), (flags & CAPSTAN_APPLY_DRY_RUN) != 0, changed);
    return finish_write(call, written, changed, out);
}

capstan_rc patch(capstan_call* raw,
                 capstan_str gvk,
                 capstan_str ns,
                 capstan_str name,
                 std::int32_t type,
                 capstan_str body,
                 capstan_str sub,
                 const capstan_obj** out) noexcept {
    FakeCall* call = testing::to_fake(raw);
    const ObjectKey key = key_from(ns, name);
    json::Value parsed;
    if (const capstan_rc rc = begin_write(call, "client.patch", gvk, &key, body, parsed);
        rc != CAPSTAN_OK) {
        return rc;
    }
    bool changed = false;
    const auto written = call->state->world.patch(view(gvk), key, type, parsed, view(sub), changed);
    return finish_write(call, written, changed, out);
}

capstan_rc create(capstan_call* raw,
                  capstan_str gvk,
                  capstan_str body,
                  const capstan_obj** out) noexcept {
    FakeCall* call = testing::to_fake(raw);
    json::Value object;
    if (const capstan_rc rc = begin_write(call, "client.create", gvk, nullptr, body, object);
        rc != CAPSTAN_OK) {
        return rc;
    }
    return finish_write(call, call->state->world.create(view(gvk), std::move(object)), true, out);
}

capstan_rc remove(capstan_call* raw, const capstan_obj* object, capstan_str) noexcept {
    FakeCall* call = testing::to_fake(raw);
    const FakeObject* target = to_fake(object);
    const json::View view_of_target(target->value);
    const std::string gk =
        GroupVersionKind::from_api_version(view_of_target["apiVersion"].string_or(""),
                                           view_of_target["kind"].string_or(""))
            .group_kind();
    if (const capstan_rc rc = call->state->enter(call, "client.remove", gk, key_of(target->value));
        rc != CAPSTAN_OK) {
        return rc;
    }
    if (!target->live) {
        return call->state->refuse(
            call, {Code::invalid, "the object does not come from a live get of this call", {}});
    }
    const Result<void> removed =
        call->state->world.remove(gk, key_of(target->value), &target->value);
    if (!removed) {
        return call->state->refuse(call, removed.error());
    }
    call->state->calls.back().changed = true;
    return CAPSTAN_OK;
}

}  // namespace

const capstan_ext_cache* fake_cache() noexcept {
    static const capstan_ext_cache kCache{
        head<capstan_ext_cache>(), &cache_get, &cache_list, &bytes, &field, &release};
    return &kCache;
}

const capstan_ext_client* fake_client() noexcept {
    static const capstan_ext_client kClient{
        head<capstan_ext_client>(), &client_get, &client_list, &apply, &patch, &create, &remove};
    return &kClient;
}

}  // namespace capstan::testing
