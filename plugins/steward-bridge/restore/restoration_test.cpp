// Restoring from stores made for one rule each, and from random histories.
#include "plugins/steward-bridge/restore/restoration.hpp"

#include "plugins/steward-bridge/restore/directory_objects.hpp"
#include "plugins/steward-bridge/restore/raft_files.hpp"
#include "plugins/steward-bridge/restore/testing_backup.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

namespace capstan::steward {
namespace {

DeltaEvent put(std::string key, std::int64_t create, std::int64_t mod, std::int64_t version) {
    return {false, std::move(key), "v" + std::to_string(mod), create, mod, version, 0, {}};
}

DeltaEvent erase(std::string key, std::int64_t mod) {
    return {true, std::move(key), "", 0, mod, 0, 0, {}};
}

// Buckets as a member of etcd 3.5 has them.
Database base_of(const std::vector<DeltaEvent>& events) {
    return {{"alarm", {{std::string("\x08\x01", 2), ""}}},
            {"auth", {{"authRevision", mvcc::encode_number(7)}}},
            {"authRoles", {{"reader", "r"}}},
            {"authUsers", {{"root", "u"}}},
            {"cluster", {{"clusterVersion", "3.5.0"}}},
            {"key", key_entries(events)},
            {"lease", {{mvcc::encode_number(5), mvcc::encode_lease({5, 60})}}},
            {"members", {{"old", "{}"}}},
            {"members_removed", {{"older", "removed"}}},
            {"meta",
             {{"consistent_index", mvcc::encode_number(99)},
              {"term", mvcc::encode_number(9)},
              {"confState", "{}"},
              {"storageVersion", "3.6.0"}}}};
}

class Restoration : public testing::Test {
protected:
    Result<RestoreReport> run(std::optional<std::int64_t> to_revision = {}) {
        options_.wish.to_revision = to_revision;
        options_.work_directory = directory_.path("work");
        DirectoryObjects objects(directory_.path("store"));
        return restore(objects.list().value(), objects, digests_, cluster_, data_, options_);
    }

    Database restored() const { return read_database(directory_.path("data/member/snap/db")); }

