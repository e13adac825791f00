#include "plugins/steward-bridge/restore/stored_owner.hpp"

#include <utility>

namespace capstan::steward {

Result<std::optional<PrefixOwner>> read_owner(ObjectStore& store, std::string_view prefix) {
    const std::string key = owner_key(prefix);
    const auto text = read_object(store, {key}, kOwnerTextBytesMax);
    if (!text && text.error().code == Code::not_found) {
        return std::optional<PrefixOwner>();
    }
    CAPSTAN_TRY(const std::string bytes, text);
    auto owner = parse_owner(bytes);
    if (!owner) {
        return fail(Code::invalid,
                    key + " of " + store.describe() + " does not say whose the backups are (" +
                        owner.error().message +
                        "); remove it when they are this Etcd's: its steward writes it anew");
    }
    return std::optional<PrefixOwner>(std::move(owner).value());
}

}  // namespace capstan::steward
