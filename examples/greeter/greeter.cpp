// For each ConfigMap labelled greet=yes, a Service that is named after it and goes with it.
#include <capstan/plugin.hpp>

namespace {

using namespace capstan;

// The owner is whose key the Service's events wake (`role: owns`), and with whom it is deleted.
json::Value owned_by(const ObjectKey& key, std::string_view uid) {
    return {
        {"apiVersion", "v1"},
        {"kind", "ConfigMap"},
        {"name", key.name},
        {"uid", uid},
        {"controller", true},
    };
}

json::Value service_for(const ObjectKey& key, std::string_view uid) {
    return {
        {"apiVersion", "v1"},
        {"kind", "Service"},
        {"metadata",
         {
             {"name", key.name + "-client"},
             {"namespace", key.ns},
             {"labels", {{"greeted-by", "greeter"}}},
             {"ownerReferences", json::list({owned_by(key, uid)})},
         }},
        {"spec",
         {
             {"selector", {{"app", key.name}}},
             {"ports",
              json::list({
                  {{"name", "client"}, {"port", 2379}},
                  {{"name", "metrics"}, {"port", 9095}},
              })},
         }},
    };
}

class Greeter final : public Controller {
public:
    Outcome reconcile(Call& call, const Request& request) override {
        const auto greeted = call.cache().get("ConfigMap", request.key);
        if (!greeted) {
            return greeted.error().code == Code::not_found ? Outcome::done()
                                                           : Outcome::failed(greeted.error());
        }
        const auto uid = greeted.value().text("/metadata/uid");
        if (!uid) {
            return Outcome::failed(uid.error());
        }
        const auto applied =
            call.client().apply("v1/Service", service_for(request.key, uid.value()));
        return applied ? Outcome::done() : Outcome::failed(applied.error());
    }
};

Result<void> make_plugin(Setup& setup) {
    setup.controller("greeter", std::make_unique<Greeter>());
    return ok();
}

}  // namespace

CAPSTAN_PLUGIN(make_plugin)
