#include "test/controllers/memory_host.hpp"

#include <functional>
#include <memory>

// Declared only, so pointers of the ABI lead back to us without casts of unrelated types.
struct capstan_call {
    capstan::test::MemoryHost* host;
};
struct capstan_obj {
    std::string bytes, group_kind, uid, version;
    capstan::ObjectKey key;
    bool live;
};
struct capstan_hash {
    std::string text;
};

namespace capstan::test {

struct MemoryHost::Tables {
    static MemoryHost& self(const capstan_host* host) noexcept {
        return *static_cast<MemoryHost*>(host->self);
    }

    static capstan_rc fail_with(MemoryHost& host, capstan_rc rc, const std::string& message) {
        host.last_error_ = json::dump({{"code", std::int64_t{rc}}, {"message", message}});
        return rc;
    }

    // Runs `work` unless this is the call that shall fail.
    static capstan_rc counted(MemoryHost& host, const std::function<Result<void>()>& work) {
        const bool fails = host.calls++ == host.fail_at;
        if (fails && !host.fail_after) {
            return fail_with(host, host.fail_rc, "injected failure");
        }
        auto done = work();
        if (fails) {
            return fail_with(host, host.fail_rc, "injected failure, after the effect");
        }
        return done ? CAPSTAN_OK : fail_with(host, rc_of(done.error().code), done.error().message);
    }

    static capstan_obj* object_of(const json::Value& value,
                                  std::string_view group_kind,
                                  bool live) {
        const json::View meta = json::View(value)["metadata"];
        return new capstan_obj{
            json::dump(value),
            std::string(group_kind),
            std::string(meta["uid"].string_or("")),
            std::string(meta["resourceVersion"].string_or("")),
            {std::string(meta["namespace"].string_or("")), std::string(meta["name"].string_or(""))},
            live};
    }

    static std::string group_kind(capstan_str gvk) {
        return GroupVersionKind::parse(view_of(gvk)).value().group_kind();
    }

    // ---- cache and client reads
    static capstan_rc read(capstan_call* call,
                           const std::string& gk,
                           capstan_str ns,
                           capstan_str name,
                           bool live,
                           const capstan_obj** out) {
        std::unique_ptr<capstan_obj> object;  // handed over only with CAPSTAN_OK
        const capstan_rc rc = counted(*call->host, [&]() -> Result<void> {
            const ObjectKey key{std::string(view_of(ns)), std::string(view_of(name))};
            const json::Value* found = call->host->store.find(gk, key);
            if (found == nullptr) {
                return fail(Code::not_found, "get " + gk + " " + key.to_string() + ": not found");
            }
            object.reset(object_of(*found, gk, live));
            return ok();
        });
        if (rc == CAPSTAN_OK) {
            *out = object.release();
        }
        return rc;
    }
    static capstan_rc cache_get(capstan_call* call,
                                capstan_str gk,
                                capstan_str ns,
                                capstan_str name,
                                const capstan_obj** out) noexcept {
        return read(call, std::string(view_of(gk)), ns, name, false, out);
    }
    static capstan_rc client_get(capstan_call* call,
                                 capstan_str gvk,
                                 capstan_str ns,
                                 capstan_str name,
                                 const capstan_obj** out) noexcept {
        return read(call, group_kind(gvk), ns, name, true, out);
    }
    static capstan_rc cache_list(capstan_call* call,
                                 capstan_str gk,
                                 capstan_str ns,
                                 capstan_str selector,
                                 capstan_rc (*visit)(void*, const capstan_obj*),
                                 void* user) noexcept {
        return counted(*call->host, [&]() -> Result<void> {
            for (const json::Value* found :
                 call->host->store.list(view_of(gk), view_of(ns), view_of(selector))) {
                std::unique_ptr<capstan_obj> object(object_of(*found, view_of(gk), false));
                if (visit(user, object.get()) != CAPSTAN_OK) {
                    return fail(Code::internal, "visit refused");
                }
            }
            return ok();
        });
    }
    static capstan_str bytes(const capstan_obj* object) noexcept { return to_str(object->bytes); }
    static void release(const capstan_obj* object) noexcept { delete object; }

