#include "plugins/steward-bridge/snapshotter/vault.hpp"

#include "plugins/steward-bridge/snapshot/histories.hpp"
#include "plugins/steward-bridge/snapshot/payload.hpp"
#include "plugins/steward-bridge/snapshotter/testing_changes.hpp"
#include "plugins/steward-bridge/snapshotter/testing_etcd.hpp"
#include "plugins/steward-bridge/snapshotter/testing_store.hpp"
#include "plugins/steward-bridge/store/store_testing.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace capstan::steward {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

const Guard kGoOn = []() -> Result<void> { return ok(); };

class VaultTest : public ::testing::Test {
protected:
    Vault vault_of(const std::string& member = "main-0", const std::string& process = "1") {
        return Vault({store, digests, time, "shop/main", member, process});
    }
    Claiming claiming() const { return {seconds(20), time.mono}; }
    SealedDelta sealed(std::int64_t start, std::int64_t last) {
        auto buffer = DeltaBuffer::create(start, {}, digests, [](auto) { return std::nullopt; });
        for (std::int64_t revision = start; revision <= last; ++revision) {
            WatchMessage message;
            message.changes.push_back(first_write("key", "value", revision));
            std::size_t at = 0;
            EXPECT_TRUE(buffer.value()->add(message, at, time.wall));
        }
        return buffer.value()->seal(time.wall).value();
    }
    std::vector<std::string> keys() { return testing_keys(store); }

    TestingTime time;
    TestingDigests digests;
    FaultyStore store;
    FakeEtcd etcd{time};
};

TEST_F(VaultTest, StoresAFullUnderTheRevisionInside) {
    etcd.revision = 27;
    const auto taken = vault_of().take_full(etcd, {}, kGoOn);
    STORE_OK(taken);
    EXPECT_EQ(taken.value().record.key(), "shop/main/v2/Full-00000000-00000027-1800000000.gz");
    EXPECT_EQ(taken.value().inside_at_most, 27);
    EXPECT_EQ(taken.value().database_bytes % 512, 0u);
    EXPECT_GT(taken.value().record.bytes, 0u);
    EXPECT_EQ(keys(), (std::vector<std::string>{taken.value().record.key()}));
    STORE_OK(verify_snapshot(
        store.open({taken.value().record.key()}, 0).value(), taken.value().record, digests));
}

TEST_F(VaultTest, LooksForAMomentWithoutWrites) {
    int writes = 2;
    etcd.on_snapshot = [&] {
        if (writes-- > 0) {
            etcd.put("a", "b");
        }
    };
    const auto taken = vault_of().take_full(etcd, {}, kGoOn);
    STORE_OK(taken);
    EXPECT_EQ(etcd.calls["snapshot"], 3);
    EXPECT_EQ(taken.value().record.last_revision, 3);
    EXPECT_EQ(taken.value().inside_at_most, 3);
}

TEST_F(VaultTest, UnderWritesWithoutEndNamesTheLowerRevision) {
    etcd.on_snapshot = [&] { etcd.put("a", "b"); };
    const auto taken = vault_of().take_full(etcd, {}, kGoOn);
    STORE_OK(taken);
    EXPECT_EQ(etcd.calls["snapshot"], kSnapshotOpensMax);
    EXPECT_EQ(taken.value().record.last_revision, kSnapshotOpensMax);
    EXPECT_EQ(taken.value().inside_at_most, kSnapshotOpensMax + 1);
}

TEST_F(VaultTest, RepeatsNoFinalFullThatIsTheNewest) {
    const auto first = vault_of().take_full(etcd, {.final = true}, kGoOn);
    STORE_OK(first);
    EXPECT_TRUE(first.value().record.name.ends_with(".gz.final"));
    const SnapshotRecord newest = first.value().record;
    const auto second = vault_of().take_full(etcd, {.final = true, .newest = &newest}, kGoOn);
    STORE_OK(second);
    EXPECT_TRUE(second.value().repeated);
    EXPECT_EQ(second.value().record, newest);
    EXPECT_EQ(etcd.calls["snapshot"], 1);
    STORE_OK(vault_of().take_full(etcd, {.newest = &newest}, kGoOn));  // an ordinary one is taken
    EXPECT_EQ(etcd.calls["snapshot"], 2);
    etcd.put("a", "b");
    const auto third = vault_of().take_full(etcd, {.final = true, .newest = &newest}, kGoOn);
    STORE_OK(third);
    EXPECT_FALSE(third.value().repeated);
}