    TestDirectory directory_;
    std::string data_{directory_.path("data")};
    TestStore store_{directory_.path("store")};
    TestingDigests digests_;
    NewCluster cluster_ = make_cluster("a", "a=http://a:1,b=http://b:1", "token").value();
    RestoreOptions options_;
};

TEST_F(Restoration, LeavesTheBucketsOfAClusterThatStartsAnew) {
    store_.add_full(3, base_of({put("x", 2, 2, 1), put("x", 2, 3, 2)}));
    store_.add_delta({put("y", 4, 4, 1)});
    ASSERT_TRUE(run());
    Database expected = base_of({put("x", 2, 2, 1), put("x", 2, 3, 2), put("y", 4, 4, 1)});
    expected["alarm"].clear();
    expected["members"].clear();
    for (const NewMember& member : cluster_.members) {
        expected["members"][member.hex_id()] = member.json();
    }
    expected["members_removed"].clear();
    expected["meta"]["consistent_index"] = mvcc::encode_number(2);
    expected["meta"]["term"] = mvcc::encode_number(1);
    expected["meta"]["confState"] = conf_state_json(cluster_);
    EXPECT_EQ(restored(), expected);
    EXPECT_EQ(file_content(directory_.path("data/member/wal/0000000000000000-"
                                           "0000000000000000.wal")),
              encode_log(cluster_));
    EXPECT_EQ(file_content(directory_.path("data/member/snap/0000000000000001-"
                                           "0000000000000002.snap")),
              encode_snapshot(cluster_));
}

TEST_F(Restoration, EventsOfOneRevisionGetTheirPlaceInsideIt) {
    store_.add_full(3, base_of({put("a", 2, 2, 1), put("b", 3, 3, 1)}));
    const std::vector<DeltaEvent> events = {
        put("a", 2, 4, 2), erase("b", 4), put("c", 4, 4, 1), erase("a", 5), erase("c", 5)};
    store_.add_delta(events);
    ASSERT_TRUE(run());
    const auto keys = restored().at("key");
    EXPECT_EQ(keys.size(), 7u);
    EXPECT_TRUE(keys.contains(mvcc::encode_revision({4, 1, true})));
    EXPECT_TRUE(keys.contains(mvcc::encode_revision({4, 2, false})));
    EXPECT_EQ(keys.at(mvcc::encode_revision({5, 1, true})),
              std::string("\x0a\x01"
                          "c"));
    EXPECT_TRUE(live_keys(restored()).empty());
}

TEST_F(Restoration, LargeValuesComeBack) {
    DeltaEvent first = put("a", 2, 2, 1), second = put("a", 2, 3, 2);
    first.value = std::string(3'000'000, 'x');
    second.value = std::string(5'000'000, 'y');
    store_.add_full(2, base_of({first}));
    store_.add_delta({second}, Compression::gzip);
    ASSERT_TRUE(run());
    EXPECT_EQ(restored().at("key"), key_entries({first, second}));
}

TEST_F(Restoration, OverlappingDeltasAddNothingTwice) {
    store_.add_full(2, base_of({put("a", 2, 2, 1), put("a", 2, 3, 2)}));
    store_.add_delta({put("a", 2, 3, 2), put("a", 2, 4, 3), put("b", 4, 4, 1)});
    store_.add_delta({put("a", 2, 3, 2), put("a", 2, 4, 3), put("b", 4, 4, 1), erase("b", 5)},
                     Compression::gzip,
                     2);
    store_.add_delta({put("a", 2, 4, 3), put("b", 4, 4, 1), erase("b", 5), put("a", 2, 6, 4)});
    const auto report = run();
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report.value().revision, 6);
    EXPECT_EQ(restored().at("key").size(), 6u);
}

// Two deltas begin at one revision, as after a change of the leader; the longer one is damaged.
TEST_F(Restoration, ADamagedDeltaIsPassedOverWhenOthersHoldItsRevisions) {
    store_.add_full(2, base_of({put("a", 2, 2, 1)}));
    store_.add_delta({put("a", 2, 3, 2), put("a", 2, 4, 3)});
    store_.add_delta({put("a", 2, 3, 2)}, Compression::none, 2);
    store_.add_delta({put("a", 2, 4, 3)}, Compression::none, 2);
    const std::string damaged = directory_.path("store/v2/Incr-3-4-1");
    std::filesystem::resize_file(damaged, std::filesystem::file_size(damaged) - 1);
    const auto report = run();
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report.value().deltas, (std::vector<std::string>{"v2/Incr-3-3-2", "v2/Incr-4-4-2"}));
    ASSERT_EQ(report.value().warnings.size(), 1u);
    EXPECT_NE(report.value().warnings[0].find("v2/Incr-3-4-1 is damaged"), std::string::npos);
    EXPECT_EQ(restored().at("key").size(), 3u);
}

TEST_F(Restoration, LeasesOfTheBaseStayAndThoseDeltasTellOfAreMade) {
    store_.add_full(2, base_of({put("a", 2, 2, 1)}));
    DeltaEvent leased = put("b", 3, 3, 1), unknown = put("c", 4, 4, 1), known = put("d", 5, 5, 1);
    leased.lease = -7;
    leased.leases = {{-7, 30}, {2, 10}};
    unknown.lease = 1234;
    known.lease = 5;
    known.leases = {{5, 1}};
    store_.add_delta({leased, unknown, known});
    const auto report = run();
    ASSERT_TRUE(report);
    const std::map<std::string, std::string> expected = {
        {mvcc::encode_number(2), mvcc::encode_lease({2, 10})},
        {mvcc::encode_number(5), mvcc::encode_lease({5, 60})},
        {mvcc::encode_number(static_cast<std::uint64_t>(-7)), mvcc::encode_lease({-7, 30})}};
    EXPECT_EQ(restored().at("lease"), expected);
    EXPECT_EQ(report.value().counts.leases, 2u);
    EXPECT_EQ(report.value().counts.leases_unknown, 1u);
    EXPECT_EQ(live_keys(restored()).at("c").lease, 1234);
}

