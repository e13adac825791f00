// The etcd plugin: one controller, from an Etcd to its children.
#include "plugins/etcd/apply.hpp"

#include "capstan/plugin.hpp"

namespace capstan::etcd {
namespace {

class EtcdController final : public Controller {
public:
    explicit EtcdController(Settings settings) : settings_(std::move(settings)) {}

    Outcome reconcile(Call& call, const Request& request) override {
        auto world = observe(call, request.key);
        if (!world) {
            return Outcome::failed(world.error());
        }
        if (!world.value()) {
            return Outcome::done();  // deleted
        }
        auto plan = make_plan(*world.value(), settings_);
        if (!plan) {
            return Outcome::failed(plan.error());
        }
        return carry_out(call, *world.value(), plan.value());
    }

private:
    const Settings settings_;
};

Result<void> make_plugin(Setup& setup) {
    CAPSTAN_TRY(auto settings, read_settings(setup.config()));
    setup.controller("etcd", std::make_unique<EtcdController>(std::move(settings)));
    return ok();
}

}  // namespace
}  // namespace capstan::etcd

CAPSTAN_PLUGIN(capstan::etcd::make_plugin)