TEST_F(VaultTest, StoresNothingOfADamagedStream) {
    etcd.damaged_snapshot = true;
    STORE_FAILS(vault_of().take_full(etcd, {}, kGoOn), Code::invalid, "etcd's snapshot");
    EXPECT_TRUE(keys().empty());
}

TEST_F(VaultTest, StoresNothingOnceItLeadsNoMore) {
    etcd.on_snapshot = [&] { etcd.leads = false; };
    STORE_FAILS(vault_of().take_full(etcd, {}, kGoOn), Code::cancelled, "no longer leads");
    EXPECT_TRUE(keys().empty());
    STORE_FAILS(vault_of().take_full(etcd, {}, kGoOn), Code::cancelled, "no longer leads");
}

TEST_F(VaultTest, StopsBetweenPiecesWhenTheTermIsOver) {
    int pieces = 3;
    const Guard guard = [&]() -> Result<void> {
        return pieces-- > 0 ? Result<void>(ok()) : fail(Code::cancelled, "over");
    };
    STORE_FAILS(vault_of().take_full(etcd, {}, guard), Code::cancelled, "over");
    EXPECT_TRUE(keys().empty());
}

TEST_F(VaultTest, RemovesWhatReadsBackDifferently) {
    store.flip_byte_at = 50;
    STORE_FAILS(vault_of().take_full(etcd, {}, kGoOn), Code::unavailable, "reads back");
    EXPECT_TRUE(keys().empty());
}

TEST_F(VaultTest, RemovesTheVersionThatReadsBackDifferently) {
    store.versioned = true;
    store.flip_byte_at = 50;
    STORE_FAILS(vault_of().take_full(etcd, {}, kGoOn), Code::unavailable, "it was removed");
    EXPECT_TRUE(keys().empty());
    EXPECT_EQ(store.markers, 0);
}

TEST_F(VaultTest, StoresADeltaBehindAFence) {
    const auto stored = vault_of().store_delta(sealed(11, 14), claiming(), kGoOn);
    STORE_OK(stored);
    EXPECT_EQ(stored.value().record.key(), "shop/main/v2/Incr-00000011-00000014-1800000000.gz");
    EXPECT_EQ(keys(),
              (std::vector<std::string>{fence_key("shop/main", 11), stored.value().record.key()}));
}

TEST_F(VaultTest, AdoptsWhatAnotherStewardHasStored) {
    Vault other = vault_of("main-1");
    STORE_OK(other.store_delta(sealed(11, 14), claiming(), kGoOn));
    const auto ours = vault_of().store_delta(sealed(11, 12), claiming(), kGoOn);
    STORE_OK(ours);
    EXPECT_TRUE(ours.value().adopted);
    EXPECT_EQ(keys().size(), 2u);
}

// Within the same second, even.
TEST_F(VaultTest, StoresBesideDeltasOfAnEarlierHistory) {
    Vault vault = vault_of();
    STORE_OK(vault.store_delta(sealed(11, 14), claiming(), kGoOn));
    const auto mark = vault.begin_history(10, kGoOn);
    STORE_OK(mark);
    EXPECT_EQ(mark.value().key, "shop/main/capstan/history-10-1800000001");
    etcd.revision = 10;
    const auto full = vault.take_full(etcd, {.not_before = mark.value().since}, kGoOn);
    STORE_OK(full);
    EXPECT_EQ(full.value().record.created, mark.value().since);
    time.advance(seconds(1));
    const auto ours = vault.store_delta(sealed(11, 12), claiming(), kGoOn);
    STORE_OK(ours);
    EXPECT_FALSE(ours.value().adopted);
    const auto histories = histories_of(vault.list().value());
    ASSERT_EQ(histories.size(), 2u);
    EXPECT_EQ(histories[0].end, 14);
    EXPECT_EQ(histories[1].end, 12);
}

TEST_F(VaultTest, AMarkLiesAboveAllTimesBeforeIt) {
    const WallTime ahead = time.wall + minutes(9);
    SnapshotRecord record;
    record.last_revision = 40;
    record.created = ahead;
    STORE_OK(write_object(store, "shop/main/v2/" + snapshot_name(record) + ".zst", "x"));
    const auto first = vault_of().begin_history(10, kGoOn);
    STORE_OK(first);
    EXPECT_EQ(first.value().since, ahead + seconds(1));
    const auto second = vault_of().begin_history(10, kGoOn);
    STORE_OK(second);
    EXPECT_EQ(second.value().since, ahead + seconds(2));
}