    // ---- writes
    static void log_sent(MemoryHost& host,
                         const std::string& verb,
                         const std::string& kind,
                         const ObjectKey& key,
                         std::string_view subresource = "") {
        host.sent.push_back(verb + " " + kind + " " + key.to_string() +
                            (subresource.empty() ? "" : " " + std::string(subresource)));
    }
    static capstan_rc apply(capstan_call* call,
                            capstan_str gvk,
                            capstan_str text,
                            capstan_str sub,
                            std::uint32_t,
                            const capstan_obj**) noexcept {
        MemoryHost& host = *call->host;
        return counted(host, [&]() -> Result<void> {
            CAPSTAN_TRY(auto intent, json::parse(view_of(text)));
            const json::View meta = json::View(intent)["metadata"];
            const ObjectKey key{std::string(meta["namespace"].string_or("")),
                                std::string(meta["name"].string_or(""))};
            const std::string id =
                group_kind(gvk) + "|" + key.to_string() + "|" + std::string(view_of(sub));
            std::string& before = host.applied_[id];
            const json::Value* present = host.store.find(group_kind(gvk), key);
            if (present != nullptr && before == json::dump_sorted(intent) &&
                covers(*present, intent)) {
                return ok();
            }
            log_sent(host, "apply", group_kind(gvk), key, view_of(sub));
            const json::Value old = before.empty() ? json::object() : json::parse(before).value();
            CAPSTAN_TRY(host.store.apply(intent, view_of(sub), old));
            before = json::dump_sorted(intent);
            return ok();
        });
    }
    static capstan_rc patch(capstan_call* call,
                            capstan_str gvk,
                            capstan_str ns,
                            capstan_str name,
                            std::int32_t type,
                            capstan_str body,
                            capstan_str,
                            const capstan_obj**) noexcept {
        return counted(*call->host, [&]() -> Result<void> {
            if (type != CAPSTAN_PATCH_JSON) {
                return fail(Code::unsupported, "only JSON patch");
            }
            const ObjectKey key{std::string(view_of(ns)), std::string(view_of(name))};
            log_sent(*call->host, "patch", group_kind(gvk), key);
            CAPSTAN_TRY(auto operations, json::parse(view_of(body)));
            return call->host->store.patch_json(group_kind(gvk), key, operations);
        });
    }
    static capstan_rc create(capstan_call* call,
                             capstan_str gvk,
                             capstan_str text,
                             const capstan_obj**) noexcept {
        return counted(*call->host, [&]() -> Result<void> {
            CAPSTAN_TRY(auto object, json::parse(view_of(text)));
            const json::View meta = json::View(object)["metadata"];
            log_sent(*call->host,
                     "create",
                     group_kind(gvk),
                     {std::string(meta["namespace"].string_or("")),
                      std::string(meta["name"].string_or(""))});
            return call->host->store.create(object);
        });
    }
    static capstan_rc remove(capstan_call* call, const capstan_obj* object, capstan_str) noexcept {
        return counted(*call->host, [&]() -> Result<void> {
            if (!object->live) {
                return fail(Code::invalid, "a cached object cannot be deleted");
            }
            log_sent(*call->host, "remove", object->group_kind, object->key);
            return call->host->store.remove(
                object->group_kind, object->key, object->uid, object->version);
        });
    }

    // ---- the rest
    static void done(capstan_call* call, const capstan_result* result) noexcept {
        call->host->pass_ = {
            result->rc,
            result->retry,
            std::chrono::nanoseconds(result->after_ns),
            std::string(view_of(result->message)),
        };
    }
    static capstan_str last_error(capstan_call* call) noexcept {
        return to_str(call->host->last_error_);
    }
    static std::int32_t cancelled(capstan_call*) noexcept { return 0; }
    static std::uint64_t deadline(capstan_call*) noexcept { return CAPSTAN_NEVER; }
    static std::int32_t enabled(capstan_call* call, capstan_str gate) noexcept {
        return call->host->gates.contains(std::string(view_of(gate))) ? 1 : 0;
    }
    static capstan_rc emit(capstan_call* call, const capstan_event* event) noexcept {
        call->host->events.emplace_back(view_of(event->reason));
        return CAPSTAN_OK;
    }
    static std::uint64_t monotonic(const capstan_host*) noexcept { return 1; }
    static std::int64_t wall(const capstan_host* host) noexcept {
        return self(host).now.time_since_epoch().count();
    }
    static capstan_rc digest_open(const capstan_host*,
                                  std::int32_t,
                                  capstan_str,
                                  capstan_hash** out) noexcept {
        *out = new capstan_hash;
        return CAPSTAN_OK;
    }
    static capstan_rc digest_update(capstan_hash* hash, capstan_str bytes) noexcept {
        hash->text += view_of(bytes);
        return CAPSTAN_OK;
    }
    // Not SHA-256: equal texts give equal digests.
    static capstan_rc digest_finish(capstan_hash* hash,
                                    std::uint8_t* out,
                                    std::uint32_t* length) noexcept {
        std::size_t value = std::hash<std::string>{}(hash->text);
        for (*length = 0; *length < 32; ++*length) {
            out[*length] = static_cast<std::uint8_t>(value >> (*length % 8 * 8));
        }
        delete hash;
        return CAPSTAN_OK;
    }
    static void log(const capstan_host*, std::int32_t, capstan_str, capstan_str) noexcept {}
    static void refuse(const capstan_host*, capstan_rc, capstan_str) noexcept {}

