// The reference plugin in C++: for each Greeting a ConfigMap "<name>-greeting" that holds its text,
// and a status that names it. The same job as reference_c; one test runs both.
#include "capstan/plugin.hpp"

namespace {

using namespace capstan;

constexpr std::string_view kGreeting = "demo.capstan.dev/v1/Greeting";

class Greeter final : public Controller {
public:
    Outcome reconcile(Call& call, const Request& request) override {
        const auto greeting = call.cache().get_value("demo.capstan.dev/Greeting", request.key);
        if (!greeting) {
            // Deleted; what it owned goes with it.
            return greeting.error().code == Code::not_found ? Outcome::done()
                                                            : Outcome::failed(greeting.error());
        }
        const Result<void> converged = converge(call, request.key, greeting.value());
        return converged ? Outcome::done() : Outcome::failed(converged.error());
    }

private:
    static Result<void> converge(Call& call, const ObjectKey& key, const json::Value& greeting) {
        const std::string name = key.name + "-greeting";
        CAPSTAN_TRY(const auto uid, json::View(greeting)["metadata"]["uid"].as_string());
        CAPSTAN_TRY(call.client().apply(
            "v1/ConfigMap",
            {
                {"apiVersion", "v1"},
                {"kind", "ConfigMap"},
                {"metadata",
                 {
                     {"namespace", key.ns},
                     {"name", name},
                     {"ownerReferences",
                      json::list({
                          {{"apiVersion", "demo.capstan.dev/v1"},
                           {"kind", "Greeting"},
                           {"name", key.name},
                           {"uid", uid},
                           {"controller", true}},
                      })},
                 }},
                {"data", {{"text", json::View(greeting)["spec"]["text"].string_or("")}}},
            }));
        ApplyOptions status;
        status.subresource = "status";
        return call.client().apply(kGreeting,
                                   {
                                       {"apiVersion", "demo.capstan.dev/v1"},
                                       {"kind", "Greeting"},
                                       {"metadata", {{"namespace", key.ns}, {"name", key.name}}},
                                       {"status", {{"configMap", name}}},
                                   },
                                   status);
    }
};

Result<void> make_plugin(Setup& setup) {
    setup.controller("greeting", std::make_unique<Greeter>());
    return ok();
}

}  // namespace

CAPSTAN_PLUGIN(make_plugin)
