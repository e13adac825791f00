// Whose a prefix of a store is, for restoring and for who stores there.
#pragma once

#include "plugins/steward-bridge/snapshot/owner.hpp"
#include "plugins/steward-bridge/store/store.hpp"

#include <optional>
#include <string_view>

namespace capstan::steward {

// nullopt: nobody has said so yet. Errors: invalid (names the object); those of the store.
Result<std::optional<PrefixOwner>> read_owner(ObjectStore& store, std::string_view prefix);

}  // namespace capstan::steward