TEST_F(Restoration, OneDescriptionIsEnoughForAllKeysOfALease) {
    store_.add_full(2, base_of({put("a", 2, 2, 1)}));
    std::vector<DeltaEvent> events;
    for (std::int64_t revision = 3; revision < 9; ++revision) {
        events.push_back(put("k" + std::to_string(revision), revision, revision, 1));
        events.back().lease = revision < 6 ? 7 : revision < 8 ? 5 : 1234;
    }
    events[1].leases = {{7, 30}};  // 5 is in the base, 1234 nowhere
    store_.add_delta(events);
    const auto report = run();
    ASSERT_TRUE(report);
    EXPECT_EQ(report.value().counts.leases, 1u);
    EXPECT_EQ(report.value().counts.leases_unknown, 1u);
    EXPECT_EQ(restored().at("lease").size(), 2u);
}

TEST_F(Restoration, StopsAtTheRevisionAskedFor) {
    const std::vector<DeltaEvent> base = {put("a", 2, 2, 1), put("a", 2, 3, 2), put("a", 2, 4, 3)};
    store_.add_full(2, base_of(base));
    store_.add_delta({put("a", 2, 5, 4), put("b", 5, 5, 1), put("b", 5, 6, 2)});
    for (const std::int64_t wanted : {2, 3, 4, 5, 6}) {
        const auto report = run(wanted);
        ASSERT_TRUE(report) << wanted << ": " << report.error().message;
        EXPECT_EQ(report.value().revision, wanted);
        EXPECT_EQ(live_keys(restored()).at("a").version, std::min<std::int64_t>(wanted, 5) - 1);
        EXPECT_EQ(live_keys(restored()).contains("b"), wanted >= 5);
        std::filesystem::remove_all(directory_.path("data"));
    }
    EXPECT_EQ(run(7).error().code, Code::invalid);
    EXPECT_EQ(run(1).error().code, Code::invalid);
}

TEST_F(Restoration, ATimeIsTheRevisionOfTheSnapshotsMadeUntilThen) {
    store_.add_full(2, base_of({put("a", 2, 2, 1)}), 100);
    store_.add_delta({put("a", 2, 3, 2)}, Compression::none, 200);
    store_.add_delta({put("a", 2, 4, 3)}, Compression::none, 300);
    const auto revision_at = [&](int second) {
        options_.wish.to_time = WallTime(std::chrono::seconds(second));
        const auto report = run();
        std::filesystem::remove_all(data_);
        return report ? report.value().revision
                      : -static_cast<std::int64_t>(report.error().code == Code::not_found);
    };
    EXPECT_EQ(revision_at(99), -1);
    EXPECT_EQ(revision_at(100), 2);
    EXPECT_EQ(revision_at(299), 3);
    EXPECT_EQ(revision_at(1000), 4);
}

// The full reaches beyond its name, and what it held between was compacted there.
TEST_F(Restoration, DoesNotStopBeforeACompaction) {
    Database base = base_of({put("a", 2, 4, 3)});
    base["meta"]["scheduledCompactRev"] = mvcc::encode_revision({4, 0, false});
    store_.add_full(2, base);
    store_.add_delta({put("a", 2, 5, 4)});
    EXPECT_FALSE(run(3));
    EXPECT_TRUE(run(4));
}

