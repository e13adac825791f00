// capstan.webhook/1: a plugin's answer to a review.
#include "runtime/control/host_tables.hpp"

#include "runtime/control/admission.hpp"
#include "runtime/control/call.hpp"
#include "runtime/kube/json_diff.hpp"

#include <optional>

namespace capstan::control {
namespace {

constexpr std::size_t kAnswerItemsMax = 64;  // warnings; audit annotations

Result<std::vector<std::string>> warnings_of(capstan_str raw) {
    std::vector<std::string> warnings;
    if (raw.len == 0) {
        return warnings;
    }
    CAPSTAN_TRY(const json::Value tree, json::parse(view(raw)));
    CAPSTAN_TRY(const json::Array* items, json::View(tree).as_array());
    for (const json::Value& item : *items) {
        const std::string* text = item.if_string();
        if (text == nullptr || warnings.size() == kAnswerItemsMax) {
            return fail(Code::invalid, "warnings are at most 64 strings");
        }
        warnings.push_back(*text);
    }
    return warnings;
}

Result<std::vector<std::pair<std::string, std::string>>> audit_of(capstan_str raw) {
    std::vector<std::pair<std::string, std::string>> audit;
    if (raw.len == 0) {
        return audit;
    }
    CAPSTAN_TRY(const json::Value tree, json::parse(view(raw)));
    CAPSTAN_TRY(const json::Object* members, json::View(tree).as_object());
    for (const json::Member& member : *members) {
        const std::string* text = member.value.if_string();
        if (text == nullptr || audit.size() == kAnswerItemsMax) {
            return fail(Code::invalid, "audit annotations are at most 64 strings by name");
        }
        audit.emplace_back(member.key, *text);
    }
    return audit;
}

// The patch from the object asked about to the one the plugin wants.
Result<json::Value> patch_of(const AdmissionState& state, bool allowed, capstan_str raw) {
    if (raw.len == 0) {
        return json::Value();
    }
    if (!state.webhook->mutating) {
        return fail(Code::invalid, "a validating webhook changes no object");
    }
    const json::Value* object = state.question.request.find("object");
    if (!allowed || object == nullptr || !object->is_object()) {
        return fail(Code::invalid, "there is no object to change: a denial, or a deletion");
    }
    CAPSTAN_TRY(const json::Value wanted, json::parse(view(raw)));
    if (!wanted.is_object()) {
        return fail(Code::invalid, "the changed object is no JSON object");
    }
    return kube::json_diff(*object, wanted);
}

capstan_rc answer(capstan_call* handle, const capstan_admission_answer* given) noexcept {
    capstan_rc rc = CAPSTAN_OK;
    const auto call = enter(handle, &rc);
    if (call == nullptr) {
        return rc;
    }
    if (call->admission == nullptr || given == nullptr) {
        return report(CAPSTAN_E_INVALID, "this call is no review");
    }
    kube::AdmissionAnswer made;
    made.allowed = given->allowed != 0;
    made.code = given->code;
    made.message = text(given->message);
    made.reason = text(given->reason);
    if (!made.allowed && made.code != 0 && (made.code < 400 || made.code > 599)) {
        return report(CAPSTAN_E_INVALID, "the code of a denial is 400 to 599");
    }
    auto warnings = warnings_of(given->warnings_json);
    auto audit = audit_of(given->audit_json);
    auto patch = patch_of(*call->admission, made.allowed, given->object_json);
    if (!warnings || !audit || !patch) {
        return report(!warnings ? warnings.error() : !audit ? audit.error() : patch.error());
    }
    made.warnings = std::move(warnings).value();
    made.audit = std::move(audit).value();
    made.patch = std::move(patch).value();
    const std::lock_guard lock(call->mutex);
    if (call->admission->answer) {
        return report(CAPSTAN_E_INVALID, "this review was answered before; the first one holds");
    }
    call->admission->answer = std::move(made);
    return CAPSTAN_OK;
}

}  // namespace

const capstan_ext_webhook kWebhookTable{{sizeof(capstan_ext_webhook), CAPSTAN_ABI}, &answer};

}  // namespace capstan::control