TEST_F(VaultTest, WaitsForAForeignClaimThenTakesItOver) {
    STORE_OK(store.put_if_absent(fence_key("shop/main", 11), "{\"member\":\"main-1\"}"));
    Vault vault = vault_of();
    STORE_FAILS(vault.store_delta(sealed(11, 12), claiming(), kGoOn), Code::conflict, "\"main-1\"");
    time.advance(seconds(39));
    STORE_FAILS(vault.store_delta(sealed(11, 12), claiming(), kGoOn), Code::conflict, "main-1");
    // a sign of life: the waiting begins again
    const std::string etag = store.stat({fence_key("shop/main", 11)}).value().etag;
    STORE_OK(store.put_if_match(fence_key("shop/main", 11), "{\"member\":\"main-2\"}", etag));
    time.advance(seconds(39));
    STORE_FAILS(vault.store_delta(sealed(11, 12), claiming(), kGoOn), Code::conflict, "main-2");
    time.advance(seconds(40));
    STORE_OK(vault.store_delta(sealed(11, 12), claiming(), kGoOn));
}

// A delta that was sealed before the mark is of the earlier history whenever it appears.
TEST_F(VaultTest, TakesOverClaimsOfAnEarlierHistoryAtOnce) {
    Vault old = vault_of("main-1"), vault = vault_of();
    STORE_OK(old.store_delta(sealed(11, 14), claiming(), kGoOn));
    store.fail_finish = Error{Code::unavailable, "disk full", {}};
    STORE_FAILS(old.store_delta(sealed(15, 16), claiming(), kGoOn), Code::unavailable, "disk full");
    store.fail_finish.reset();
    time.advance(seconds(1));
    STORE_OK(vault.begin_history(10, kGoOn));
    for (const std::int64_t start : {11, 15}) {
        const auto ours = vault.store_delta(sealed(start, start + 3), claiming(), kGoOn);
        STORE_OK(ours);
        EXPECT_FALSE(ours.value().adopted);
        const auto fence = read_object(store, {fence_key("shop/main", start)}, kFenceTextBytesMax);
        STORE_OK(fence);
        EXPECT_NE(fence.value().find(ours.value().record.name), std::string::npos);
    }
}

TEST_F(VaultTest, WaitsForTheClaimOfAnotherInTheSameHistory) {
    const auto claim_of = [this](const std::string& member) {
        store.fail_finish = Error{Code::unavailable, "disk full", {}};
        STORE_FAILS(vault_of(member).store_delta(sealed(11, 14), claiming(), kGoOn),
                    Code::unavailable,
                    "disk full");
        store.fail_finish.reset();
    };
    Vault vault = vault_of();
    claim_of("main-1");
    time.advance(seconds(1));
    STORE_OK(vault.begin_history(10, kGoOn));
    claim_of("main-2");  // in the second of the mark, over that of main-1
    STORE_FAILS(vault.store_delta(sealed(11, 12), claiming(), kGoOn), Code::conflict, "\"main-2\"");
    time.advance(seconds(39));
    STORE_FAILS(vault.store_delta(sealed(11, 12), claiming(), kGoOn), Code::conflict, "\"main-2\"");
    time.advance(seconds(1));
    STORE_OK(vault.store_delta(sealed(11, 12), claiming(), kGoOn));
}

// It may be cut off and alive, so only time tells.
TEST_F(VaultTest, WaitsForTheClaimOfAnotherProcessOfItsMember) {
    store.fail_finish = Error{Code::unavailable, "disk full", {}};
    STORE_FAILS(vault_of("main-0", "old").store_delta(sealed(11, 12), claiming(), kGoOn),
                Code::unavailable,
                "disk full");
    store.fail_finish.reset();
    Vault vault = vault_of("main-0", "new");
    STORE_FAILS(vault.store_delta(sealed(11, 12), claiming(), kGoOn), Code::conflict, "main-0");
    time.advance(seconds(40));
    STORE_OK(vault.store_delta(sealed(11, 12), claiming(), kGoOn));
}

