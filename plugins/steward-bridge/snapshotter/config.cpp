#include "plugins/steward-bridge/snapshotter/config.hpp"

#include <limits>
#include <tuple>

namespace capstan::steward {
namespace {

using std::chrono::nanoseconds;

Result<void> read_text(const json::View& field, std::string& into) {
    if (field.present()) {
        CAPSTAN_TRY(into, field.as_string());
    }
    return ok();
}

Result<void> read_flag(const json::View& field, bool& into) {
    if (field.present()) {
        CAPSTAN_TRY(into, field.as_bool());
    }
    return ok();
}

Result<void> read_count(const json::View& field, std::int64_t least, std::int64_t& into) {
    if (!field.present()) {
        return ok();
    }
    CAPSTAN_TRY(into, field.as_int());
    if (into < least) {
        return fail(field.error("must be at least " + std::to_string(least)));
    }
    return ok();
}

Result<void> read_span(const json::View& field, nanoseconds least, nanoseconds& into) {
    if (!field.present()) {
        return ok();
    }
    CAPSTAN_TRY(const std::string_view text, field.as_string());
    const auto span = parse_duration(text);
    if (!span || *span < least) {
        return fail(field.error("a duration like \"20s\" is expected, of at least " +
                                std::to_string(least / std::chrono::seconds(1)) + "s"));
    }
    into = *span;
    return ok();
}

Result<void> read_store(const json::View& store, StoreConfig& into) {
    if (!store.present()) {
        return ok();
    }
    CAPSTAN_TRY(StoreConfig said, StoreConfig::parse_spec(store));
    const auto take = [&](const char* field, std::string& to, std::string& from) {
        if (store[field].present()) {
            to = std::move(from);
        }
    };
    take("provider", into.provider, said.provider);
    take("container", into.container, said.container);
    take("prefix", into.prefix, said.prefix);
    take("endpointOverride", into.endpoint_override, said.endpoint_override);
    if (store["minChunkSize"].present()) {
        CAPSTAN_TRY(const std::int64_t bytes, store["minChunkSize"].as_int());
        const auto taken = into.take_flag("min-chunk-size", std::to_string(bytes));
        if (!taken) {
            return fail(store["minChunkSize"].error("at least 5242880 bytes are expected"));
        }
    }
    return ok();
}

Result<void> read_snapshotter(const json::View& view, SnapshotterConfig& into) {
    CAPSTAN_TRY(read_text(view["schedule"], into.schedule));
    const auto schedule = Schedule::parse(into.schedule);
    if (!schedule) {
        return fail(view["schedule"].error(schedule.error().message));
    }
    CAPSTAN_TRY(read_span(view["scheduleJitter"], nanoseconds(0), into.jitter));
    CAPSTAN_TRY(read_span(view["deltaSnapshotPeriod"], nanoseconds(0), into.delta_period));
    std::int64_t memory = 0;
    CAPSTAN_TRY(read_count(
        view["deltaSnapshotMemoryLimit"], std::numeric_limits<std::int64_t>::min(), memory));
    if (memory > 0) {
        into.delta_memory_bytes = static_cast<std::uint64_t>(memory);
    }
    CAPSTAN_TRY(
        read_span(view["deltaSnapshotRetentionPeriod"], nanoseconds(0), into.delta_retention));
    CAPSTAN_TRY(read_span(view["garbageCollectionPeriod"], nanoseconds(0), into.collect_period));
    CAPSTAN_TRY(read_count(view["maxBackups"], 1, into.max_backups));
    std::string policy;
    CAPSTAN_TRY(read_text(view["garbageCollectionPolicy"], policy));
    if (policy == "LimitBased") {
        into.policy = RetentionPolicy::limit_based;
    } else if (policy == "Exponential") {
        into.policy = RetentionPolicy::exponential;
    } else if (!policy.empty()) {
        return fail(view["garbageCollectionPolicy"].error("Exponential or LimitBased is expected"));
    }
    return ok();
}

Result<void> read_compression(const json::View& view, SnapshotterConfig& into) {
    bool enabled = into.compression != Compression::none;
    CAPSTAN_TRY(read_flag(view["enabled"], enabled));
    std::string policy;
    CAPSTAN_TRY(read_text(view["policy"], policy));
    if (!enabled) {
        into.compression = Compression::none;
        return ok();
    }
    if (!policy.empty()) {
        const auto compression = compression_of_policy(policy);
        if (!compression) {
            return fail(view["policy"].error(compression.error().message));
        }
        into.compression = compression.value();
    } else if (into.compression == Compression::none) {
        into.compression = Compression::gzip;
    }
    return ok();
}

Result<void> read_connection(const json::View& view, SnapshotterConfig& into) {
    CAPSTAN_TRY(read_text(view["username"], into.username));
    CAPSTAN_TRY(read_text(view["password"], into.password));
    CAPSTAN_TRY(
        read_span(view["connectionTimeout"], std::chrono::seconds(1), into.connection_timeout));
    CAPSTAN_TRY(read_span(view["snapshotTimeout"], std::chrono::seconds(1), into.snapshot_timeout));
    if (into.snapshot_timeout < into.connection_timeout && view["snapshotTimeout"].present()) {
        return fail(view["snapshotTimeout"].error("must not be shorter than connectionTimeout"));
    }
    return ok();
}

auto members_of(const SnapshotterConfig& c) {
    return std::tie(c.store.provider,
                    c.store.container,
                    c.store.prefix,
                    c.store.endpoint_override,
                    c.store.min_chunk_bytes,
                    c.home,
                    c.schedule,
                    c.jitter,
                    c.delta_period,
                    c.delta_memory_bytes,
                    c.delta_retention,
                    c.collect_period,
                    c.policy,
                    c.max_backups,
                    c.compression,
                    c.connection_timeout,
                    c.snapshot_timeout,
                    c.username,
                    c.password,
                    c.backoff_multiplier,
                    c.backoff_attempts,
                    c.backoff_max,
                    c.renew_leases,
                    c.full_lease,
                    c.delta_lease);
}

}  // namespace

Result<SnapshotterConfig> SnapshotterConfig::parse(const json::View& document,
                                                   SnapshotterConfig base) {
    SnapshotterConfig out = std::move(base);
    CAPSTAN_TRY(read_store(document["snapstoreConfig"], out.store));
    CAPSTAN_TRY(read_text(document["snapstoreConfig"]["home"], out.home));
    CAPSTAN_TRY(read_snapshotter(document["snapshotterConfig"], out));
    CAPSTAN_TRY(read_compression(document["compressionConfig"], out));
    CAPSTAN_TRY(read_connection(document["etcdConnectionConfig"], out));
    const json::View backoff = document["exponentialBackoffConfig"];
    CAPSTAN_TRY(read_count(backoff["multiplier"], 1, out.backoff_multiplier));
    CAPSTAN_TRY(read_count(backoff["attemptLimit"], 1, out.backoff_attempts));
    CAPSTAN_TRY(read_span(backoff["thresholdTime"], std::chrono::seconds(1), out.backoff_max));
    const json::View health = document["healthConfig"];
    CAPSTAN_TRY(read_flag(health["snapshotLeaseRenewalEnabled"], out.renew_leases));
    CAPSTAN_TRY(read_text(health["fullSnapshotLeaseName"], out.full_lease));
    CAPSTAN_TRY(read_text(health["deltaSnapshotLeaseName"], out.delta_lease));
    return out;
}

bool operator==(const SnapshotterConfig& a, const SnapshotterConfig& b) {
    return a.store.role == b.store.role && members_of(a) == members_of(b);
}

}  // namespace capstan::steward