// Its name leaves a gap, what is inside does not.
TEST_F(Restoration, AGapBehindAFullIsJudgedByWhatIsInside) {
    const std::vector<DeltaEvent> base = {put("a", 2, 2, 1), put("a", 2, 3, 2), put("a", 2, 4, 3)};
    store_.add_full(2, base_of(base));
    store_.add_delta({put("a", 2, 5, 4)});
    const auto report = run();
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report.value().revision, 5);
    store_.add_delta({put("a", 2, 7, 6)});
    std::filesystem::remove_all(directory_.path("data"));
    EXPECT_NE(run().error().message.find("revision 6"), std::string::npos);
}

TEST_F(Restoration, AFullThatEndsBeforeItsNameIsDamaged) {
    store_.add_full(9, base_of({put("a", 2, 2, 1)}));
    const auto report = run();
    ASSERT_FALSE(report);
    EXPECT_NE(report.error().message.find("ends at revision 2 although its name says 9"),
              std::string::npos)
        << report.error().message;
}

TEST_F(Restoration, AValueWithoutAKeyIsDamage) {
    Database base = base_of({put("a", 2, 2, 1)});
    base["key"][mvcc::encode_revision({3, 0, false})] = "";
    store_.add_full(3, base);
    EXPECT_NE(run().error().message.find("the value of revision 3 has no key"), std::string::npos);
}

TEST_F(Restoration, AFullCompactedAtItsEndKeepsItsRevision) {
    Database base = base_of({put("a", 2, 2, 1)});
    base["meta"]["finishedCompactRev"] = mvcc::encode_revision({5, 0, false});
    store_.add_full(5, base);
    store_.add_delta({put("a", 2, 6, 2)});
    const auto report = run();
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report.value().base_revision, 5);
}

TEST_F(Restoration, ADirectoryThatHoldsSomethingIsLeftAlone) {
    store_.add_full(2, base_of({put("a", 2, 2, 1)}));
    std::filesystem::create_directories(directory_.path("data"));
    ASSERT_TRUE(run());  // an empty one is no obstacle
    const Database before = restored();
    const auto again = run();
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, Code::exists);
    EXPECT_EQ(restored(), before);
}

TEST_F(Restoration, WhatIsThereStaysUntilTheNewDataIsMade) {
    const std::string old = directory_.path("data/member/snap/old");
    std::string made;
    options_.before_publishing = [&](const std::string& path) -> Result<void> {
        made = path;
        EXPECT_TRUE(std::filesystem::exists(old));
        EXPECT_TRUE(std::filesystem::exists(path + "/member/snap/db"));
        std::filesystem::rename(directory_.path("data/member"), directory_.path("aside"));
        return ok();
    };
    std::filesystem::create_directories(directory_.path("data/member/snap"));
    TestFileSink(old).write(bolt::bytes("old")).value();
    EXPECT_FALSE(run()) << "there is no snapshot";
    EXPECT_EQ(made, "");
    EXPECT_TRUE(std::filesystem::exists(old));
    store_.add_full(2, base_of({put("a", 2, 2, 1)}));
    ASSERT_TRUE(run());
    EXPECT_EQ(made, directory_.path("data.part"));
    EXPECT_TRUE(std::filesystem::exists(directory_.path("aside/snap/old")));
    EXPECT_EQ(live_keys(restored()).size(), 1u);
}

TEST_F(Restoration, WhatIsThereStaysWhenItIsNotLetGo) {
    store_.add_full(2, base_of({put("a", 2, 2, 1)}));
    std::filesystem::create_directories(directory_.path("data/member"));
    options_.before_publishing = [](const std::string&) -> Result<void> {
        return fail(Code::unavailable, "not now");
    };
    EXPECT_EQ(run().error().message, "not now");
    EXPECT_TRUE(std::filesystem::exists(directory_.path("data/member")));
    options_.before_publishing = [](const std::string&) -> Result<void> { return ok(); };
    EXPECT_EQ(run().error().code, Code::exists);
    EXPECT_FALSE(std::filesystem::exists(directory_.path("data.part")));
}

