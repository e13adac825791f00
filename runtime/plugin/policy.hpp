// What an administrator takes away from a plugin's permissions. Thread: any (pure).
#pragma once

#include "runtime/plugin/manifest.hpp"

#include <string>
#include <vector>

namespace capstan::plugin {

// Every rule that both sides allow; "*" stands for everything, no resource_names for every name.
std::vector<PermissionRule> narrow(const std::vector<PermissionRule>& rules,
                                   const std::vector<PermissionRule>& policy);

// What cannot work under `policy`: controllers whose watches it does not permit, one sentence each
// that begins with the place in the manifest.
std::vector<std::string> policy_problems(const Manifest& manifest,
                                         const std::vector<PermissionRule>& policy);

}  // namespace capstan::plugin
