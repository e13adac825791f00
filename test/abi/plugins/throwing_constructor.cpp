// A plugin whose static object throws an exception of the plugin's own type while it is loaded.
#include "capstan/plugin.hpp"

#include <exception>

namespace {

class OwnError final : public std::exception {
public:
    const char* what() const noexcept override { return "thrown by a static object"; }
};

struct Static {
    Static() { throw OwnError(); }  // tidy: allow throw: its behaviour
};
const Static object;

class Idle final : public capstan::Controller {
public:
    capstan::Outcome reconcile(capstan::Call&, const capstan::Request&) override {
        return capstan::Outcome::done();
    }
};

capstan::Result<void> make_plugin(capstan::Setup& setup) {
    setup.controller("minimal", std::make_unique<Idle>());
    return capstan::ok();
}

}  // namespace

CAPSTAN_PLUGIN(make_plugin)
