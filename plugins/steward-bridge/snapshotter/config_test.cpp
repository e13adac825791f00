#include "plugins/steward-bridge/snapshotter/config.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

Result<SnapshotterConfig> parse(const char* text, const SnapshotterConfig& base = {}) {
    const auto value = json::parse(text);
    EXPECT_TRUE(value) << text;
    return SnapshotterConfig::parse(json::View(value.value()), base);
}

TEST(SnapshotterConfig, HasTheDefaultsOfTheSidecar) {
    const SnapshotterConfig config = parse("{}").value();
    EXPECT_FALSE(config.backups());
    EXPECT_EQ(config.schedule, "0 */1 * * *");
    EXPECT_EQ(config.delta_period, seconds(20));
    EXPECT_EQ(config.delta_memory_bytes, 10'485'760u);
    EXPECT_EQ(config.collect_period, minutes(1));
    EXPECT_EQ(config.policy, RetentionPolicy::exponential);
    EXPECT_EQ(config.max_backups, 7);
    EXPECT_EQ(config.compression, Compression::gzip);
    EXPECT_EQ(config.snapshot_timeout, minutes(15));
    EXPECT_EQ(config.backoff_max, seconds(128));
    EXPECT_EQ(config, SnapshotterConfig());
}

TEST(SnapshotterConfig, TakesEachMember) {
    const SnapshotterConfig config = parse(R"({
        "snapstoreConfig": {"provider": "aws", "container": "b", "prefix": "/x/y/",
                            "endpointOverride": "https://s3.local", "minChunkSize": 6000000},
        "snapshotterConfig": {"schedule": "5 1 * * *", "scheduleJitter": "2m",
                              "deltaSnapshotPeriod": "5m", "deltaSnapshotMemoryLimit": 123,
                              "deltaSnapshotRetentionPeriod": "48h", "garbageCollectionPeriod": "12h",
                              "garbageCollectionPolicy": "LimitBased", "maxBackups": 3},
        "compressionConfig": {"enabled": true, "policy": "zlib"},
        "etcdConnectionConfig": {"username": "u", "password": "p", "connectionTimeout": "7s",
                                 "snapshotTimeout": "8m"},
        "exponentialBackoffConfig": {"multiplier": 3, "attemptLimit": 4, "thresholdTime": "1m"},
        "healthConfig": {"snapshotLeaseRenewalEnabled": true, "fullSnapshotLeaseName": "f",
                         "deltaSnapshotLeaseName": "d"},
        "unknown": 1})")
                                         .value();
    EXPECT_EQ(config.store.provider, "S3");
    EXPECT_EQ(config.store.prefix, "x/y");
    EXPECT_EQ(config.store.min_chunk_bytes, 6'000'000u);
    EXPECT_EQ(config.jitter, minutes(2));
    EXPECT_EQ(config.delta_period, minutes(5));
    EXPECT_EQ(config.delta_memory_bytes, 123u);
    EXPECT_EQ(config.delta_retention, hours(48));
    EXPECT_EQ(config.collect_period, hours(12));
    EXPECT_EQ(config.policy, RetentionPolicy::limit_based);
    EXPECT_EQ(config.max_backups, 3);
    EXPECT_EQ(config.compression, Compression::zlib);
    EXPECT_EQ(config.connection_timeout, seconds(7));
    EXPECT_EQ(config.snapshot_timeout, minutes(8));
    EXPECT_EQ(config.backoff_multiplier, 3);
    EXPECT_TRUE(config.renew_leases);
    EXPECT_EQ(config.full_lease, "f");
    EXPECT_EQ(config.delta_lease, "d");
    EXPECT_FALSE(config == SnapshotterConfig());
}

TEST(SnapshotterConfig, WhatIsNotSaidIsTheBase) {
    SnapshotterConfig base;
    base.max_backups = 9;
    base.store.provider = "Local";
    base.store.container = "c";
    base.compression = Compression::lzw;
    const SnapshotterConfig config =
        parse(
            R"({"snapstoreConfig": {"prefix": "p"}, "snapshotterConfig": {"schedule": "@daily"}})",
            base)
            .value();
    EXPECT_EQ(config.max_backups, 9);
    EXPECT_EQ(config.store.container, "c");
    EXPECT_EQ(config.store.prefix, "p");
    EXPECT_EQ(config.compression, Compression::lzw);
    EXPECT_EQ(parse(R"({"compressionConfig": {"enabled": false}})", base).value().compression,
              Compression::none);
}

struct FaultRow {
    const char* name;
    const char* text;
    const char* path;
};

class Fault : public ::testing::TestWithParam<FaultRow> {};

TEST_P(Fault, NamesTheField) {
    const auto config = parse(GetParam().text);
    ASSERT_FALSE(config);
    EXPECT_EQ(config.error().code, Code::invalid);
    EXPECT_EQ(config.error().message.find(GetParam().path), 0u) << config.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    Fault,
    ::testing::Values(
        FaultRow{"provider",
                 R"({"snapstoreConfig": {"provider": "disk"}})",
                 "/snapstoreConfig/provider: "},
        FaultRow{"schedule",
                 R"({"snapshotterConfig": {"schedule": "61 * * * *"}})",
                 "/snapshotterConfig/schedule: "},
        FaultRow{"period_as_number",
                 R"({"snapshotterConfig": {"deltaSnapshotPeriod": 20}})",
                 "/snapshotterConfig/deltaSnapshotPeriod: "},
        FaultRow{"period_negative",
                 R"({"snapshotterConfig": {"deltaSnapshotPeriod": "-1s"}})",
                 "/snapshotterConfig/deltaSnapshotPeriod: "},
        FaultRow{"policy",
                 R"({"snapshotterConfig": {"garbageCollectionPolicy": "limitbased"}})",
                 "/snapshotterConfig/garbageCollectionPolicy: "},
        FaultRow{"no_backups_kept",
                 R"({"snapshotterConfig": {"maxBackups": 0}})",
                 "/snapshotterConfig/maxBackups: "},
        FaultRow{"compression",
                 R"({"compressionConfig": {"policy": "zstd"}})",
                 "/compressionConfig/policy: "},
        FaultRow{"chunk", R"({"snapstoreConfig": {"minChunkSize": 5}})", "/snapstoreConfig/minCh"},
        FaultRow{"timeouts",
                 R"({"etcdConnectionConfig": {"snapshotTimeout": "5s"}})",
                 "/etcdConnectionConfig/snapshotTimeout: "}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace capstan::steward
