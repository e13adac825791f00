// Admission webhooks from C++: the table behind add_webhook.
#include "capstan/webhook.hpp"

#include "plugin_instance.hpp"

namespace capstan {
namespace {

const json::Value kNull;

const json::Value& member(const json::Value& json, std::string_view key) noexcept {
    const json::Value* found = json.find(key);
    return found == nullptr ? kNull : *found;
}

PluginInstance& instance_behind(Setup& setup) noexcept {
    return static_cast<const InstanceHost&>(setup.host()).instance;
}

WebhookPart* find_webhook(PluginInstance& instance, std::string_view name) noexcept {
    for (auto& [part_name, part] : instance.webhooks) {
        if (part_name == name) {
            return &part;
        }
    }
    return nullptr;
}

capstan_rc answer(const HostTables& host,
                  capstan_call* handle,
                  const Admission& admission,
                  const std::string& object) {
    const auto* table = static_cast<const capstan_ext_webhook*>(
        host.host->get_ext(host.host, to_str("capstan.webhook/1")));
    if (table == nullptr) {
        return CAPSTAN_E_UNSUPP;
    }
    const std::string warnings = json::dump(admission.warnings());
    const std::string audit = json::dump(admission.audit());
    const capstan_admission_answer given{{sizeof(capstan_admission_answer), CAPSTAN_ABI},
                                         admission.allowed() ? 1 : 0,
                                         admission.code(),
                                         to_str(admission.message()),
                                         {},
                                         to_str(object),
                                         to_str(warnings),
                                         to_str(audit)};
    return table->answer(handle, &given);
}

capstan_rc review(capstan_ctl* ctl,
                  capstan_call* handle,
                  const capstan_admission_request* raw) noexcept {
    PluginInstance& instance = *instance_of(ctl);
    return guarded(instance.host, "webhook", [&]() -> capstan_rc {
        WebhookPart* part = find_webhook(instance, view_of(raw->webhook));
        if (part == nullptr) {
            return CAPSTAN_E_UNSUPP;
        }
        auto parsed = json::parse(view_of(raw->request_json));
        if (!parsed) {
            return CAPSTAN_E_INVALID;
        }
        const AdmissionRequest request(std::string(view_of(raw->webhook)),
                                       std::move(parsed).value());
        Call call(instance.host, handle);
        if (part->validating != nullptr) {
            return answer(instance.host, handle, part->validating->review(call, request), {});
        }
        json::Value object = request.object();
        const Admission admission = part->mutating->review(call, request, object);
        const bool changed = admission.allowed() && !request.object().is_null();
        return answer(
            instance.host, handle, admission, changed ? json::dump(object) : std::string());
    });
}

}  // namespace

AdmissionRequest::AdmissionRequest(std::string webhook, json::Value json)
    : webhook_(std::move(webhook)), json_(std::move(json)) {}

std::string_view AdmissionRequest::operation() const noexcept {
    return json::View(json_)["operation"].string_or("");
}
GroupVersionKind AdmissionRequest::gvk() const {
    const json::View kind = json::View(json_)["kind"];
    return {std::string(kind["group"].string_or("")),
            std::string(kind["version"].string_or("")),
            std::string(kind["kind"].string_or(""))};
}
ObjectKey AdmissionRequest::key() const {
    const json::View request(json_);
    return {std::string(request["namespace"].string_or("")),
            std::string(request["name"].string_or(""))};
}
std::string_view AdmissionRequest::subresource() const noexcept {
    return json::View(json_)["subResource"].string_or("");
}
std::string_view AdmissionRequest::user() const noexcept {
    return json::View(json_)["userInfo"]["username"].string_or("");
}
bool AdmissionRequest::dry_run() const noexcept {
    return json::View(json_)["dryRun"].bool_or(false);
}
const json::Value& AdmissionRequest::object() const noexcept {
    return member(json_, "object");
}
const json::Value& AdmissionRequest::old_object() const noexcept {
    return member(json_, "oldObject");
}

void add_webhook(Setup& setup, std::string name, std::unique_ptr<ValidatingWebhook> webhook) {
    instance_behind(setup).webhooks.emplace_back(std::move(name),
                                                 WebhookPart{std::move(webhook), nullptr});
}
void add_webhook(Setup& setup, std::string name, std::unique_ptr<MutatingWebhook> webhook) {
    instance_behind(setup).webhooks.emplace_back(std::move(name),
                                                 WebhookPart{nullptr, std::move(webhook)});
}

const capstan_plugin_webhook kPluginWebhook{{sizeof(capstan_plugin_webhook), CAPSTAN_ABI}, &review};

}  // namespace capstan