TEST_F(VaultTest, GivesUpWhatAnotherTookOverMeanwhile) {
    const auto take_over = [this] {
        const std::string etag = store.stat({fence_key("shop/main", 11)}).value().etag;
        ASSERT_TRUE(store.put_if_match(fence_key("shop/main", 11), "{\"member\":\"x\"}", etag));
    };
    int asked = 0;
    const Guard before_the_end = [&]() -> Result<void> {
        if (++asked == 2) {
            take_over();
        }
        return ok();
    };
    Vault vault = vault_of();
    STORE_FAILS(vault.store_delta(sealed(11, 12), claiming(), before_the_end),
                Code::conflict,
                "taken over");
    EXPECT_EQ(keys(), (std::vector<std::string>{fence_key("shop/main", 11)}));
    STORE_OK(store.remove({fence_key("shop/main", 11)}));
    store.on_finish = [&](const std::string&) { take_over(); };
    STORE_FAILS(vault.store_delta(sealed(11, 12), claiming(), kGoOn), Code::conflict, "taken over");
    EXPECT_EQ(keys(), (std::vector<std::string>{fence_key("shop/main", 11)}));
}

// Its object is there for a moment, and the heir, whose own try has failed, comes just then.
TEST_F(VaultTest, AdoptsNothingOfWhomItTookTheClaimFrom) {
    Vault loser = vault_of("main-0"), heir = vault_of("main-1");
    const SealedDelta of_loser = sealed(11, 14), of_heir = sealed(11, 12);
    bool first = true;
    store.on_finish = [&](const std::string&) {
        if (!std::exchange(first, false)) {
            return;
        }
        STORE_FAILS(heir.store_delta(of_heir, claiming(), kGoOn), Code::conflict, "main-0");
        time.advance(seconds(40));
        store.fail_finish = Error{Code::unavailable, "disk full", {}};
        STORE_FAILS(heir.store_delta(of_heir, claiming(), kGoOn), Code::unavailable, "disk full");
        store.fail_finish.reset();
    };
    std::optional<bool> adopted;
    const Guard while_it_is_there = [&]() -> Result<void> {
        if (!adopted && store.stat({"shop/main/v2/" + of_loser.record.name})) {
            const auto stored = heir.store_delta(of_heir, claiming(), kGoOn);
            EXPECT_TRUE(stored);
            adopted = !stored || stored.value().adopted;
        }
        return ok();
    };
    STORE_FAILS(
        loser.store_delta(of_loser, claiming(), while_it_is_there), Code::conflict, "taken over");
    EXPECT_EQ(adopted, false);
    EXPECT_EQ(keys(),
              (std::vector<std::string>{fence_key("shop/main", 11),
                                        "shop/main/v2/" + of_heir.record.name}));
}

TEST_F(VaultTest, ReadsBackWhatAnEarlierTryLeft) {
    const SealedDelta delta = sealed(11, 12);
    Vault vault = vault_of();
    store.fail_open = Error{Code::unavailable, "no way there", {}};
    STORE_FAILS(vault.store_delta(delta, claiming(), kGoOn), Code::unavailable, "no way there");
    EXPECT_EQ(keys().size(), 2u);
    STORE_FAILS(vault.store_delta(delta, claiming(), kGoOn), Code::unavailable, "no way there");
    store.fail_open.reset();
    const auto stored = vault.store_delta(delta, claiming(), kGoOn);
    STORE_OK(stored);
    EXPECT_FALSE(stored.value().adopted);
    EXPECT_EQ(stored.value().record.name, delta.record.name);
    EXPECT_GT(stored.value().record.bytes, 0u);
    EXPECT_EQ(keys().size(), 2u);
}

TEST_F(VaultTest, StoresUnderAnotherNameWhatIsDamagedAndCannotBeRemoved) {
    store.fail_remove = [](const std::string&) { return true; };
    store.damage_writes = true;
    const SealedDelta delta = sealed(11, 12);
    Vault vault = vault_of();
    STORE_FAILS(vault.store_delta(delta, claiming(), kGoOn), Code::unavailable, "not be removed");
    store.damage_writes = false;
    const auto stored = vault.store_delta(delta, claiming(), kGoOn);
    STORE_OK(stored);
    EXPECT_FALSE(stored.value().adopted);
    EXPECT_EQ(stored.value().record.created, delta.record.created + seconds(1));
    EXPECT_EQ(keys().size(), 3u);
    const auto listing = vault.list();
    STORE_OK(listing);
    EXPECT_EQ(listing.value().snapshots, (std::vector<SnapshotRecord>{stored.value().record}));
    // Another process finds out by itself.
    const auto other = vault_of("main-0", "2").store_delta(delta, claiming(), kGoOn);
    STORE_OK(other);
    EXPECT_EQ(other.value().record, stored.value().record);
    EXPECT_EQ(keys().size(), 3u);
}

