// A plugin that does one thing wrong, chosen by its configuration:
// {"behaviour": NAME, "sleepMs": n}.
//
//   throw-in-create       create throws
//   fail-create           create returns an error
//   throw-in-reconcile    every reconcile throws
//   throw-odd-in-reconcile  … something that is no std::exception
//   throw-own-in-reconcile  … an exception type that only the plugin has
//   unknown-code          reconcile returns 4711
//   sleep                 reconcile sleeps sleepMs of real time and looks neither at the deadline
//                         nor at cancellation
//   leak-object           reconcile takes a reference to its object and never releases it
//   write-after-deadline  as sleep, then writes a ConfigMap "late"
//   service-returns       the service "worker" returns at once, every time
//   service-throws        the service "worker" throws
//   none                  everything is well; the service waits for cancellation
#include "capstan/plugin.hpp"

#include <signal.h>

#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

using namespace capstan;

struct Behaviour {
    std::string name;
    std::chrono::milliseconds sleep{0};
};

class OwnError final : public std::exception {
public:
    const char* what() const noexcept override { return "of a type the host does not know"; }
};

class Misbehaving final : public Controller {
public:
    explicit Misbehaving(Behaviour behaviour) : behaviour_(std::move(behaviour)) {}

    Outcome reconcile(Call& call, const Request& request) override {
        const std::string& name = behaviour_.name;
        if (name == "throw-in-reconcile") {
            // tidy: allow throw: its behaviour
            throw std::runtime_error("thrown by the misbehaving plugin");
        }
        if (name == "throw-odd-in-reconcile") {
            throw 42;  // tidy: allow throw: its behaviour
        }
        if (name == "throw-own-in-reconcile") {
            throw OwnError();  // tidy: allow throw: its behaviour
        }
        if (name == "crash" && request.key.name == "poison") {
            ::raise(SIGSEGV);  // as a wild pointer would
        }
        if (name == "sleep" || name == "write-after-deadline") {
            std::this_thread::sleep_for(behaviour_.sleep);  // tidy: allow sleep: its behaviour
        }
        if (name == "write-after-deadline") {
            const Result<void> written = call.client().apply(
                "v1/ConfigMap",
                {
                    {"apiVersion", "v1"},
                    {"kind", "ConfigMap"},
                    {"metadata", {{"namespace", request.key.ns}, {"name", "late"}}},
                });
            return written ? Outcome::done() : Outcome::failed(written.error());
        }
        if (name == "leak-object") {
            const capstan_obj* object = nullptr;
            call.host().cache->get(call.handle(),
                                   to_str("ConfigMap"),
                                   to_str(request.key.ns),
                                   to_str(request.key.name),
                                   &object);
        }
        return Outcome::done();
    }

private:
    Behaviour behaviour_;
};

class Worker final : public Service {
public:
    explicit Worker(Behaviour behaviour) : behaviour_(std::move(behaviour)) {}

    Result<void> run(Call& call) override {
        if (behaviour_.name == "service-throws") {
            // tidy: allow throw: its behaviour
            throw std::runtime_error("thrown by the misbehaving service");
        }
        if (behaviour_.name == "service-returns") {
            return ok();
        }
        const Result<void> slept = call.sleep_until(kNever);
        return slept || slept.error().code == Code::cancelled ? Result<void>(ok()) : slept;
    }

private:
    Behaviour behaviour_;
};

Result<void> make_plugin(Setup& setup) {
    const json::View config(setup.config());
    const Behaviour behaviour{std::string(config["behaviour"].string_or("none")),
                              std::chrono::milliseconds(config["sleepMs"].int_or(0))};
    if (behaviour.name == "throw-in-create") {
        // tidy: allow throw: its behaviour
        throw std::runtime_error("thrown by create of the misbehaving plugin");
    }
    if (behaviour.name == "fail-create") {
        return fail(Code::invalid, "create fails because the configuration asks for it");
    }
    setup.controller("misbehaving", std::make_unique<Misbehaving>(behaviour));
    setup.service("worker", std::make_unique<Worker>(behaviour));
    return ok();
}

// The C++ face cannot return an unknown code, so this goes around it.
const capstan_plugin* with_unknown_code(const capstan_plugin* plugin) {
    static capstan_plugin table = *plugin;
    static auto* inner = plugin->reconcile;
    static bool wrong = false;
    static auto* inner_create = plugin->create;
    table.create = [](const capstan_host* host, capstan_str config, capstan_ctl** ctl) noexcept {
        wrong = view_of(config).find("\"unknown-code\"") != std::string_view::npos;
        return inner_create(host, config, ctl);
    };
    table.reconcile =
        [](capstan_ctl* ctl, capstan_call* call, const capstan_request* request) noexcept {
            return wrong ? capstan_rc{4711} : inner(ctl, call, request);
        };
    return &table;
}

}  // namespace

extern "C" CAPSTAN_EXPORT const capstan_plugin* capstan_plugin_entry(
    const capstan_host* host) noexcept {
    const capstan_plugin* plugin =
        capstan::detail::plugin_entry(host, make_plugin, CAPSTAN_PLUGIN_ID, CAPSTAN_PLUGIN_VERSION);
    return plugin == nullptr ? nullptr : with_unknown_code(plugin);
}
