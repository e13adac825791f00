// Objects from C++: read from the cache, read and written through the client.
#include "capstan/plugin.hpp"

#include <exception>

namespace capstan {
namespace {

std::string context(std::string_view verb, std::string_view kind, const ObjectKey& key) {
    return std::string(verb) + " " + std::string(kind) + " " + key.to_string();
}

// Collects list results. An exception must not cross the host's frames, so it
// is carried around them.
struct Collector {
    const capstan_ext_cache* table;
    std::vector<json::Value> values;
    Error error;
    std::exception_ptr thrown;

    static capstan_rc visit(void* user, const capstan_obj* object) noexcept {
        auto* self = static_cast<Collector*>(user);
        try {
            auto parsed = json::parse(view_of(self->table->bytes(object)));
            if (!parsed) {
                self->error = parsed.error();
                return CAPSTAN_E_INTERNAL;
            }
            self->values.push_back(std::move(parsed).value());
            return CAPSTAN_OK;
        } catch (...) {
            self->thrown = std::current_exception();
            return CAPSTAN_E_PANIC;
        }
    }
};

}  // namespace

Object& Object::operator=(Object&& other) noexcept {
    if (this != &other) {
        reset();
        table_ = other.table_;
        handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
}

void Object::reset() noexcept {
    if (handle_ != nullptr) {
        table_->release(std::exchange(handle_, nullptr));
    }
}

std::string_view Object::bytes() const noexcept {
    return handle_ == nullptr ? std::string_view() : view_of(table_->bytes(handle_));
}

Result<json::Value> Object::parse() const {
    return json::parse(bytes());
}

Result<json::Value> Object::parse(std::string_view pointer) const {
    capstan_str raw{};
    if (handle_ == nullptr || table_->field(handle_, to_str(pointer), &raw) != CAPSTAN_OK) {
        return fail(Code::not_found, std::string(pointer) + ": missing");
    }
    return json::parse(view_of(raw));
}

Result<std::string> Object::text(std::string_view pointer) const {
    CAPSTAN_TRY(const json::Value value, parse(pointer));
    if (value.if_string() == nullptr) {
        return fail(Code::invalid,
                    std::string(pointer) + ": expected string, found " +
                        std::string(json::to_string(value.kind())));
    }
    return *value.if_string();
}

Result<Object> Cache::get(std::string_view gk, const ObjectKey& key) {
    const HostTables& host = call_->host();
    const capstan_obj* object = nullptr;
    const capstan_rc rc =
        host.cache->get(call_->handle(), to_str(gk), to_str(key.ns), to_str(key.name), &object);
    if (rc != CAPSTAN_OK) {
        return fail(call_->last_error(rc, context("read", gk, key)));
    }
    return Object(host.cache, object);
}

Result<json::Value> Cache::get_value(std::string_view gk, const ObjectKey& key) {
    CAPSTAN_TRY(const Object object, get(gk, key));
    return object.parse();
}

Result<std::vector<json::Value>> Cache::list(std::string_view gk,
                                             std::string_view ns,
                                             std::string_view selector) {
    const HostTables& host = call_->host();
    Collector collector{host.cache, {}, {}, {}};
    const capstan_rc rc = host.cache->list(
        call_->handle(), to_str(gk), to_str(ns), to_str(selector), &Collector::visit, &collector);
    if (collector.thrown) {
        std::rethrow_exception(collector.thrown);
    }
    if (rc != CAPSTAN_OK) {
        return fail(collector.error.message.empty()
                        ? call_->last_error(rc, "list " + std::string(gk))
                        : collector.error);
    }
    return std::move(collector.values);
}

Result<Object> Client::get(std::string_view gvk, const ObjectKey& key) {
    const HostTables& host = call_->host();
    const capstan_obj* object = nullptr;
    const capstan_rc rc =
        host.client->get(call_->handle(), to_str(gvk), to_str(key.ns), to_str(key.name), &object);
    if (rc != CAPSTAN_OK) {
        return fail(call_->last_error(rc, context("get", gvk, key)));
    }
    return Object(host.cache, object);
}

Result<json::Value> Client::get_value(std::string_view gvk, const ObjectKey& key) {
    CAPSTAN_TRY(const Object object, get(gvk, key));
    return object.parse();
}

Result<std::vector<json::Value>> Client::list(std::string_view gvk,
                                              std::string_view ns,
                                              std::string_view selector) {
    const HostTables& host = call_->host();
    Collector collector{host.cache, {}, {}, {}};
    const capstan_rc rc = host.client->list(
        call_->handle(), to_str(gvk), to_str(ns), to_str(selector), &Collector::visit, &collector);
    if (collector.thrown) {
        std::rethrow_exception(collector.thrown);
    }
    if (rc != CAPSTAN_OK) {
        return fail(collector.error.message.empty()
                        ? call_->last_error(rc, "list " + std::string(gvk))
                        : collector.error);
    }
    return std::move(collector.values);
}

Result<void> Client::apply(std::string_view gvk,
                           const json::Value& intent,
                           const ApplyOptions& options) {
    const std::uint32_t flags = (options.force ? 0U : CAPSTAN_APPLY_NO_FORCE) |
                                (options.dry_run ? CAPSTAN_APPLY_DRY_RUN : 0U) |
                                (options.always ? CAPSTAN_APPLY_ALWAYS : 0U);
    const capstan_rc rc = call_->host().client->apply(call_->handle(),
                                                      to_str(gvk),
                                                      to_str(json::dump(intent)),
                                                      to_str(options.subresource),
                                                      flags,
                                                      nullptr);
    if (rc != CAPSTAN_OK) {
        const json::View metadata = json::View(intent)["metadata"];
        const ObjectKey key{std::string(metadata["namespace"].string_or("")),
                            std::string(metadata["name"].string_or(""))};
        return fail(call_->last_error(rc, context("apply", gvk, key)));
    }
    return ok();
}

namespace {

Result<void> send_patch(Call& call,
                        std::string_view gvk,
                        const ObjectKey& key,
                        std::int32_t type,
                        const json::Value& body,
                        std::string_view sub) {
    const capstan_rc rc = call.host().client->patch(call.handle(),
                                                    to_str(gvk),
                                                    to_str(key.ns),
                                                    to_str(key.name),
                                                    type,
                                                    to_str(json::dump(body)),
                                                    to_str(sub),
                                                    nullptr);
    if (rc != CAPSTAN_OK) {
        return fail(call.last_error(rc, context("patch", gvk, key)));
    }
    return ok();
}

}  // namespace

Result<void> Client::patch_json(std::string_view gvk,
                                const ObjectKey& key,
                                const json::Value& operations,
                                std::string_view subresource) {
    return send_patch(*call_, gvk, key, CAPSTAN_PATCH_JSON, operations, subresource);
}

Result<void> Client::patch_merge(std::string_view gvk,
                                 const ObjectKey& key,
                                 const json::Value& patch,
                                 std::string_view subresource) {
    return send_patch(*call_, gvk, key, CAPSTAN_PATCH_MERGE, patch, subresource);
}

Result<void> Client::create(std::string_view gvk, const json::Value& object) {
    const capstan_rc rc = call_->host().client->create(
        call_->handle(), to_str(gvk), to_str(json::dump(object)), nullptr);
    if (rc != CAPSTAN_OK) {
        const json::View metadata = json::View(object)["metadata"];
        const ObjectKey key{std::string(metadata["namespace"].string_or("")),
                            std::string(metadata["name"].string_or(""))};
        return fail(call_->last_error(rc, context("create", gvk, key)));
    }
    return ok();
}

Result<void> Client::remove(const Object& object, const RemoveOptions& options) {
    json::Value text = {{"propagationPolicy", options.propagation}};
    if (options.grace_period_seconds >= 0) {
        text.set("gracePeriodSeconds", options.grace_period_seconds);
    }
    const capstan_rc rc =
        call_->host().client->remove(call_->handle(), object.handle(), to_str(json::dump(text)));
    if (rc != CAPSTAN_OK) {
        return fail(call_->last_error(rc, "delete"));
    }
    return ok();
}

}  // namespace capstan
