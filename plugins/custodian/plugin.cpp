// The custodian plugin: keeps the health in Etcd.status, and touches nothing else.
#include "plugins/custodian/plan.hpp"

#include "capstan/plugin.hpp"

namespace capstan::custodian {
namespace {

class Custodian final : public Controller {
public:
    explicit Custodian(const Thresholds& thresholds) : thresholds_(thresholds) {}

    Outcome reconcile(Call& call, const Request& request) override {
        auto world = observe(call, request.key);
        if (!world) {
            return Outcome::failed(world.error());
        }
        if (!world.value() || world.value()->etcd.metadata.deleting()) {
            return Outcome::done();
        }
        const Plan plan = make_plan(*world.value(), thresholds_);
        if (!(plan.present == plan.wanted)) {
            const json::Value intent = {
                {"apiVersion", api::kApiVersion},
                {"kind", api::kEtcdKind},
                {"metadata", {{"name", request.key.name}, {"namespace", request.key.ns}}},
                {"status", plan.wanted},
            };
            auto written = call.client().apply(
                "druid.gardener.cloud/v1alpha1/Etcd", intent, {.subresource = "status"});
            if (!written) {
                return written.error().code == Code::not_found ? Outcome::done()
                                                               : Outcome::failed(written.error());
            }
        }
        return plan.next_look == kNever ? Outcome::done() : Outcome::after(plan.next_look);
    }

private:
    const Thresholds thresholds_;
};

Result<void> make_plugin(Setup& setup) {
    CAPSTAN_TRY(auto thresholds, read_thresholds(setup.config()));
    setup.controller("custodian", std::make_unique<Custodian>(thresholds));
    return ok();
}

}  // namespace
}  // namespace capstan::custodian

CAPSTAN_PLUGIN(capstan::custodian::make_plugin)