TEST_F(Restoration, ASlashAtTheEndOfTheDirectoryChangesNothing) {
    store_.add_full(2, base_of({put("a", 2, 2, 1)}));
    data_ = directory_.path("data/");
    ASSERT_TRUE(run());
    EXPECT_EQ(live_keys(restored()).size(), 1u);
    data_ = "/";
    EXPECT_EQ(run().error().code, Code::invalid);
}

TEST_F(Restoration, WhatAKilledRunLeftIsNoObstacle) {
    store_.add_full(2, base_of({put("a", 2, 2, 1)}));
    std::filesystem::create_directories(directory_.path("data.part/member/snap"));
    std::filesystem::create_directories(directory_.path("work"));
    TestFileSink(directory_.path("data.part/member/snap/db")).write(bolt::bytes("half")).value();
    TestFileSink(directory_.path("work/base.db")).write(bolt::bytes("half")).value();
    const auto report = run();
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(live_keys(restored()).size(), 1u);
}

TEST_F(Restoration, StopsWhenCancelledAndLeavesNothing) {
    store_.add_full(2, base_of({put("a", 2, 2, 1)}));
    int calls = 0;
    options_.cancelled = [&calls] { return ++calls > 2; };
    EXPECT_EQ(run().error().code, Code::cancelled);
    EXPECT_EQ(directory_.entries(), std::vector<std::string>{"store"});
}

// Objects of which one breaks off, as from a store that goes away.
class BrokenObjects final : public SnapshotObjects {
public:
    BrokenObjects(DirectoryObjects& objects, std::string name, std::size_t bytes)
        : objects_(objects), name_(std::move(name)), bytes_(bytes) {}
    Result<std::unique_ptr<Source>> open(const SnapshotRecord& record) override {
        CAPSTAN_TRY(auto source, objects_.open(record));
        if (record.name != name_) {
            return source;
        }
        return std::unique_ptr<Source>(std::make_unique<Broken>(std::move(source), bytes_));
    }

private:
    struct Broken final : Source {
        Broken(std::unique_ptr<Source> whole, std::size_t bytes)
            : source(std::move(whole)), left(bytes) {}
        Result<std::size_t> read(std::span<std::uint8_t> into) override {
            if (left == 0) {
                return fail(Code::unavailable, "connection reset");
            }
            CAPSTAN_TRY(const std::size_t n, source->read(into.first(std::min(left, into.size()))));
            left -= n;
            return n;
        }
        std::unique_ptr<Source> source;
        std::size_t left;
    };

    DirectoryObjects& objects_;
    const std::string name_;
    const std::size_t bytes_;
};

TEST_F(Restoration, AStoreThatGoesAwayIsNoDamage) {
    store_.add_full(2, base_of({put("a", 2, 2, 1)}));
    store_.add_delta({put("a", 2, 3, 2), put("a", 2, 4, 3)}, Compression::gzip);
    DirectoryObjects objects(directory_.path("store"));
    options_.work_directory = directory_.path("work");
    for (const char* name : {"Full-0-2-1", "Incr-3-4-1.gz"}) {
        BrokenObjects broken(objects, name, 30);
        const auto report =
            restore(objects.list().value(), broken, digests_, cluster_, data_, options_);
        ASSERT_FALSE(report) << name;
        EXPECT_EQ(report.error().code, Code::unavailable) << name;
        EXPECT_NE(report.error().message.find(name), std::string::npos) << report.error().message;
        EXPECT_EQ(directory_.entries(), std::vector<std::string>{"store"});
    }
}

