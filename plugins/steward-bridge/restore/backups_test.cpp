// Backups that exist: those in test/data/backups restore to exactly what their source held, those
// in backups-malformed end as their expected.md says is right.
#include "plugins/steward-bridge/restore/directory_objects.hpp"
#include "plugins/steward-bridge/restore/dump.hpp"
#include "plugins/steward-bridge/restore/store_objects.hpp"
#include "plugins/steward-bridge/restore/testing_backup.hpp"
#include "plugins/steward-bridge/store/local_store.hpp"

#include "capstan/json.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

namespace capstan::steward {
namespace {

std::string data(const std::string& below) {
    const char* given = std::getenv("CAPSTAN_TEST_DATA");
    return (given == nullptr ? std::string("test/data") : given) + "/" + below;
}

std::vector<std::string> sets(const std::string& below) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(data(below))) {
        names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

NewCluster one_member() {
    return make_cluster("default", "default=http://localhost:2380", "etcd-cluster").value();
}

class Backups : public testing::Test {
protected:
    Result<RestoreReport> restore_set(const std::string& set, RestoreOptions options = {}) {
        DirectoryObjects objects(data(set));
        const SnapshotListing listing = objects.list().value();
        options.work_directory = directory_.path("work");
        return restore(listing, objects, digests_, one_member(), directory_.path("data"), options);
    }

    std::string database() const { return directory_.path("data/member/snap/db"); }

    std::string decode(std::string_view base64) {
        std::string text;
        unsigned bits = 0, buffer = 0;
        for (const char c : base64) {
            const std::string_view alphabet =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            const std::size_t value = alphabet.find(c);
            if (value == std::string_view::npos) {
                break;
            }
            buffer = buffer << 6 | static_cast<unsigned>(value);
            bits += 6;
            if (bits >= 8) {
                bits -= 8;
                text += static_cast<char>(buffer >> bits);
            }
        }
        return text;
    }

    void expect_restored(const std::string& set, const Result<RestoreReport>& report) {
        ASSERT_TRUE(report) << report.error().message;
        const json::Value expected =
            json::parse(file_content(data(set + "/expected.json"))).value();
        EXPECT_EQ(report.value().revision, json::View(expected)["revision"].as_int().value());
        LiveKeys keys;
        for (const json::Value& each : json::View(expected)["kvs"].array()) {
            const json::View kv(each);
            keys[decode(kv["key"].string_or(""))] = {kv["create_revision"].int_or(0),
                                                     kv["mod_revision"].int_or(0),
                                                     kv["version"].int_or(0),
                                                     kv["lease"].int_or(0),
                                                     decode(kv["value"].string_or(""))};
        }
        const LiveKeys found = live_keys(read_database(database()));
        EXPECT_EQ(found.size(), keys.size());
        EXPECT_TRUE(found == keys);
        EXPECT_EQ(directory_.entries(), std::vector<std::string>{"data"});
        std::filesystem::remove_all(directory_.path("data"));
    }

    TestDirectory directory_;
    TestingDigests digests_;
};

TEST_F(Backups, EachRestoresToWhatItsSourceHeld) {
    const std::vector<std::string> names = sets("backups");
    EXPECT_GE(names.size(), 24u);
    for (const std::string& name : names) {
        SCOPED_TRACE(name);
        expect_restored("backups/" + name, restore_set("backups/" + name));
    }
}

TEST_F(Backups, EachIsVerifiedWithoutBeingWritten) {
    for (const std::string& name : sets("backups")) {
        DirectoryObjects objects(data("backups/" + name));
        RestoreOptions options;
        options.work_directory = directory_.path("work");
        const auto report = verify(objects.list().value(), objects, digests_, options);
        EXPECT_TRUE(report) << name << ": " << report.error().message;
        EXPECT_TRUE(directory_.entries().empty()) << name;
    }
}

// The same keys after one more step: chain, compacted full, restore from that alone.
TEST_F(Backups, EachRestoresFromItsCompactedFullAsWell) {
    for (const std::string& name : sets("backups")) {
        SCOPED_TRACE(name);
        const std::string set = "backups/" + name;
        DirectoryObjects objects(data(set));
        RestoreOptions options;
        options.work_directory = directory_.path("work");
        const std::string store = directory_.path("store");
        std::filesystem::create_directories(store + "/v2");
        TestFileSink full(store + "/v2/full");
        const auto compacted = compact(objects.list().value(), objects, digests_, full, options);
        ASSERT_TRUE(compacted) << compacted.error().message;
        EXPECT_EQ(directory_.entries(), std::vector<std::string>{"store"});
        std::filesystem::rename(
            store + "/v2/full",
            store + "/v2/Full-0-" + std::to_string(compacted.value().revision) + "-1");
        DirectoryObjects again(store);
        const auto report = restore(
            again.list().value(), again, digests_, one_member(), directory_.path("data"), options);
        std::filesystem::remove_all(store);
        expect_restored(set, report);
    }
}

TEST_F(Backups, EachIsDumpedAsEtcdctlWouldListIt) {
    for (const std::string& name : sets("backups")) {
        SCOPED_TRACE(name);
        DirectoryObjects objects(data("backups/" + name));
        RestoreOptions options;
        options.work_directory = directory_.path("work");
        TestFileSink json(directory_.path("dump"));
        const auto report = dump(objects.list().value(), objects, digests_, json, options);
        ASSERT_TRUE(report) << report.error().message;
        const auto expected = json::parse(file_content(data("backups/" + name + "/expected.json")));
        const auto found = json::parse(file_content(directory_.path("dump")));
        ASSERT_TRUE(found) << found.error().message;
        EXPECT_EQ(found.value(), expected.value());
        EXPECT_EQ(directory_.entries(), std::vector<std::string>{"dump"});
    }
}

struct Refusal {
    const char* set;
    Code code;
    std::vector<const char*> says;
};

const Refusal kRefusals[] = {
    {"delta-bad-digest", Code::invalid, {"Incr-00000042-00000060", "SHA-256", "revision 41"}},
    {"delta-events-unordered", Code::invalid, {"Incr-00000042-00000060"}},
    {"delta-gz-truncated", Code::invalid, {"Incr-00000042-00000060", "ends too early"}},
    {"delta-inner-gap", Code::invalid, {"Incr-00000042-00000060", "revision 47 is missing"}},
    {"delta-missing-first", Code::invalid, {"revisions 22 to 41", "--to-revision 21"}},
    {"delta-missing-middle", Code::invalid, {"revisions 42 to 60", "--to-revision 41"}},
    {"delta-not-json", Code::invalid, {"Incr-00000042-00000060"}},
    {"delta-shorter-than-name", Code::invalid, {"Incr-00000061-00000074", "72"}},
    {"delta-zero-bytes", Code::invalid, {"Incr-00000042-00000060", "empty"}},
    {"deltas-without-base", Code::invalid, {"no full snapshot"}},
    {"foreign-delta", Code::invalid, {"Incr-00000033-00000047", "another cluster"}},
    {"full-bad-digest", Code::invalid, {"Full-00000000-00000021", "SHA-256"}},
    {"full-bit-flip", Code::invalid, {"Full-00000000-00000021", "SHA-256"}},
    {"full-gz-footer-missing", Code::invalid, {"Full-00000000-00000021", "ends too early"}},
    {"full-gz-truncated", Code::invalid, {"Full-00000000-00000021", "ends too early"}},
    {"full-no-digest", Code::invalid, {"Full-00000000-00000021", "digest"}},
    {"full-zero-bytes", Code::invalid, {"Full-00000000-00000021", "0 bytes"}},
    {"full-zero-bytes-plain", Code::invalid, {"Full-00000000-00000021", "0 bytes"}},
    {"gzip-trailing-garbage", Code::invalid, {"Incr-00000042-00000060", "follow the end"}},
    {"lzw-no-end", Code::invalid, {"Incr-00000037-00000055", "ends too early"}},
    {"newest-delta-truncated", Code::invalid, {"Incr-00000061-00000074", "--to-revision 60"}},
    {"newest-full-corrupt-gap", Code::invalid, {"Full-00000000-00000058", "--to-revision 53"}},
    {"store-empty", Code::not_found, {"no snapshot"}},
    {"suffix-lies", Code::invalid, {"Full-00000000-00000021", "gzip"}},
};

TEST_F(Backups, MalformedOnesEndAsIsRight) {
    std::set<std::string> refused;
    for (const Refusal& refusal : kRefusals) {
        SCOPED_TRACE(refusal.set);
        refused.insert(refusal.set);
        const auto report = restore_set(std::string("backups-malformed/") + refusal.set);
        ASSERT_FALSE(report);
        EXPECT_EQ(report.error().code, refusal.code);
        for (const char* part : refusal.says) {
            EXPECT_NE(report.error().message.find(part), std::string::npos)
                << part << " is not in: " << report.error().message;
        }
        EXPECT_TRUE(directory_.entries().empty());
    }
    for (const std::string& name : sets("backups-malformed")) {
        const std::string set = "backups-malformed/" + name;
        const bool restores = std::filesystem::exists(data(set + "/expected.json"));
        ASSERT_NE(restores, refused.contains(name)) << name;
        if (restores) {
            SCOPED_TRACE(name);
            expect_restored(set, restore_set(set));
        }
    }
}

TEST_F(Backups, ADamagedFullThatIsPassedOverIsToldOf) {
    const auto report = restore_set("backups-malformed/newest-full-corrupt-chain-complete");
    ASSERT_EQ(report.value().warnings.size(), 1u);
    EXPECT_NE(report.value().warnings[0].find("Full-00000000-00000053"), std::string::npos);
}

TEST_F(Backups, WhatIsLostIsLeftOutOnlyWhenAskedFor) {
    RestoreOptions options;
    options.wish.to_revision = 53;
    const auto report = restore_set("backups-malformed/newest-full-corrupt-gap", options);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report.value().revision, 53);
}

TEST_F(Backups, AnotherHistoryIsTakenOnlyWhenAskedFor) {
    RestoreOptions options;
    options.accept_unfit_events = true;
    const auto report = restore_set("backups-malformed/foreign-delta", options);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_GT(report.value().counts.events_unfit, 0u);
    ASSERT_EQ(report.value().warnings.size(), 1u);
    EXPECT_NE(report.value().warnings[0].find("mixture of two histories"), std::string::npos);
}

TEST_F(Backups, AreReadThroughAnObjectStore) {
    std::filesystem::create_directories(directory_.path("backups/main"));
    std::filesystem::copy(data("backups/mixed-compression/v2"),
                          directory_.path("backups/main/v2"),
                          std::filesystem::copy_options::recursive);
    const auto store = LocalStore::open_directory({directory_.path("backups")});
    ASSERT_TRUE(store) << store.error().message;
    const auto listing = list_snapshots(*store.value(), "main");
    ASSERT_TRUE(listing) << listing.error().message;
    StoreObjects objects(*store.value());
    RestoreOptions options;
    options.work_directory = directory_.path("work");
    const auto report = verify(listing.value(), objects, digests_, options);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report.value().revision, 98);
    EXPECT_EQ(report.value().full, "main/v2/Full-00000000-00000027-1796005951.Z");
}