TEST_F(VaultTest, AdoptsNothingDamaged) {
    Vault other = vault_of("main-1"), vault = vault_of();
    store.fail_remove = [](const std::string&) { return true; };
    store.damage_writes = true;
    STORE_FAILS(other.store_delta(sealed(11, 14), claiming(), kGoOn), Code::unavailable, "reads");
    store.damage_writes = false;
    STORE_FAILS(vault.store_delta(sealed(11, 12), claiming(), kGoOn), Code::conflict, "main-1");
    time.advance(seconds(40));
    const auto ours = vault.store_delta(sealed(11, 12), claiming(), kGoOn);
    STORE_OK(ours);
    EXPECT_FALSE(ours.value().adopted);
    EXPECT_EQ(vault.list().value().snapshots.size(), 1u);
}

TEST_F(VaultTest, StoresTheSameDeltaAgainAfterAFailure) {
    store.fail_finish = Error{Code::unavailable, "disk full", {}};
    const SealedDelta delta = sealed(11, 12);
    Vault vault = vault_of();
    STORE_FAILS(vault.store_delta(delta, claiming(), kGoOn), Code::unavailable, "disk full");
    store.fail_finish.reset();
    STORE_OK(vault.store_delta(delta, claiming(), kGoOn));
    EXPECT_EQ(keys().size(), 2u);
}

std::string name(SnapshotKind kind, std::int64_t start, std::int64_t last, WallTime created) {
    SnapshotRecord record;
    record.kind = kind;
    record.start_revision = start;
    record.last_revision = last;
    record.created = created;
    return "shop/main/v2/" + snapshot_name(record);
}

class Collecting : public VaultTest {
protected:
    // Three sets, a day apart, each with two deltas and a fence.
    void SetUp() override {
        for (std::int64_t set = 0; set < 3; ++set) {
            const WallTime created = time.wall - hours(24 * (3 - set));
            const std::int64_t base = 10 * set;
            write(name(SnapshotKind::full, 0, base + 1, created));
            write(name(SnapshotKind::delta, base + 2, base + 5, created + minutes(1)));
            write(name(SnapshotKind::delta, base + 6, base + 10, created + minutes(2)));
            write(fence_key("shop/main", base + 2));
        }
    }
    void write(const std::string& key) { ASSERT_TRUE(write_object(store, key, "x")); }
    RetentionOptions keep(std::int64_t fulls) {
        return {RetentionPolicy::limit_based, fulls, {}, 30};
    }
};

TEST_F(Collecting, RemovesDeltasFencesAndFullsThatAreTooMany) {
    const auto collected = vault_of().collect(keep(2), false, kGoOn);
    STORE_OK(collected);
    EXPECT_EQ(collected.value().objects.at({"Full", true}), 1u);
    EXPECT_EQ(collected.value().objects.at({"Incr", true}), 4u);
    EXPECT_EQ(collected.value().problem, "");
    std::vector<std::string> left;
    for (const std::string& key : keys()) {
        left.push_back(key.substr(std::string("shop/main/v2/").size(), 22));
    }
    EXPECT_EQ(keys().size(), 5u) << ::testing::PrintToString(left);
}

TEST_F(Collecting, KeepsAllOfWhatARollbackGaveUp) {
    Vault vault = vault_of();
    const auto mark = vault.begin_history(15, kGoOn);
    STORE_OK(mark);
    write(name(SnapshotKind::full, 0, 15, mark.value().since));
    write(fence_key("shop/main", 16));
    const auto collected = vault.collect(keep(2), false, kGoOn);
    STORE_OK(collected);
    const auto histories = histories_of(vault.list().value());
    ASSERT_EQ(histories.size(), 2u);
    EXPECT_EQ(histories[0].end, 30);
    EXPECT_EQ(histories[0].listing.snapshots.size(), 3u) << "its last full and both deltas";
    EXPECT_EQ(histories[1].end, 15);
    const auto left = keys();
    EXPECT_EQ(std::count(left.begin(), left.end(), fence_key("shop/main", 16)), 1)
        << "it guards the new history";
}

