// For each ConfigMap labelled greet=yes, a Service that is named after it.
#include <capstan/plugin.hpp>

namespace {

using namespace capstan;

json::Value service_for(const ObjectKey& key) {
    return {
        {"apiVersion", "v1"},
        {"kind", "Service"},
        {"metadata",
         {
             {"name", key.name + "-client"},
             {"namespace", key.ns},
             {"labels", {{"greeted-by", "greeter"}}},
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
        const auto applied = call.client().apply("v1/Service", service_for(request.key));
        return applied ? Outcome::done() : Outcome::failed(applied.error());
    }
};

Result<void> make_plugin(Setup& setup) {
    setup.controller("greeter", std::make_unique<Greeter>());
    return ok();
}

}  // namespace

CAPSTAN_PLUGIN(make_plugin)
