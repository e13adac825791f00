#include "fake_state.hpp"

#include <algorithm>

namespace capstan::testing {

namespace {

const void* get_ext(const capstan_host*, capstan_str id) noexcept {
    if (view(id) == "capstan.digest/1") {
        return fake_digest_extension();
    }
    if (view(id) == "capstan.webhook/1") {
        return fake_webhook_extension();
    }
    if (view(id) == "capstan.cli/1") {
        return fake_cli_extension();
    }
    const void* found = fake_extension(view(id));
    return found != nullptr ? found : fake_http_extension(view(id));
}

void log(const capstan_host* host,
         std::int32_t level,
         capstan_str message,
         capstan_str fields) noexcept {
    to_fake(host)->logs.push_back({level, std::string(view(message)), std::string(view(fields))});
}

void refuse(const capstan_host* host, capstan_rc, capstan_str message) noexcept {
    to_fake(host)->refusal = std::string(view(message));
}

capstan_rc rc_of_code(Code code) noexcept {
    switch (code) {
        case Code::not_found: return CAPSTAN_E_NOT_FOUND;
        case Code::conflict: return CAPSTAN_E_CONFLICT;
        case Code::exists: return CAPSTAN_E_EXISTS;
        case Code::invalid: return CAPSTAN_E_INVALID;
        default: return CAPSTAN_E_INTERNAL;
    }
}

}  // namespace

void FakeState::run_until(MonotonicTime time) {
    while (!planned.empty() && planned.begin()->first <= time) {
        now = std::max(now, planned.begin()->first);
        const std::function<void()> action = std::move(planned.begin()->second);
        planned.erase(planned.begin());
        action();
    }
    now = std::max(now, time);
}

capstan_rc FakeState::enter(FakeCall* call,
                            std::string_view verb,
                            std::string_view kind,
                            const ObjectKey& key,
                            std::string_view body) {
    calls.push_back({std::string(verb), std::string(kind), key, std::string(body)});
    ++call_count;
    if (open_calls.count(call) == 0) {
        return CAPSTAN_E_FENCED;
    }
    call->last_error.clear();
    if (fault_at != 0 && (call_count == fault_at || (fault_sticky && call_count > fault_at))) {
        call->last_error = R"({"message":"a fault asked for by the test"})";
        return fault_rc;
    }
    return CAPSTAN_OK;
}

capstan_rc FakeState::refuse(FakeCall* call, const Error& error) {
    call->last_error = json::dump({{"code", to_string(error.code)}, {"message", error.message}});
    return rc_of_code(error.code);
}

FakeObject* FakeState::hand_out(FakeCall* call, const json::Value& value, bool live) {
    auto object = std::make_unique<FakeObject>();
    object->state = this;
    object->value = value;
    object->bytes = json::dump(value);
    object->live = live;
    if (call != nullptr) {
        call->objects.insert(object.get());
    }
    return object.release();
}

std::size_t FakeState::close_call(FakeCall& call) {
    const std::size_t leaked = call.objects.size();
    for (FakeObject* object : call.objects) {
        delete object;
    }
    call.objects.clear();
    open_calls.erase(&call);
    return leaked;
}

FakeHost::FakeHost() : state_(std::make_unique<FakeState>()) {
    state_->host = {{sizeof(capstan_host), CAPSTAN_ABI}, state_.get(), &get_ext, &log, &refuse};
}
FakeHost::~FakeHost() = default;

const capstan_host* FakeHost::host() const noexcept {
    return &state_->host;
}
json::Value FakeHost::put(json::Value object) {
    return state_->world.put(std::move(object));
}
bool FakeHost::erase(std::string_view gvk, const ObjectKey& key) {
    return state_->world.remove(group_kind_of(gvk), key, nullptr).has_value();
}
std::optional<json::Value> FakeHost::find(std::string_view gvk, const ObjectKey& key) const {
    const json::Value* found = state_->world.find(group_kind_of(gvk), key);
    return found != nullptr ? std::optional(*found) : std::nullopt;
}
std::vector<json::Value> FakeHost::all(std::string_view gvk) const {
    std::vector<json::Value> values;
    for (const json::Value* value : state_->world.list(group_kind_of(gvk), "", "", false)) {
        values.push_back(*value);
    }
    return values;
}
void FakeHost::set_stale_cache(bool stale) {
    state_->stale_cache = stale;
}
MonotonicTime FakeHost::now() const noexcept {
    return state_->now;
}
void FakeHost::advance(std::chrono::nanoseconds duration) {
    state_->run_until(state_->now + duration);
}
void FakeHost::at(MonotonicTime time, std::function<void()> action) {
    state_->planned.emplace(time, std::move(action));
}
void FakeHost::cancel() {
    state_->cancelled = true;
}
void FakeHost::fail_call(std::size_t k, capstan_rc rc, bool sticky) {
    state_->fault_at = state_->call_count + k;
    state_->fault_rc = rc;
    state_->fault_sticky = sticky;
}
const std::vector<HostCall>& FakeHost::calls() const noexcept {
    return state_->calls;
}
std::size_t FakeHost::write_count() const noexcept {
    return static_cast<std::size_t>(
        std::count_if(state_->calls.begin(), state_->calls.end(), [](const HostCall& call) {
            return call.changed;
        }));
}
void FakeHost::clear_calls() {
    state_->calls.clear();
    state_->fault_at = 0;
}
void FakeHost::set_gate(std::string_view gate, bool enabled) {
    state_->gates[std::string(gate)] = enabled;
}
void FakeHost::on_http(std::function<HttpReply(const json::Value&, std::string_view)> handler) {
    state_->http_handler = std::move(handler);
}
const std::vector<EmittedEvent>& FakeHost::events() const noexcept {
    return state_->events;
}
const std::vector<LogLine>& FakeHost::logs() const noexcept {
    return state_->logs;
}
const std::vector<WokenKey>& FakeHost::woken() const noexcept {
    return state_->woken;
}
double FakeHost::metric(std::string_view series) const {
    const auto at = state_->series.find(series);
    return at == state_->series.end() ? 0 : at->second;
}
const std::string& FakeHost::refusal() const noexcept {
    return state_->refusal;
}

}  // namespace capstan::testing