// "a/b" is a backup of its own, also when "a" is listed.
TEST_F(Backups, SnapshotsOfAPrefixBelowAreNotItsOwn) {
    for (const char* prefix : {"", "/below", "/below/further"}) {
        std::filesystem::create_directories(directory_.path("store/main") + prefix);
        std::filesystem::copy(data("backups/zlib/v2"),
                              directory_.path("store/main") + prefix + "/v2",
                              std::filesystem::copy_options::recursive);
    }
    std::filesystem::create_directories(directory_.path("store/main/below/capstan"));
    std::ofstream(directory_.path("store/main/below/capstan/delta-5")) << "a fence";
    const auto store = LocalStore::open_directory({directory_.path("store")});
    ASSERT_TRUE(store) << store.error().message;
    const SnapshotListing main = list_snapshots(*store.value(), "main").value();
    const SnapshotListing below = list_snapshots(*store.value(), "main/below").value();
    ASSERT_FALSE(main.snapshots.empty());
    EXPECT_EQ(main.snapshots.size(), below.snapshots.size());
    EXPECT_EQ(main.skipped.size(), 2 * main.snapshots.size());
    EXPECT_EQ(below.skipped.size(), main.snapshots.size());
    for (const SnapshotRecord& record : main.snapshots) {
        EXPECT_EQ(record.prefix, "main/v2/");
    }
    EXPECT_TRUE(main.fences.empty());
    EXPECT_EQ(below.fences.size(), 1u);
    EXPECT_TRUE(list_snapshots(*store.value(), "").value().snapshots.empty());
}

// The gap is seen in the names: nothing is fetched for it.
TEST_F(Backups, AGapBetweenDeltasIsRefusedBeforeAnythingIsRead) {
    DirectoryObjects objects(data("backups-malformed/delta-missing-middle"));
    RestoreOptions options;
    options.work_directory = directory_.path("work");
    EXPECT_FALSE(verify(objects.list().value(), objects, digests_, options));
    EXPECT_TRUE(objects.opened.empty());
}

TEST_F(Backups, DeltasThatTheFullHoldsAreNotRead) {
    DirectoryObjects objects(data("backups/overlap-many-deltas"));
    RestoreOptions options;
    options.work_directory = directory_.path("work");
    ASSERT_TRUE(verify(objects.list().value(), objects, digests_, options));
    EXPECT_EQ(objects.opened,
              (std::vector<std::string>{"Full-00000000-00000033-1796006110.gz",
                                        "Incr-00002634-00002644-1796006117.gz"}));
}

}  // namespace
}  // namespace capstan::steward
