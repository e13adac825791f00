#include "capstan/testing/fake_webhook.hpp"

#include "fake_state.hpp"

namespace capstan::testing {
namespace {

json::Value parsed(capstan_str text) {
    auto value = json::parse(view(text));
    return value ? std::move(value).value() : json::Value();
}

capstan_rc answer(capstan_call* handle, const capstan_admission_answer* given) noexcept {
    FakeCall* call = to_fake(handle);
    Reviewed* review = call->review;
    if (review == nullptr || review->answered) {
        return CAPSTAN_E_INVALID;
    }
    review->answered = true;
    review->allowed = given->allowed != 0;
    review->code = given->code;
    review->message = view(given->message);
    review->reason = view(given->reason);
    review->object = parsed(given->object_json);
    review->warnings = parsed(given->warnings_json);
    review->audit = parsed(given->audit_json);
    return CAPSTAN_OK;
}

}  // namespace

const void* fake_webhook_extension() noexcept {
    static const capstan_ext_webhook kTable{head<capstan_ext_webhook>(), &answer};
    return &kTable;
}

Reviewed review(FakeHost& host, std::string_view webhook, const json::Value& request) {
    FakeState& state = host.state();
    Reviewed result;
    constexpr std::string_view kId = "capstan.webhook/1";
    if (state.plugin == nullptr || state.plugin->get_ext == nullptr) {
        return result;
    }
    const auto* table = static_cast<const capstan_plugin_webhook*>(state.plugin->get_ext(str(kId)));
    if (table == nullptr) {
        return result;
    }
    FakeCall call;
    call.state = &state;
    call.review = &result;
    state.open_calls.insert(&call);
    const std::string text = json::dump(request);
    const capstan_admission_request asked{
        head<capstan_admission_request>(), str(webhook), str(text), call.deadline_ns};
    result.rc = table->review(state.instance, reinterpret_cast<capstan_call*>(&call), &asked);
    state.close_call(call);
    return result;
}

}  // namespace capstan::testing