    static const void* get_ext(const capstan_host*, capstan_str id) noexcept {
        static const capstan_ext_call calls{
            {sizeof(capstan_ext_call), CAPSTAN_ABI}, cancelled, deadline, done, last_error};
        static const capstan_ext_cache cache{{sizeof(capstan_ext_cache), CAPSTAN_ABI},
                                             cache_get,
                                             cache_list,
                                             bytes,
                                             nullptr,
                                             release};
        static const capstan_ext_client client{{sizeof(capstan_ext_client), CAPSTAN_ABI},
                                               client_get,
                                               nullptr,
                                               apply,
                                               patch,
                                               create,
                                               remove};
        static const capstan_ext_events events{{sizeof(capstan_ext_events), CAPSTAN_ABI}, emit};
        static const capstan_ext_features features{{sizeof(capstan_ext_features), CAPSTAN_ABI},
                                                   enabled};
        static const capstan_ext_clock clock{{sizeof(capstan_ext_clock), CAPSTAN_ABI},
                                             monotonic,
                                             wall,
                                             nullptr,
                                             nullptr,
                                             nullptr,
                                             nullptr};
        static const capstan_ext_digest digest{
            {sizeof(capstan_ext_digest), CAPSTAN_ABI}, digest_open, digest_update, digest_finish};
        const std::string_view name = view_of(id);
        return name == "capstan.call/1"       ? static_cast<const void*>(&calls)
               : name == "capstan.cache/1"    ? static_cast<const void*>(&cache)
               : name == "capstan.client/1"   ? static_cast<const void*>(&client)
               : name == "capstan.events/1"   ? static_cast<const void*>(&events)
               : name == "capstan.features/1" ? static_cast<const void*>(&features)
               : name == "capstan.clock/1"    ? static_cast<const void*>(&clock)
               : name == "capstan.digest/1"   ? static_cast<const void*>(&digest)
                                              : nullptr;
    }
};

MemoryHost::MemoryHost(std::string manager) : manager_(std::move(manager)) {
    host_ = {
        {sizeof(capstan_host), CAPSTAN_ABI}, this, Tables::get_ext, Tables::log, Tables::refuse};
}

MemoryHost::~MemoryHost() {
    if (ctl_ != nullptr) {
        plugin_->stop(ctl_, CAPSTAN_NEVER);
        plugin_->destroy(ctl_);
    }
}

bool MemoryHost::load(const capstan_plugin* (*entry)(const capstan_host*),
                      const json::Value& config) {
    plugin_ = entry(&host_);
    const std::string text = json::dump(config);
    return plugin_ != nullptr && plugin_->create(&host_, to_str(text), &ctl_) == CAPSTAN_OK &&
           plugin_->start(ctl_) == CAPSTAN_OK;
}

Pass MemoryHost::reconcile(std::string_view controller,
                           const GroupVersionKind& gvk,
                           const ObjectKey& key) {
    capstan_call call{this};
    capstan_request request{};
    request.head = {sizeof(capstan_request), CAPSTAN_ABI};
    request.controller = to_str(controller);
    request.group = to_str(gvk.group);
    request.kind = to_str(gvk.kind);
    request.ns = to_str(key.ns);
    request.name = to_str(key.name);
    pass_ = {};
    const capstan_rc rc = plugin_->reconcile(ctl_, &call, &request);
    if (pass_.rc == CAPSTAN_OK && rc != CAPSTAN_OK) {
        pass_.rc = rc;
    }
    return pass_;
}

}  // namespace capstan::test
