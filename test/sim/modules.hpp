// The real plugins, as they are built, for the simulator.
//
// A module is checked and mapped once per process by the real loader, with its manifest, and serves
// any number of worlds one after the other. Calls of reconcile pass a guard that tells the world of
// them. Thread: the driver's; the guard runs under the baton.
#pragma once

#include "capstan/capstan.h"
#include "capstan/object_ref.hpp"
#include "runtime/plugin/module.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace capstan::test {

inline constexpr std::size_t kGuardsMax = 4;

// Told before and after each reconcile of a guarded plugin.
struct ReconcileWatch {
    std::function<void(std::string_view controller, const ObjectKey& key)> entered;
    std::function<void(std::string_view controller, const ObjectKey& key)> left;
};

// NAME.so of the build tree: in $CAPSTAN_SIM_PLUGINS, else in ../../plugins beside this program.
std::string module_path(const std::string& name);

// Loads it on first use with `host`; a check fails with the loader's reason.
const plugin::Module& load_module(
    const std::string& name,
    const std::function<const capstan_host*(const plugin::Manifest&)>& host_for);

// `table` with a guarded reconcile, in one of kGuardsMax slots. `watch` outlives the world.
const capstan_plugin* guarded(const capstan_plugin& table,
                              std::size_t slot,
                              const ReconcileWatch& watch);

}  // namespace capstan::test
