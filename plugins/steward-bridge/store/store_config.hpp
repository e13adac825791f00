// Which store: from druid's store spec, or from the sidecar's flags and variables.
#pragma once

#include "plugins/steward-bridge/store/s3_access.hpp"
#include "plugins/steward-bridge/store/store.hpp"

#include "capstan/json.hpp"

#include <string>
#include <string_view>

namespace capstan::steward {

// Whose variables: the store's own, the source's of a copy, the replica's.
enum class StoreRole : std::uint8_t { primary, source, secondary };

struct StoreConfig {
    std::string provider;   // canonical: "Local", "S3", …; empty: no backups
    std::string container;  // bucket, or directory
    std::string prefix;     // without slashes at the ends; "v2" comes below it
    std::string endpoint_override;
    S3Overrides overrides;
    std::uint64_t min_chunk_bytes{5u * 1024 * 1024};
    StoreRole role{StoreRole::primary};

    // Of spec.backup.store: {provider, container, prefix, endpointOverride}; an absent provider is
    // no backups. Errors: invalid (with the field's path).
    static Result<StoreConfig> parse_spec(const json::View& store);
    // One flag of the sidecar, by its name without the dashes and the role's prefix:
    // "storage-provider", "store-container", … False: no flag of a store. Errors: invalid.
    Result<bool> take_flag(std::string_view name, std::string_view value);
};

// "aws" -> "S3": canonical name of what druid accepts; empty stays empty. Errors: invalid.
Result<std::string> canonical_provider(std::string_view name);

// The directory of a Local store, from its container or STORAGE_CONTAINER (with the role's prefix).
// Below `home`, if there is one, also when it begins with a slash, and then "default.bkp" where
// none is named, as in the sidecar. Whoever opens a store asks this. "": none is named.
std::string local_directory(const StoreConfig& config,
                            std::string_view home,
                            const Environment& environment);

struct StoreParts {
    Environment environment;
    Digests& digests;
    Transport& transport;  // S3 only
    Pace& pace;
    // Local: containers are below it, also those that begin with a slash, as in the sidecar. Empty:
    // the container is the directory as it is.
    std::string home{};
    bool make_directory{true};  // Local; a restore must not make an empty one
};

// Nothing is sent yet. Errors: unsupported (another provider; names those there are), invalid,
// not_found, forbidden.
Result<std::unique_ptr<ObjectStore>> open_store(const StoreConfig& config, const StoreParts& parts);

}  // namespace capstan::steward
