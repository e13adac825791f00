// Guards ConfigMaps before they are stored: each gets an owner, and none has too many keys.
#include <capstan/webhook.hpp>

#include <cstdlib>

namespace {

using namespace capstan;

constexpr const char* kOwner = "guard.example.com/owner";

// Who made it, unless it says so itself.
class Owner final : public MutatingWebhook {
public:
    Admission review(Call&, const AdmissionRequest& request, json::Value& object) override {
        if (!json::View(object)["metadata"]["annotations"][kOwner].present()) {
            object["metadata"]["annotations"].set(kOwner, request.user());
        }
        return Admission::allow();
    }
};

// At most so many keys as the namespace's ConfigMap "guard-policy" says, else the configuration.
class Limits final : public ValidatingWebhook {
public:
    explicit Limits(std::int64_t keys_max) : keys_max_(keys_max) {}

    Admission review(Call& call, const AdmissionRequest& request) override {
        const auto policy =
            call.client().get_value("v1/ConfigMap", {request.key().ns, "guard-policy"});
        if (!policy && policy.error().code != Code::not_found) {
            return Admission::deny("cannot read guard-policy: " + policy.error().message, 500);
        }
        std::int64_t limit = keys_max_;
        if (policy) {
            const auto text = json::View(policy.value())["data"]["maxKeys"].string_or("0");
            limit = std::atoll(std::string(text).c_str());
        }
        const auto keys = json::View(request.object())["data"].object().size();
        if (static_cast<std::int64_t>(keys) > limit) {
            return Admission::deny("it has " + std::to_string(keys) + " keys; at most " +
                                   std::to_string(limit) + " are allowed here");
        }
        Admission allowed = Admission::allow().audit("keys", std::to_string(keys));
        return keys == 0 ? std::move(allowed).warn("it has no data") : std::move(allowed);
    }

private:
    const std::int64_t keys_max_;
};

Result<void> make_plugin(Setup& setup) {
    const std::int64_t keys_max = json::View(setup.config())["maxKeys"].int_or(16);
    add_webhook(setup, "owner", std::make_unique<Owner>());
    add_webhook(setup, "limits", std::make_unique<Limits>(keys_max));
    return ok();
}

}  // namespace

CAPSTAN_PLUGIN(make_plugin)