TEST_F(Restoration, NearTheQuotaSupersededRevisionsAreDropped) {
    std::vector<DeltaEvent> base = {put("gone", 2, 2, 1), erase("gone", 3)};
    for (std::int64_t revision = 4; revision < 400; ++revision) {
        base.push_back(put("a", 4, revision, revision - 3));
    }
    store_.add_full(399, base_of(base));
    store_.add_delta({put("a", 4, 400, 397), put("b", 401, 401, 1)});
    store_.add_delta({put("b", 401, 402, 2), put("a", 4, 403, 398)});
    options_.quota_bytes = 70'000;
    const auto report = run();
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report.value().compacted_to, 401);
    EXPECT_EQ(report.value().revision, 403);
    EXPECT_LT(report.value().database_bytes, 60'000u);
    Database expected = base_of({put("a", 4, 400, 397),
                                 put("b", 401, 401, 1),
                                 put("b", 401, 402, 2),
                                 put("a", 4, 403, 398)});
    EXPECT_EQ(restored().at("key"), expected.at("key"));
    EXPECT_EQ(restored().at("meta").at("finishedCompactRev"),
              mvcc::encode_revision({401, 0, false}));
}

// Set back from revision 5 to 3 and written again: each history comes back as it was, alone.
class SetBack : public Restoration {
protected:
    SetBack() {
        store_.add_full(3, base_of({put("x", 2, 2, 1), put("x", 2, 3, 2)}), 1000);
        store_.add_delta({put("old", 4, 4, 1), put("old", 4, 5, 2)}, Compression::none, 1020);
        std::filesystem::create_directories(directory_.path("store/capstan"));
        TestFileSink(directory_.path("store/capstan/history-3-9000"));
        store_.add_full(3, base_of({put("x", 2, 2, 1), put("x", 2, 3, 2)}), 9000);
        store_.add_delta({put("new", 4, 4, 1)}, Compression::none, 9020);
    }
    std::vector<std::string> keys() const {
        std::vector<std::string> names;
        for (const auto& [key, live] : live_keys(restored())) {
            names.push_back(key);
        }
        return names;
    }
};

TEST_F(SetBack, TheNewHistoryComesBack) {
    const auto report = run();
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report.value().revision, 4);
    EXPECT_EQ(report.value().history, "history-3-9000");
    EXPECT_EQ(keys(), (std::vector<std::string>{"new", "x"}));
    EXPECT_EQ(left_history(data_).value(), "");
}

TEST_F(SetBack, TheOldOneWhenItIsNamed) {
    options_.wish.history = "first";
    const auto report = run();
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report.value().revision, 5);
    EXPECT_EQ(keys(), (std::vector<std::string>{"old", "x"}));
    EXPECT_EQ(left_history(data_).value(), "history-3-9000")
        << "who goes on from here begins another";
    forget_left_history(data_);
    EXPECT_EQ(left_history(data_).value(), "");
    const std::string note = data_ + "/member/capstan-left-history";
    std::filesystem::create_symlink(note, note);
    EXPECT_FALSE(left_history(data_)) << "what cannot be read is not nothing";
}

TEST_F(SetBack, ARevisionOfBothIsRefusedBeforeAnythingIsRead) {
    const auto report = run(4);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::conflict);
    EXPECT_NE(report.error().message.find("first"), std::string::npos) << report.error().message;
    EXPECT_EQ(directory_.entries(), std::vector<std::string>{"store"});
}

TEST_F(SetBack, ADamagedFullIsNotReplacedByThatOfTheOldHistory) {
    std::ofstream(directory_.path("store/v2/Full-0-3-9000")) << "damaged";
    const auto report = run();
    ASSERT_FALSE(report);
    EXPECT_NE(report.error().message.find("Full-0-3-9000"), std::string::npos)
        << report.error().message;
}

TEST_F(Restoration, LessThanEverythingLeavesTheHistory) {
    store_.add_full(3, base_of({put("x", 2, 2, 1), put("x", 2, 3, 2)}));
    store_.add_delta({put("y", 4, 4, 1)});
    ASSERT_TRUE(run(3));
    EXPECT_EQ(left_history(data_).value(), "first");
    std::filesystem::remove_all(data_);
    ASSERT_TRUE(run(4));
    EXPECT_EQ(left_history(data_).value(), "") << "that is all there is";
}

// A history of random transactions; versions and creations as etcd counts them.
class RandomHistory {
public:
    explicit RandomHistory(unsigned seed) : random_(seed) {}