// Nobody restores from it, so what it would replace is the only backup.
TEST_F(Collecting, TakesNoExcludedFullForTheNewest) {
    store.versioned = true;
    const std::string newest = name(SnapshotKind::full, 0, 21, time.wall - hours(24));
    const std::string older = name(SnapshotKind::full, 0, 11, time.wall - hours(48));
    store.excluded = {newest};
    STORE_OK(vault_of().collect(keep(1), false, kGoOn));
    const SnapshotListing left = vault_of().list().value();
    ASSERT_EQ(left.snapshots.size(), 5u) << "the older one and all deltas after it";
    EXPECT_EQ(left.snapshots.front().key(), older);
    EXPECT_TRUE(store.stat({newest}));
    EXPECT_TRUE(store.stat({fence_key("shop/main", 12)}));
}

TEST_F(Collecting, TakesNoDamagedFullForTheNewest) {
    Vault vault = vault_of();
    SnapshotListing before = vault.list().value();
    for (SnapshotRecord& record : before.snapshots) {
        if (record.kind == SnapshotKind::full && record.last_revision == 21) {
            STORE_FAILS(vault.verify(record, kGoOn), Code::invalid, record.name);
        }
    }
    STORE_OK(vault.collect(keep(1), false, kGoOn));
    EXPECT_EQ(vault.list().value().snapshots.size(), 5u);
    EXPECT_EQ(vault.list().value().snapshots.front().last_revision, 11);
}

TEST_F(Collecting, RemovesWhatIsExcludedWhenItIsSuperseded) {
    store.versioned = true;
    const std::string oldest = name(SnapshotKind::full, 0, 1, time.wall - hours(72));
    store.excluded = {oldest};
    STORE_OK(vault_of().collect(keep(1), false, kGoOn));
    EXPECT_FALSE(store.stat({oldest}));
}

TEST_F(Collecting, KeepsAFullWhoseDeltasCannotBeRemoved) {
    store.fail_remove = [](const std::string& key) {
        return key.find("Incr-00000002") != std::string::npos;
    };
    const auto collected = vault_of().collect(keep(1), false, kGoOn);
    STORE_OK(collected);
    EXPECT_EQ(collected.value().objects.at({"Incr", false}), 1u);
    EXPECT_NE(collected.value().problem, "");
    const auto left = keys();
    EXPECT_TRUE(std::any_of(left.begin(), left.end(), [](const std::string& key) {
        return key.find("Full-00000000-00000001") != std::string::npos;
    }));
}

TEST_F(Collecting, WhereThereAreVersionsRemovesThemForGood) {
    store.versioned = true;
    Vault vault = vault_of();
    EXPECT_EQ(vault.collect(keep(2), false, kGoOn).value().fences, 2u);
    EXPECT_EQ(keys().size(), 5u);
    EXPECT_EQ(vault.collect(keep(2), false, kGoOn).value().fences, 0u);
    EXPECT_EQ(store.markers, 0);
}

TEST_F(Collecting, LeavesALockedFenceAlone) {
    store.locked_until = time.wall + hours(1);
    int removals = 0;
    store.fail_remove = [&](const std::string&) { return ++removals > 0; };
    EXPECT_EQ(vault_of().collect(keep(2), false, kGoOn).value().fences, 0u);
    EXPECT_EQ(removals, 0);
    store.locked_until = time.wall - hours(1);
    STORE_OK(vault_of().collect(keep(2), false, kGoOn));
    EXPECT_GT(removals, 3);
}

TEST_F(Collecting, TriesOnlySomeFencesWithoutTheRightToDelete) {
    for (std::int64_t revision = 3; revision < 20; ++revision) {
        write(fence_key("shop/main", revision));
    }
    std::size_t fences = 0;
    store.fail_remove = [&](const std::string& key) {
        fences += key.find("/capstan/") != std::string::npos ? 1u : 0u;
        return true;
    };
    EXPECT_EQ(vault_of().collect(keep(2), false, kGoOn).value().fences, 0u);
    EXPECT_EQ(fences, kDeleteFailuresMax);
}

TEST_F(Collecting, EndsOnlyUploadsOfItsOwnFolders) {
    EXPECT_EQ(vault_of().collect(keep(2), true, kGoOn).value().uploads, 3u);
    EXPECT_EQ(store.uploads_below,
              (std::vector<std::string>{"shop/main/v1", "shop/main/v2", "shop/main/capstan"}));
}

TEST_F(Collecting, StopsWithTheTerm) {
    int removals = 2;
    const Guard guard = [&]() -> Result<void> {
        return removals-- > 0 ? Result<void>(ok()) : fail(Code::cancelled, "over");
    };
    STORE_FAILS(vault_of().collect(keep(1), false, guard), Code::cancelled, "over");
}

}  // namespace
}  // namespace capstan::steward
