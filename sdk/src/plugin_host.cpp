// A call's time, queue, events and errors from C++: tables to Result. Objects: plugin_objects.cpp.
#include "capstan/plugin.hpp"

#include <algorithm>
#include <array>

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
        return fail(last_error(rc, "enqueue " + std::string(controller) + " " + key.to_string()));
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