    std::vector<DeltaEvent> make(std::int64_t last_revision) {
        std::vector<DeltaEvent> events;
        for (std::int64_t revision = 2; revision <= last_revision; ++revision) {
            std::vector<std::string> keys;
            for (std::size_t i = 0; i < 30; ++i) {
                keys.push_back("key-" + std::to_string(i));
            }
            std::shuffle(keys.begin(), keys.end(), random_);
            keys.resize(1 + random_() % 4);
            for (const std::string& key : keys) {
                events.push_back(next(key, revision));
            }
        }
        return events;
    }

private:
    DeltaEvent next(const std::string& key, std::int64_t revision) {
        auto& [create, version] = state_[key];
        if (version > 0 && random_() % 3 == 0) {
            version = 0;
            return erase(key, revision);
        }
        create = version == 0 ? revision : create;
        DeltaEvent event = put(key, create, revision, ++version);
        event.value = std::string(random_() % 200, static_cast<char>('a' + random_() % 26));
        return event;
    }

    std::mt19937 random_;
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> state_;
};

std::vector<DeltaEvent> between(const std::vector<DeltaEvent>& events,
                                std::int64_t from,
                                std::int64_t to) {
    std::vector<DeltaEvent> part;
    std::copy_if(events.begin(), events.end(), std::back_inserter(part), [&](const auto& event) {
        return event.mod_revision >= from && event.mod_revision <= to;
    });
    return part;
}

// What is left of the entries after a compaction, counted the slow way.
std::map<std::string, std::string> compacted(const std::vector<DeltaEvent>& events,
                                             std::int64_t revision) {
    std::map<std::string, std::string> entries = key_entries(events);
    std::map<std::string, std::string> newest;  // key -> entry
    for (const auto& [entry, value] : key_entries(events)) {
        const auto at = mvcc::decode_revision(entry).value();
        if (at.main > revision) {
            break;
        }
        const std::string key(mvcc::decode_key_value(value).value().key);
        if (newest.contains(key)) {
            entries.erase(newest[key]);
        }
        newest[key] = entry;
        if (at.tombstone) {
            entries.erase(entry);
            newest.erase(key);
        }
    }
    return entries;
}

TEST_F(Restoration, RandomHistoriesComeBackEntryForEntry) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        std::filesystem::remove_all(directory_.path("store"));
        TestStore store(directory_.path("store"));
        const std::int64_t last = 40 + random() % 400;
        const std::vector<DeltaEvent> events = RandomHistory(seed).make(last);
        const std::int64_t inside = 2 + random() % (last - 2);
        const std::int64_t named = inside - std::min<std::int64_t>(inside - 2, random() % 5);
        store.add_full(named, base_of(between(events, 2, inside)));
        std::int64_t reached = named;
        for (int second = 1; reached < last; ++second) {
            const std::int64_t to = std::min<std::int64_t>(last, reached + 1 + random() % 40);
            const std::int64_t overlap = std::min<std::int64_t>(reached - 1, random() % 3);
            store.add_delta(between(events, reached + 1 - overlap, to),
                            static_cast<Compression>(random() % 4),
                            second);
            reached = to;
        }
        const auto report = run();
        ASSERT_TRUE(report) << report.error().message;
        EXPECT_EQ(report.value().revision, last);
        EXPECT_EQ(restored().at("key"), key_entries(events));
        const std::int64_t to = 1 + random() % last;
        const std::string small = directory_.path("small");
        const auto result = compact_database(
            directory_.path("data/member/snap/db"), small, to, random() % 2 == 0 ? 0 : 1 << 20);
        ASSERT_TRUE(result) << result.error().message;
        EXPECT_EQ(read_database(small).at("key"), compacted(events, to));
        std::filesystem::remove(small);
        std::filesystem::remove_all(directory_.path("data"));
    }
}

}  // namespace
}  // namespace capstan::steward
