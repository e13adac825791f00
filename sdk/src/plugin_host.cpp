// Host calls from C++: tables to Result.
#include "capstan/plugin.hpp"

#include <algorithm>
#include <array>
#include <exception>

namespace capstan {
namespace {

struct CodePair {
    capstan_rc rc;
    Code code;
};
constexpr std::array<CodePair, 16> kCodes{{
    {CAPSTAN_E_INVALID, Code::invalid},
    {CAPSTAN_E_NOT_FOUND, Code::not_found},
    {CAPSTAN_E_CONFLICT, Code::conflict},
    {CAPSTAN_E_EXISTS, Code::exists},
    {CAPSTAN_E_DENIED, Code::denied},
    {CAPSTAN_E_FORBIDDEN, Code::forbidden},
    {CAPSTAN_E_THROTTLED, Code::overloaded},
    {CAPSTAN_E_DEADLINE, Code::timeout},
    {CAPSTAN_E_CANCELLED, Code::cancelled},
    {CAPSTAN_E_FENCED, Code::fenced},
    {CAPSTAN_E_UNAVAIL, Code::unavailable},
    {CAPSTAN_E_TOO_LARGE, Code::too_large},
    {CAPSTAN_E_UNSUPP, Code::unsupported},
    {CAPSTAN_E_INTERNAL, Code::internal},
    {CAPSTAN_E_EXPIRED, Code::expired},
    {CAPSTAN_E_PANIC, Code::internal},
}};

Error missing_table(std::string_view id) {
    return Error{Code::unsupported, "the host has no " + std::string(id), {}};
}

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

std::int64_t to_abi_ns(MonotonicTime time) noexcept {
    return std::max<std::int64_t>(time.count(), 0);
}
std::uint64_t until_ns(MonotonicTime time) noexcept {
    return time == kNever ? CAPSTAN_NEVER : static_cast<std::uint64_t>(to_abi_ns(time));
}

}  // namespace

Code code_of(capstan_rc rc) noexcept {
    for (const CodePair& pair : kCodes) {
        if (pair.rc == rc) {
            return pair.code;
        }
    }
    return Code::internal;
}

capstan_rc rc_of(Code code) noexcept {
    for (const CodePair& pair : kCodes) {
        if (pair.code == code) {
            return pair.rc;
        }
    }
    return CAPSTAN_E_INTERNAL;
}

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

Result<std::string> Object::text(std::string_view pointer) const {
    capstan_str raw{};
    if (handle_ == nullptr || table_->field(handle_, to_str(pointer), &raw) != CAPSTAN_OK) {
        return fail(Code::not_found, std::string(pointer) + ": missing");
    }
    CAPSTAN_TRY(const json::Value value, json::parse(view_of(raw)));
    if (value.if_string() == nullptr) {
        return fail(Code::invalid,
                    std::string(pointer) + ": expected string, found " +
                        std::string(json::to_string(value.kind())));
    }
    return *value.if_string();
}

bool Call::cancelled() const noexcept {
    return host_->call != nullptr && host_->call->cancelled(handle_) != 0;
}

MonotonicTime Call::deadline() const noexcept {
    const std::uint64_t ns =
        host_->call == nullptr ? CAPSTAN_NEVER : host_->call->deadline_ns(handle_);
    return ns > static_cast<std::uint64_t>(INT64_MAX)
               ? kNever
               : MonotonicTime(static_cast<std::int64_t>(ns));
}

bool Call::enabled(std::string_view gate) const noexcept {
    return host_->features != nullptr && host_->features->enabled(handle_, to_str(gate)) == 1;
}

Error Call::last_error(capstan_rc rc, std::string_view what) const {
    Error error{code_of(rc), std::string(what), {}};
    if (host_->call == nullptr) {
        return error;
    }
    const auto detail = json::parse(view_of(host_->call->last_error_json(handle_)));
    if (detail) {
        const json::View view(detail.value());
        const std::string_view message = view["message"].string_or("");
        error.message += ": " + std::string(message.empty() ? to_string(error.code) : message);
        error.retry_after = std::chrono::duration_cast<std::chrono::milliseconds>(
            std::chrono::nanoseconds(view["retryAfterNs"].int_or(0)));
    } else {
        error.message += ": " + std::string(to_string(error.code));
    }
    return error;
}

Result<void> Call::wait(Token& token, MonotonicTime until) {
    if (host_->clock == nullptr) {
        return fail(missing_table("capstan.clock/1"));
    }
    const capstan_rc rc = host_->clock->wait(handle_, token.handle(), until_ns(until));
    if (rc != CAPSTAN_OK) {
        return fail(code_of(rc), "wait: " + std::string(to_string(code_of(rc))));
    }
    return ok();
}

Result<void> Call::sleep_until(MonotonicTime until) {
    if (host_->clock == nullptr) {
        return fail(missing_table("capstan.clock/1"));
    }
    const capstan_rc rc = host_->clock->wait(handle_, nullptr, until_ns(until));
    if (rc != CAPSTAN_OK && rc != CAPSTAN_E_DEADLINE) {
        return fail(code_of(rc), "sleep: " + std::string(to_string(code_of(rc))));
    }
    // A wait may end early at the call's own deadline; then the time has not come.
    if (now() < until) {
        return fail(Code::timeout, "sleep: the call's deadline passed");
    }
    return ok();
}

Result<void> Call::enqueue(std::string_view controller,
                           const ObjectKey& key,
                           std::chrono::nanoseconds after) {
    if (host_->queue == nullptr) {
        return fail(missing_table("capstan.queue/1"));
    }
    const auto delay = static_cast<std::uint64_t>(std::max<std::int64_t>(after.count(), 0));
    const capstan_rc rc =
        host_->queue->add(handle_, to_str(controller), to_str(key.ns), to_str(key.name), delay);
    if (rc != CAPSTAN_OK) {
        return fail(last_error(rc, context("enqueue", controller, key)));
    }
    return ok();
}

void Call::event(const GroupVersionKind& gvk,
                 const ObjectKey& regarding,
                 std::string_view uid,
                 std::string_view type,
                 std::string_view reason,
                 std::string_view note) {
    if (host_->events == nullptr) {
        return;
    }
    const std::string kind = gvk.to_string();
    const capstan_event event{{sizeof(capstan_event), CAPSTAN_ABI},
                              to_str(kind),
                              to_str(regarding.ns),
                              to_str(regarding.name),
                              to_str(uid),
                              to_str(type),
                              to_str(reason),
                              to_str("Reconcile"),
                              to_str(note)};
    host_->events->emit(handle_, &event);
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

Token::Token(const HostTables& host)
    : host_(&host),
      handle_(host.clock == nullptr ? nullptr : host.clock->token_create(host.host)) {}

Token& Token::operator=(Token&& other) noexcept {
    if (this != &other) {
        reset();
        host_ = other.host_;
        handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
}

void Token::reset() noexcept {
    if (handle_ != nullptr) {
        host_->clock->token_destroy(std::exchange(handle_, nullptr));
    }
}

void Token::notify() noexcept {
    if (handle_ != nullptr) {
        host_->clock->notify(handle_);
    }
}

}  // namespace capstan
