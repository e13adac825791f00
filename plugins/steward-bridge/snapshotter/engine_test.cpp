#include "plugins/steward-bridge/snapshotter/engine.hpp"

#include "plugins/steward-bridge/snapshotter/testing_changes.hpp"
#include "plugins/steward-bridge/snapshotter/testing_etcd.hpp"
#include "plugins/steward-bridge/snapshotter/testing_store.hpp"

#include "capstan/testing/fake_host.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace capstan::steward {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

using Ask = Snapshotter::Ask;

class EngineTest : public ::testing::Test {
protected:
    EngineTest() {
        config.store.provider = "Local";
        config.compression = Compression::none;
        face.configure(config, {});
        face.on_role(Role::leader);
    }
    void TearDown() override { engine.reset(); }

    void start() {
        engine = std::make_unique<SnapshotEngine>(
            EngineParts{etcd,
                        vault,
                        digests,
                        time,
                        face,
                        metrics,
                        [this] { return time.mono; },
                        [this]() -> Result<void> {
                            return over ? fail(Code::cancelled, "over") : Result<void>(ok());
                        },
                        [this](LogLevel, std::string_view text, const json::Value&) {
                            logs.emplace_back(text);
                        },
                        [this](const SnapshotFacts&) { ++confirmed; },
                        [this] { return left; },
                        [this] { left.clear(); },
                        claim},
            config,
            Schedule::parse(config.schedule).value());
    }
    // Steps until `span` has passed.
    void run(std::chrono::nanoseconds span) {
        const MonotonicTime until = time.mono + span;
        for (int steps = 0; time.mono < until; ++steps) {
            ASSERT_LT(steps, 100'000) << "it never waits";
            const auto idle = engine->step();
            ASSERT_TRUE(idle) << idle.error().message;
            if (idle.value() > time.mono) {
                time.advance(std::min(idle.value(), until) - time.mono);
            }
        }
    }
    std::shared_ptr<Ask> ask(bool full, bool final = false) {
        return face.enqueue(full, final).value();
    }
    static const Result<std::optional<SnapshotRecord>>* answer(const std::shared_ptr<Ask>& ask) {
        const std::lock_guard lock(ask->mutex);
        return ask->answer ? &*ask->answer : nullptr;
    }
    // Names without the second of creation, fences left out.
    std::vector<std::string> stored() {
        std::vector<std::string> out;
        for (const std::string& key : testing_keys(store)) {
            if (key.starts_with("p/v2/")) {
                out.push_back(key.substr(5, 22));
            }
        }
        std::sort(out.begin(), out.end());
        return out;
    }
    void write_full(std::int64_t revision, WallTime created) {
        SnapshotRecord record;
        record.last_revision = revision;
        record.created = created;
        ASSERT_TRUE(write_object(store, "p/v2/" + snapshot_name(record), testing_database("x")));
    }
    bool said(std::string_view text) const {
        return std::find(logs.begin(), logs.end(), text) != logs.end();
    }

    capstan::testing::FakeHost host;
    HostTables tables{host.host()};
    TestingTime time;
    TestingDigests digests;
    FaultyStore store;
    FakeEtcd etcd{time};
    Vault vault{{store, digests, time, "p", "main-0"}};
    Snapshotter face{tables};
    SnapshotMetrics metrics{tables};
    SnapshotterConfig config;
    std::vector<std::string> logs;
    int confirmed{0};
    std::string left;  // what the data directory says
    bool over{false};
    StoreClaim* claim{nullptr};
    std::unique_ptr<SnapshotEngine> engine;
};

TEST_F(EngineTest, TakesAFullThenDeltasOfWhatFollows) {
    etcd.put("a", "1");
    start();
    run(seconds(1));
    EXPECT_EQ(stored(), (std::vector<std::string>{"Full-00000000-00000002"}));
    EXPECT_EQ(face.view().state, SnapshotterState::running);
    etcd.put("b", "2");
    etcd.txn({{"c", "3"}, {"a", ""}});
    run(seconds(20));
    EXPECT_EQ(stored(),
              (std::vector<std::string>{"Full-00000000-00000002", "Incr-00000003-00000004"}));
    run(minutes(2));
    EXPECT_EQ(stored().size(), 2u);  // nothing was written
    const SnapshotFacts facts = face.view().facts;
    EXPECT_EQ(facts.full->last_revision, 2);
    EXPECT_EQ(facts.deltas.size(), 1u);
    EXPECT_EQ(facts.reached, 4);
    EXPECT_GE(*facts.observed_at, time.wall - seconds(21));
    EXPECT_EQ(host.metric("etcdbr_snapshot_latest_revision{Full}"), 2);
    EXPECT_EQ(host.metric("etcdbr_snapshot_latest_revision{Incr}"), 4);
    EXPECT_EQ(host.metric("etcdbr_snapstore_latest_deltas_total"), 1);
}

TEST_F(EngineTest, GoesOnFromTheStoredChain) {
    write_full(1, time.wall);
    etcd.put("a", "1");
    start();
    run(seconds(21));
    EXPECT_EQ(etcd.watched, (std::vector<std::int64_t>{2}));
    EXPECT_EQ(stored(),
              (std::vector<std::string>{"Full-00000000-00000001", "Incr-00000002-00000002"}));
}

// Set back within a minute: the old deltas are as new as the new full.
TEST_F(EngineTest, ARollbackBeginsAHistoryOfItsOwn) {
    start();
    etcd.put("a", "1");
    run(seconds(1));
    for (const char* value : {"2", "3", "4"}) {
        etcd.put("a", value);
    }
    run(seconds(21));
    engine.reset();
    etcd.revision = 3;
    etcd.log.erase(4);
    etcd.log.erase(5);
    start();
    run(seconds(1));
    EXPECT_TRUE(said("etcd was set back; what is stored of before stays as an earlier history"));
    etcd.put("b", "other");
    run(seconds(21));
    EXPECT_EQ(stored(),
              (std::vector<std::string>{"Full-00000000-00000002",
                                        "Full-00000000-00000003",
                                        "Incr-00000003-00000005",
                                        "Incr-00000004-00000004"}));
    const auto histories = histories_of(vault.list().value());
    ASSERT_EQ(histories.size(), 2u);
    EXPECT_EQ(histories[0].end, 5);
    EXPECT_EQ(histories[1].end, 4);
    EXPECT_EQ(face.view().facts.full->last_revision, 3);
    EXPECT_EQ(face.view().facts.reached, 4);
    EXPECT_TRUE(face.view().facts.set_back);
    engine.reset();
    etcd.watched.clear();
    start();  // and another start goes on from that one
    run(seconds(1));
    EXPECT_EQ(etcd.watched, (std::vector<std::int64_t>{5}));
}

TEST_F(EngineTest, ARollbackThatEtcdHasOvertakenIsKnownByItsData) {
    write_full(50, time.wall - minutes(1));
    etcd.revision = 60;
    left = "first";
    start();
    run(seconds(1));
    EXPECT_EQ(stored(),
              (std::vector<std::string>{"Full-00000000-00000050", "Full-00000000-00000060"}));
    EXPECT_EQ(histories_of(vault.list().value()).size(), 2u);
    EXPECT_EQ(left, "");
    engine.reset();
    left = "first";  // that of another member, which leads now
    start();
    run(seconds(1));
    EXPECT_EQ(histories_of(vault.list().value()).size(), 2u);
    EXPECT_EQ(left, "");
}

TEST_F(EngineTest, ARollbackUnderAnOpenWatchIsNoticed) {
    start();
    run(seconds(1));
    etcd.put("a", "1");
    etcd.put("a", "2");
    run(seconds(21));
    etcd.revision = 2;
    etcd.log.erase(3);
    etcd.cut = Error{Code::unavailable, "reset", {}};
    run(minutes(2));
    EXPECT_EQ(histories_of(vault.list().value()).size(), 2u);
    EXPECT_EQ(face.view().facts.full->last_revision, 2);
}

TEST_F(EngineTest, NothingIsStoredWithoutTheMarkThatItNeeds) {
    write_full(50, time.wall - minutes(1));
    etcd.failures["head"] = {Code::unavailable, "away", {}};
    etcd.leads = false;
    start();
    run(seconds(1));
    etcd.failures.clear();
    run(minutes(1));
    EXPECT_EQ(stored().size(), 1u) << "it leads no more";
    EXPECT_EQ(face.view().state, SnapshotterState::failing);
    etcd.leads = true;
    run(minutes(2));
    EXPECT_EQ(stored().size(), 2u);
    EXPECT_EQ(histories_of(vault.list().value()).size(), 2u);
}

TEST_F(EngineTest, WhatIsCompactedIsTakenAsAFull) {
    write_full(1, time.wall);
    etcd.put("a", "1");
    etcd.put("a", "2");
    etcd.compacted = 2;
    start();
    run(seconds(1));
    EXPECT_EQ(stored(),
              (std::vector<std::string>{"Full-00000000-00000001", "Full-00000000-00000003"}));
}

TEST_F(EngineTest, AFullByScheduleStoresTheLastDeltaFirst) {
    start();
    run(minutes(59) + seconds(55));
    etcd.put("a", "1");
    run(seconds(10));
    EXPECT_EQ(stored(),
              (std::vector<std::string>{
                  "Full-00000000-00000001", "Full-00000000-00000002", "Incr-00000002-00000002"}));
}

TEST_F(EngineTest, AnswersRequests) {
    start();
    run(seconds(1));
    const auto nothing = ask(false);
    run(seconds(1));
    ASSERT_NE(answer(nothing), nullptr);
    EXPECT_FALSE(answer(nothing)->value());
    etcd.put("a", "1");
    const auto delta = ask(false);
    run(seconds(1));
    ASSERT_NE(answer(delta), nullptr);
    EXPECT_EQ(answer(delta)->value()->last_revision, 2);
    const auto full = ask(true), final = ask(true, true);
    run(seconds(1));
    ASSERT_NE(answer(full), nullptr);
    EXPECT_TRUE(answer(full)->value()->final);
    EXPECT_EQ(answer(final)->value()->name, answer(full)->value()->name);
    etcd.failures["snapshot"] = {Code::unavailable, "no snapshot", {}};
    const auto failing = ask(true);
    run(seconds(1));
    ASSERT_NE(answer(failing), nullptr);
    EXPECT_EQ(answer(failing)->error().message, "no snapshot");
}

TEST_F(EngineTest, WhoStillWaitsIsToldWhenTheTermEnds) {
    start();
    const auto waiting = ask(true);
    etcd.on_snapshot = [&] { over = true; };
    const auto stepped = [&]() -> Result<MonotonicTime> {
        while (true) {
            const auto idle = engine->step();
            if (!idle) {
                return idle;
            }
        }
    }();
    EXPECT_EQ(stepped.error().code, Code::cancelled);
    engine.reset();
    ASSERT_NE(answer(waiting), nullptr);
    EXPECT_FALSE(*answer(waiting));
    EXPECT_TRUE(stored().empty());
}

TEST_F(EngineTest, ADeltaThatCannotBeStoredIsKeptAndTriedAgain) {
    start();
    run(seconds(1));
    etcd.put("a", "1");
    store.fail_finish = Error{Code::unavailable, "disk full", {}};
    run(seconds(40));
    EXPECT_EQ(stored().size(), 1u);
    EXPECT_EQ(face.view().state, SnapshotterState::failing);
    EXPECT_NE(face.view().message.find("disk full"), std::string::npos);
    etcd.put("b", "2");
    etcd.compacted = 2;  // what is kept here no longer is there
    store.fail_finish.reset();
    run(minutes(2));
    EXPECT_EQ(stored(),
              (std::vector<std::string>{
                  "Full-00000000-00000001", "Incr-00000002-00000002", "Incr-00000003-00000003"}));
    EXPECT_EQ(face.view().state, SnapshotterState::running);
}

TEST_F(EngineTest, AWatchThatBreaksGoesOnWhereItWas) {
    start();
    run(seconds(1));
    etcd.put("a", "1");
    run(seconds(1));
    etcd.cut = Error{Code::unavailable, "reset", {}};
    run(seconds(3));
    etcd.put("b", "2");
    run(seconds(20));
    EXPECT_EQ(etcd.watched, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(stored(),
              (std::vector<std::string>{"Full-00000000-00000001", "Incr-00000002-00000003"}));
}

TEST_F(EngineTest, AnEtcdThatIsAwayForLongIsTrouble) {
    start();
    run(seconds(1));
    etcd.cut = Error{Code::unavailable, "reset", {}};
    etcd.failures["watch"] = {Code::unavailable, "refused", {}};
    run(seconds(4));
    EXPECT_EQ(face.view().state, SnapshotterState::running);
    etcd.put("a", "1");
    const auto asked = ask(false);
    run(seconds(1));
    ASSERT_NE(answer(asked), nullptr);
    ASSERT_FALSE(*answer(asked));
    EXPECT_NE(answer(asked)->error().message.find("refused"), std::string::npos);
    run(seconds(10));
    EXPECT_EQ(face.view().state, SnapshotterState::failing);
    const auto observed = face.view().facts.observed_at;
    const int before = confirmed;
    for (int period = 0; period < 12; ++period) {
        run(seconds(10));
        EXPECT_EQ(face.view().state, SnapshotterState::failing);
    }
    EXPECT_EQ(face.view().facts.observed_at, observed);  // nobody knows what there is by now
    EXPECT_EQ(confirmed, before);
    etcd.failures.clear();
    run(minutes(3));
    EXPECT_EQ(face.view().state, SnapshotterState::running);
    EXPECT_GT(face.view().facts.observed_at, observed);
}

TEST_F(EngineTest, AWatchThatFellSilentIsOpenedAgain) {
    start();
    run(seconds(1));
    etcd.silent = true;
    etcd.put("a", "1");
    run(seconds(45));
    EXPECT_TRUE(said("the watch of etcd fell silent and is opened again"));
    etcd.silent = false;
    run(seconds(25));
    EXPECT_EQ(stored().size(), 2u);
}

TEST_F(EngineTest, AnEtcdThatStandsBeforeWhatWasWatchedIsLookedAtAnew) {
    start();
    run(seconds(1));
    etcd.put("a", "1");
    run(seconds(30));
    etcd.revision = 1;
    etcd.log.clear();
    run(seconds(40));
    EXPECT_EQ(face.view().facts.full->last_revision, 1);
    EXPECT_EQ(std::count(logs.begin(), logs.end(), "snapshots are continued"), 2);
    EXPECT_EQ(etcd.watched.back(), 2);
}

TEST_F(EngineTest, AQuietClusterIsNotASilentWatch) {
    start();
    run(minutes(3));
    EXPECT_EQ(etcd.watched.size(), 1u);
    EXPECT_EQ(face.view().state, SnapshotterState::running);
}

TEST_F(EngineTest, FlushesBeforeTheMemoryLimitIsPassedByMoreThanARevision) {
    config.delta_memory_bytes = 2000;
    start();
    run(seconds(1));
    for (int i = 0; i < 10; ++i) {
        etcd.put("key", noise(300, 3));
    }
    run(seconds(2));
    const auto names = stored();
    EXPECT_GT(names.size(), 2u);
    EXPECT_EQ(face.view().facts.deltas.front().start_revision, 2);
    run(seconds(20));
    EXPECT_EQ(face.view().facts.reached, 11);
}

TEST_F(EngineTest, AnAnswerOfManyRevisionsIsStoredInSeveralDeltas) {
    config.delta_memory_bytes = 2000;
    etcd.revisions_at_once = 100;
    write_full(1, time.wall);
    for (int i = 0; i < 20; ++i) {
        etcd.put("key", noise(300, 3));
    }
    start();
    const auto asked = ask(false);
    run(seconds(1));
    EXPECT_GT(stored().size(), 5u);
    EXPECT_EQ(face.view().facts.reached, 21);
    ASSERT_NE(answer(asked), nullptr);
    EXPECT_EQ(answer(asked)->value()->last_revision, 21);
    store.fail_finish = Error{Code::unavailable, "disk full", {}};
    for (int i = 0; i < 20; ++i) {
        etcd.put("key", noise(300, 3));
    }
    run(seconds(10));
    store.fail_finish.reset();
    run(minutes(1));
    EXPECT_EQ(face.view().facts.reached, 41);
    EXPECT_EQ(etcd.calls["snapshot"], 0);
}

TEST_F(EngineTest, SaysWhatLeasesWereGranted) {
    etcd.ttls[77] = 60;
    start();
    run(seconds(1));
    etcd.put("a", "1", 77);
    etcd.put("b", "2", 77);
    etcd.put("c", "3", 78);  // gone already
    etcd.put("d", "4", 78);
    run(seconds(20));
    EXPECT_EQ(etcd.calls["lease"], 2);
    const auto text = read_object(store, {face.view().facts.deltas.back().key()}, 100'000);
    ASSERT_TRUE(text);
    const std::string_view said_once = R"("leases":[{"ID":77,"TTL":60}])";
    const std::size_t at = text.value().find(said_once);
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(text.value().find("\"leases\"", at + 1), std::string::npos);
}

TEST_F(EngineTest, WhatAnotherStewardStoredIsAdopted) {
    start();
    run(seconds(1));
    etcd.put("a", "1");
    etcd.put("b", "2");
    Vault other({store, digests, time, "p", "main-1"});
    auto buffer =
        DeltaBuffer::create(2, {Compression::none}, digests, [](auto) { return std::nullopt; });
    WatchMessage message;
    message.changes.push_back(first_write("a", "1", 2));
    std::size_t at = 0;
    ASSERT_TRUE(buffer.value()->add(message, at, time.wall));
    const Guard go_on = []() -> Result<void> { return ok(); };
    ASSERT_TRUE(other.store_delta(
        buffer.value()->seal(time.wall).value(), {seconds(20), time.mono}, go_on));
    run(seconds(45));
    EXPECT_EQ(stored(),
              (std::vector<std::string>{
                  "Full-00000000-00000001", "Incr-00000002-00000002", "Incr-00000003-00000003"}));
    EXPECT_TRUE(said("another steward has stored these changes already"));
}

TEST_F(EngineTest, AStoreThatCannotBeReadIsNoEmptyStore) {
    store.fail_list = Error{Code::unavailable, "no way there", {}};
    start();
    run(minutes(1));
    EXPECT_EQ(etcd.calls["snapshot"], 0);
    EXPECT_EQ(face.view().state, SnapshotterState::failing);
    EXPECT_LT(store.lists, 10);
    store.fail_list.reset();
    run(minutes(1));
    EXPECT_EQ(stored().size(), 1u);
}

TEST_F(EngineTest, ALargeRevisionIsFollowedByAFull) {
    start();
    run(seconds(1));
    etcd.put("a", noise(2'200'000, 5));
    run(seconds(21));
    EXPECT_EQ(stored(),
              (std::vector<std::string>{
                  "Full-00000000-00000001", "Full-00000000-00000002", "Incr-00000002-00000002"}));
}

TEST_F(EngineTest, AnEtcdThatDoesNotTellItsLeasesHoldsNothingUp) {
    start();
    run(seconds(1));
    etcd.failures["lease"] = {Code::timeout, "silence", {}};
    for (int i = 0; i < 50; ++i) {
        etcd.put("a", "1", 100 + i);
    }
    run(seconds(1));
    EXPECT_EQ(etcd.calls["lease"], 1);
    etcd.failures.clear();
    run(seconds(30));
    etcd.ttls[200] = 60;
    etcd.put("b", "2", 200);
    run(seconds(1));
    EXPECT_EQ(etcd.calls["lease"], 2);
    etcd.put("c", "3", 300);
    etcd.on_lease = [this] { over = true; };
    etcd.put("d", "4", 301);
    while (engine->step()) {
    }
    EXPECT_EQ(etcd.calls["lease"], 3);  // nothing is asked once the term is over
}

TEST_F(EngineTest, WhatOnlyMemoryHoldsIsStoredWhenEtcdIsGone) {
    start();
    run(seconds(1));
    etcd.put("a", "1");
    run(seconds(1));
    over = true;
    EXPECT_EQ(engine->step().error().code, Code::cancelled);
    engine->close();  // the member leads no more, another one's steward goes on
    EXPECT_EQ(stored().size(), 1u);
    over = false;
    etcd.failures = {{"head", {Code::unavailable, "gone", {}}},
                     {"watch", {Code::unavailable, "gone", {}}}};
    engine->close();
    EXPECT_EQ(stored(),
              (std::vector<std::string>{"Full-00000000-00000001", "Incr-00000002-00000002"}));
    engine->close();
    EXPECT_EQ(stored().size(), 2u);
}

TEST_F(EngineTest, ADamagedDeltaIsNotContinued) {
    write_full(1, time.wall);
    ASSERT_TRUE(
        write_object(store, "p/v2/Incr-00000002-00000003-" + std::to_string(1'800'000'001), "x"));
    for (const char* value : {"1", "2", "3"}) {
        etcd.put("a", value);
    }
    start();
    run(seconds(21));
    EXPECT_EQ(etcd.watched, (std::vector<std::int64_t>{2}));
    EXPECT_TRUE(said("the newest snapshot is damaged and is not continued"));
    const SnapshotFacts facts = face.view().facts;
    EXPECT_EQ(facts.reached, 4);
    ASSERT_EQ(facts.deltas.size(), 1u);
    EXPECT_EQ(facts.deltas.front().start_revision, 2);
}

TEST_F(EngineTest, WhatCannotBeReadBackIsNotReported) {
    start();
    run(seconds(1));
    etcd.put("a", "1");
    store.fail_open = Error{Code::unavailable, "no way there", {}};
    run(minutes(1));
    EXPECT_EQ(stored().size(), 2u);
    EXPECT_EQ(face.view().facts.reached, 1);
    EXPECT_EQ(face.view().state, SnapshotterState::failing);
    engine.reset();
    face.publish(SnapshotFacts());
    start();  // a new term does not believe it either
    run(minutes(1));
    EXPECT_EQ(face.view().facts.reached, 0);
    EXPECT_EQ(face.view().state, SnapshotterState::failing);
    store.fail_open.reset();
    run(minutes(3));
    EXPECT_EQ(face.view().facts.reached, 2);
    EXPECT_EQ(face.view().facts.deltas.size(), 1u);
    EXPECT_EQ(stored().size(), 2u);
}

TEST_F(EngineTest, WhoAsksIsToldWhyNothingCanBeTaken) {
    store.fail_list = Error{Code::unavailable, "no way there", {}};
    start();
    const auto full = ask(true), delta = ask(false);
    run(seconds(1));
    for (const auto& asked : {full, delta}) {
        ASSERT_NE(answer(asked), nullptr);
        EXPECT_NE(answer(asked)->error().message.find("no way there"), std::string::npos);
    }
    store.fail_list.reset();
    etcd.failures["snapshot"] = {Code::unavailable, "no snapshot", {}};
    const auto waiting = ask(false);  // no delta before a full
    run(seconds(1));
    ASSERT_NE(answer(waiting), nullptr);
    EXPECT_EQ(answer(waiting)->error().message, "no snapshot");
}

TEST_F(EngineTest, CollectsOnlyWhenThereIsSomethingNew) {
    start();
    run(minutes(10));
    const int lists = store.lists;
    run(minutes(30));
    EXPECT_EQ(store.lists, lists);
    etcd.put("a", "1");
    run(minutes(2));
    EXPECT_GT(store.lists, lists);
}

}  // namespace
}  // namespace capstan::steward
