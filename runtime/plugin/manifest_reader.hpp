// The parts of reading a manifest. Internal to manifest*.cpp.
#pragma once

#include "runtime/plugin/manifest.hpp"
#include "runtime/plugin/strict_object.hpp"

#include <string>
#include <vector>

namespace capstan::plugin {

// Controllers and their watches; needs gates and finalizers of `manifest` to be read already.
void read_controllers(StrictObject& top, Manifest& manifest, Problems& problems);
std::vector<PermissionRule> read_rules(StrictObject& top, std::string_view key, Problems& problems);
void read_webhooks(StrictObject& top, Manifest& manifest, Problems& problems);
// Checks that need the whole manifest: ABI, extensions, permissions against watches, names.
void check_manifest(const Manifest& manifest, const HostOffer& host, Problems& problems);
// The part of it that compares what is watched with what is permitted.
void check_watch_permissions(const Manifest& manifest, Problems& problems);

}  // namespace capstan::plugin
