#include "plugins/steward-bridge/snapshotter/store_claim.hpp"

#include "plugins/steward-bridge/restore/stored_owner.hpp"
#include "plugins/steward-bridge/snapshotter/testing_etcd.hpp"
#include "plugins/steward-bridge/snapshotter/testing_store.hpp"
#include "plugins/steward-bridge/store/store_testing.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

const PrefixOwner kMain{"shop", "main", "uid-1", "c1"};
const PrefixOwner kMainAgain{"shop", "main", "uid-2", "c1"};
const PrefixOwner kOther{"bank", "main", "uid-3", "c3"};

class StoreClaimTest : public ::testing::Test {
protected:
    StoreClaim claim_of(const PrefixOwner& me, const std::string& process) {
        return StoreClaim({store, time, "p", me, process});
    }
    Result<WallTime> acquire(StoreClaim& claim) {
        return claim.acquire(time.mono, [this]() -> Result<WallTime> { return time.wall; });
    }
    PrefixOwner stored() { return read_owner(store, "p").value().value(); }

    TestingTime time;
    FaultyStore store;
};

TEST_F(StoreClaimTest, SaysWhoseThePrefixIs) {
    StoreClaim claim = claim_of(kMain, "a");
    const auto held = acquire(claim);
    STORE_OK(held);
    EXPECT_EQ(held.value(), WallTime()) << "what is there already is its own";
    EXPECT_EQ(stored().described(), "Etcd shop/main (uid uid-1, etcd cluster c1)");
}

// Also a restored cluster, which has another id, and a steward that does not know the uid (yet).
TEST_F(StoreClaimTest, GoesOnForEveryStewardOfItsEtcd) {
    StoreClaim first = claim_of(kMain, "a");
    STORE_OK(acquire(first));
    PrefixOwner restored = kMain;
    restored.cluster = "c2";
    StoreClaim second = claim_of(restored, "b");
    STORE_OK(acquire(second));
    EXPECT_EQ(stored().cluster, "c2");
    StoreClaim nameless = claim_of({"shop", "main", "", ""}, "c");
    STORE_OK(acquire(nameless));
    EXPECT_EQ(stored().uid, "uid-1");
    time.advance(kOwnerLook);
    STORE_OK(first.keep(time.mono));
}

TEST_F(StoreClaimTest, ALivingEtcdKeepsItsPrefix) {
    for (const PrefixOwner& other : {kOther, kMainAgain}) {
        StoreClaim holder = claim_of(kMain, "a");
        STORE_OK(acquire(holder));
        StoreClaim late = claim_of(other, "b");
        STORE_FAILS(acquire(late), Code::conflict, "Etcd shop/main (uid uid-1");
        EXPECT_TRUE(late.refused());
        EXPECT_EQ(stored().asks, "b");
        time.advance(kOwnerLook);
        STORE_OK(holder.keep(time.mono));
        EXPECT_EQ(stored().asks, "");
        STORE_FAILS(acquire(late), Code::conflict, "it has answered");
        STORE_FAILS(acquire(late), Code::conflict, "spec.backup.store.prefix of Etcd " + other.ns);
        EXPECT_EQ(stored().asks, "") << "it asks again only after a while";
        for (int i = 0; i < 8000; ++i) {  // for longer than the patience with a stranger
            time.advance(kOwnerLook);
            STORE_OK(holder.keep(time.mono));
            STORE_FAILS(acquire(late), Code::conflict, "");
        }
        EXPECT_EQ(stored().uid, "uid-1");
    }
}

TEST_F(StoreClaimTest, WhoAsksFromTimeToTimeIsAnsweredOnceEach) {
    StoreClaim holder = claim_of(kMain, "a");
    STORE_OK(acquire(holder));
    const std::string before = store.stat({owner_key("p")}).value().etag;
    for (int i = 0; i < 100; ++i) {
        time.advance(kOwnerLook);
        STORE_OK(holder.keep(time.mono));
    }
    EXPECT_EQ(store.stat({owner_key("p")}).value().etag, before) << "nobody asks, nobody writes";
}

TEST_F(StoreClaimTest, ANamesakeThatStaysSilentIsSucceededSoon) {
    StoreClaim gone = claim_of(kMain, "a");
    STORE_OK(acquire(gone));
    StoreClaim again = claim_of(kMainAgain, "b");
    STORE_FAILS(acquire(again), Code::conflict, "takes over");
    time.advance(kNamesakePatience - seconds(1));
    STORE_FAILS(acquire(again), Code::conflict, "until 2027-01-15T08:02:00Z");
    time.advance(seconds(1));
    const auto held = acquire(again);
    STORE_OK(held);
    EXPECT_EQ(held.value(), time.wall) << "what is older is not continued";
    EXPECT_EQ(stored().uid, "uid-2");
    EXPECT_FALSE(again.refused());
    // Whoever takes snapshots next knows it as well.
    StoreClaim next = claim_of(kMainAgain, "c");
    EXPECT_EQ(acquire(next).value(), held.value());
    // And who was only away is told.
    time.advance(kOwnerLook);
    STORE_FAILS(gone.keep(time.mono), Code::conflict, "took over");
    STORE_FAILS(gone.still_ours(), Code::conflict, "uid-2");
}

TEST_F(StoreClaimTest, AStrangerThatStaysSilentIsSucceededLate) {
    StoreClaim gone = claim_of(kMain, "a");
    STORE_OK(acquire(gone));
    StoreClaim other = claim_of(kOther, "b");
    STORE_FAILS(acquire(other), Code::conflict, "p/capstan/owner is removed");
    time.advance(kStrangerPatience - seconds(1));
    STORE_FAILS(acquire(other), Code::conflict, "");
    time.advance(seconds(1));
    STORE_OK(acquire(other));
    EXPECT_EQ(stored().ns, "bank");
}

TEST_F(StoreClaimTest, WhatIsRemovedByHandIsTheNextOnes) {
    StoreClaim gone = claim_of(kMain, "a");
    STORE_OK(acquire(gone));
    STORE_OK(store.remove({owner_key("p"), ""}));
    StoreClaim other = claim_of(kOther, "b");
    EXPECT_EQ(acquire(other).value(), WallTime());
    StoreClaim third = claim_of(kMainAgain, "c");
    STORE_FAILS(acquire(third), Code::conflict, "Etcd bank/main");
    STORE_OK(store.remove({owner_key("p"), ""}));
    time.advance(kOwnerLook);
    STORE_OK(other.keep(time.mono));  // who lives writes it anew
    EXPECT_EQ(stored().ns, "bank");
    STORE_OK(store.remove({owner_key("p"), ""}));
    EXPECT_EQ(acquire(third).value(), time.wall) << "it knows whose the backups were";
}

TEST_F(StoreClaimTest, AnUnreadableOwnerIsNobodysConsent) {
    STORE_OK(store.put_if_absent(owner_key("p"), "what?"));
    StoreClaim claim = claim_of(kMain, "a");
    STORE_FAILS(acquire(claim), Code::invalid, "p/capstan/owner");
}

}  // namespace
}  // namespace capstan::steward
