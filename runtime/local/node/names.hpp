// From the node's picture of the API to addresses and to the names in a pod map.
// Thread: owning.
#pragma once

#include "runtime/local/node/addresses.hpp"
#include "runtime/local/node/mirror.hpp"
#include "runtime/local/node/pod_map.hpp"

namespace capstan::local {

// Gives every pod, and every member a StatefulSet is going to have, its address: so that
// the first member can name the last before that one exists. Errors: as AddressBook;
// those before keep theirs.
Result<void> reserve_addresses(const Mirror& mirror, AddressBook& addresses);

json::Value build_pod_map(const PodMapInput& input,
                          const Mirror& mirror,
                          const AddressBook& addresses);

}  // namespace capstan::local
