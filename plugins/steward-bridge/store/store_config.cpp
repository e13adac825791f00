#include "plugins/steward-bridge/store/store_config.hpp"

#include "plugins/steward-bridge/store/encoding.hpp"
#include "plugins/steward-bridge/store/local_store.hpp"
#include "plugins/steward-bridge/store/s3_store.hpp"

#include <array>
#include <charconv>

namespace capstan::steward {
namespace {

constexpr const char* kLocalContainer = "default.bkp";  // the sidecar's

struct Provider {
    const char* name;
    std::array<const char*, 3> also;
};
constexpr std::array<Provider, 8> kProviders{{{"S3", {"aws", "s3", "stackit"}},
                                              {"ABS", {"azure", "abs", "abs"}},
                                              {"GCS", {"gcp", "gcs", "gcs"}},
                                              {"Swift", {"openstack", "swift", "swift"}},
                                              {"OSS", {"alicloud", "oss", "oss"}},
                                              {"ECS", {"dell", "ecs", "ecs"}},
                                              {"OCS", {"openshift", "ocs", "ocs"}},
                                              {"Local", {"local", "local", "local"}}}};

std::string trimmed_slashes(std::string_view text) {
    while (text.starts_with('/')) {
        text.remove_prefix(1);
    }
    while (text.ends_with('/')) {
        text.remove_suffix(1);
    }
    return std::string(text);
}

std::string variable_prefix(StoreRole role) {
    switch (role) {
        case StoreRole::source: return "SOURCE_";
        case StoreRole::secondary: return "SECONDARY_";
        default: return "";
    }
}

std::string container_of(const StoreConfig& config, const Environment& environment) {
    return config.container.empty()
               ? environment(variable_prefix(config.role) + "STORAGE_CONTAINER")
               : config.container;
}

Result<std::unique_ptr<ObjectStore>> open_s3(const StoreConfig& config,
                                             const std::string& container,
                                             const StoreParts& parts) {
    if (container.empty()) {
        return fail(Code::invalid,
                    "the store has no container; name the bucket by --store-container or " +
                        variable_prefix(config.role) + "STORAGE_CONTAINER");
    }
    const S3Parts s3{parts.environment,
                     variable_prefix(config.role),
                     config.endpoint_override,
                     parts.digests,
                     parts.transport,
                     parts.pace,
                     config.overrides};
    S3Options options;
    options.bucket = container;
    options.part_bytes = config.min_chunk_bytes;
    CAPSTAN_TRY(auto store, S3Store::connect(s3, options));
    return std::unique_ptr<ObjectStore>(std::move(store));
}

}  // namespace

Result<std::string> canonical_provider(std::string_view name) {
    if (name.empty()) {
        return std::string();
    }
    for (const Provider& provider : kProviders) {
        if (name == provider.name || name == provider.also[0] || name == provider.also[1] ||
            name == provider.also[2]) {
            return std::string(provider.name);
        }
    }
    return fail(Code::invalid,
                "storage provider " + quote_foreign(name) +
                    " is not known; the ones that work are S3 and Local");
}

Result<StoreConfig> StoreConfig::parse_spec(const json::View& store) {
    StoreConfig out;
    const auto text = [&store](const char* field, std::string& into) -> Result<void> {
        const json::View value = store[field];
        if (value.present()) {
            CAPSTAN_TRY(into, value.as_string());
        }
        return ok();
    };
    std::string provider;
    CAPSTAN_TRY(text("provider", provider));
    CAPSTAN_TRY(text("container", out.container));
    CAPSTAN_TRY(text("prefix", out.prefix));
    CAPSTAN_TRY(text("endpointOverride", out.endpoint_override));
    auto canonical = canonical_provider(provider);
    if (!canonical) {
        return fail(store["provider"].error(canonical.error().message));
    }
    out.provider = std::move(canonical).value();
    out.prefix = trimmed_slashes(out.prefix);
    return out;
}

Result<bool> StoreConfig::take_flag(std::string_view name, std::string_view value) {
    if (name == "storage-provider") {
        CAPSTAN_TRY(provider, canonical_provider(value));
    } else if (name == "store-container") {
        container = value;
    } else if (name == "store-prefix") {
        prefix = trimmed_slashes(value);
    } else if (name == "store-endpoint-override") {
        endpoint_override = value;
    } else if (name == "min-chunk-size") {
        const char* const end = value.data() + value.size();
        const auto [stop, error] = std::from_chars(value.data(), end, min_chunk_bytes);
        if (error != std::errc() || stop != end || min_chunk_bytes < kPartBytesMin) {
            return fail(Code::invalid,
                        "--min-chunk-size=" + std::string(value) +
                            ": a number of bytes of at least 5242880 is expected");
        }
    } else if (name == "max-parallel-chunk-uploads" || name == "snapstore-temp-directory") {
        // Parts go one after the other, from memory.
        if (value.empty() || value == "0") {
            return fail(Code::invalid, "--" + std::string(name) + " must not be empty or 0");
        }
    } else {
        return false;
    }
    return true;
}

std::string local_directory(const StoreConfig& config,
                            std::string_view home,
                            const Environment& environment) {
    const std::string container = container_of(config, environment);
    return home.empty() ? container
                        : std::string(home) + "/" +
                              trimmed_slashes(container.empty() ? kLocalContainer : container);
}

Result<std::unique_ptr<ObjectStore>> open_store(const StoreConfig& config,
                                                const StoreParts& parts) {
    if (config.provider == "Local") {
        const std::string directory = local_directory(config, parts.home, parts.environment);
        CAPSTAN_TRY(auto store, LocalStore::open_directory({directory, parts.make_directory}));
        return std::unique_ptr<ObjectStore>(std::move(store));
    }
    if (config.provider == "S3") {
        return open_s3(config, container_of(config, parts.environment), parts);
    }
    if (config.provider.empty()) {
        return fail(Code::invalid, "no storage provider is set, so there are no backups");
    }
    return fail(Code::unsupported,
                "storage provider " + config.provider +
                    " is not supported yet; the ones that work are S3 and Local");
}

}  // namespace capstan::steward
