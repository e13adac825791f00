// Two Etcds with the same container and prefix: one of them stores, the other one says so.
#include "plugins/steward-bridge/snapshotter/engine.hpp"

#include "plugins/steward-bridge/restore/stored_owner.hpp"
#include "plugins/steward-bridge/snapshotter/testing_etcd.hpp"
#include "plugins/steward-bridge/snapshotter/testing_store.hpp"

#include "capstan/testing/fake_host.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace capstan::steward {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// An etcd and the steward of its leader.
class Cluster {
public:
    Cluster(TestingTime& time, FaultyStore& store, PrefixOwner owner)
        : etcd(time),
          time_(time),
          claim_({store, time, "p", owner, owner.uid}),
          vault_({store, digests_, time, "p", "main-0", owner.uid, [this] {
                      return claim_.still_ours();
                  }}) {
        config_.store.provider = "Local";
        config_.compression = Compression::none;
        config_.collect_period = {};
        face.configure(config_, {});
        face.on_role(Role::leader);
        start();
    }
    void start() {
        engine_ = std::make_unique<SnapshotEngine>(
            EngineParts{etcd,
                        vault_,
                        digests_,
                        time_,
                        face,
                        metrics_,
                        [this] { return time_.mono; },
                        []() -> Result<void> { return ok(); },
                        [](LogLevel, std::string_view, const json::Value&) {},
                        [](const SnapshotFacts&) {},
                        {},
                        {},
                        &claim_},
            config_,
            Schedule::parse(config_.schedule).value());
    }
    // What is due at this moment; a watch that waits moves time on.
    void work() {
        for (int steps = 0; steps < 20; ++steps) {
            const MonotonicTime now = time_.mono;
            const auto idle = engine_->step();
            ASSERT_TRUE(idle) << idle.error().message;
            if (idle.value() > now || time_.mono > now) {
                return;
            }
        }
    }
    SnapshotterView view() const { return face.view(); }

    capstan::testing::FakeHost host;
    HostTables tables{host.host()};
    FakeEtcd etcd;
    Snapshotter face{tables};

private:
    TestingTime& time_;
    TestingDigests digests_;
    SnapshotMetrics metrics_{tables};
    SnapshotterConfig config_;
    StoreClaim claim_;
    Vault vault_;
    std::unique_ptr<SnapshotEngine> engine_;
};

class TwoClusters : public ::testing::Test {
protected:
    Cluster& add(const PrefixOwner& owner) {
        return *clusters.emplace_back(std::make_unique<Cluster>(time, store, owner));
    }
    void run(std::chrono::nanoseconds span, const std::vector<Cluster*>& of) {
        for (const MonotonicTime until = time.mono + span; time.mono < until;) {
            for (Cluster* const cluster : of) {
                cluster->work();
            }
            time.advance(seconds(1));
        }
    }
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

    TestingTime time;
    FaultyStore store;
    std::vector<std::unique_ptr<Cluster>> clusters;
};

const PrefixOwner kMain{"shop", "main", "uid-1", "c1"};
const PrefixOwner kMainAgain{"shop", "main", "uid-2", "c1"};
const PrefixOwner kOther{"bank", "other", "uid-3", "c3"};

TEST_F(TwoClusters, ALivingOneKeepsItsPrefixAndTheOtherSaysSo) {
    for (const PrefixOwner& owner : {kOther, kMainAgain}) {
        Cluster& first = add(kMain);
        run(seconds(2), {&first});
        Cluster& second = add(owner);
        for (int i = 0; i < 50; ++i) {
            second.etcd.put("foreign", "x");  // it stands further
        }
        run(minutes(5), {&first, &second});
        first.etcd.put("a", "1");
        run(minutes(1), {&first, &second});
        const auto asked = second.face.enqueue(true, false).value();
        run(minutes(20), {&first, &second});
        for (const std::string& name : stored()) {
            EXPECT_TRUE(name == "Full-00000000-00000001" || name == "Incr-00000002-00000002")
                << name;
        }
        EXPECT_EQ(first.view().state, SnapshotterState::running);
        EXPECT_EQ(second.view().state, SnapshotterState::failing);
        EXPECT_EQ(second.view().reason, "StoreHeldByAnotherEtcd");
        EXPECT_NE(second.view().message.find("Etcd shop/main (uid uid-1, etcd cluster c1)"),
                  std::string::npos)
            << second.view().message;
        ASSERT_TRUE(asked->answer);
        EXPECT_EQ(asked->answer->error().code, Code::conflict);
    }
}

// An Etcd deleted and created again, restored from what is there: it goes on, with a full first.
TEST_F(TwoClusters, ANamesakeGoesOnBehindAFullOfItsOwn) {
    Cluster& first = add(kMain);
    run(seconds(2), {&first});
    first.etcd.put("a", "1");
    run(minutes(1), {&first});
    Cluster& second = add(kMainAgain);
    second.etcd.put("a", "1");
    second.etcd.put("b", "2");
    run(seconds(90), {&second});
    EXPECT_EQ(stored().size(), 2u);
    run(minutes(5), {&second});
    EXPECT_EQ(second.view().state, SnapshotterState::running);
    second.etcd.put("c", "3");
    run(minutes(1), {&second});
    EXPECT_EQ(stored(),
              (std::vector<std::string>{"Full-00000000-00000001",
                                        "Full-00000000-00000003",
                                        "Incr-00000002-00000002",
                                        "Incr-00000004-00000004"}));
    // The first one was only away.
    first.etcd.put("mixed", "x");
    run(minutes(1), {&first, &second});
    EXPECT_EQ(stored().size(), 4u);
    EXPECT_EQ(first.view().reason, "StoreHeldByAnotherEtcd");
}

// Its full was never stored, and the next leader's steward starts from what the store says.
TEST_F(TwoClusters, WhoTookOverContinuesNothingForeignAfterARestart) {
    Cluster& first = add(kMain);
    run(seconds(2), {&first});
    Cluster& second = add(kMainAgain);
    second.etcd.put("b", "2");
    second.etcd.failures["snapshot"] = Error{Code::unavailable, "no", {}};
    run(minutes(5), {&second});
    EXPECT_EQ(stored().size(), 1u);
    EXPECT_FALSE(second.view().facts.full) << "that of another Etcd is no backup of this one";
    second.etcd.failures.clear();
    second.start();
    run(minutes(1), {&second});
    EXPECT_EQ(stored(),
              (std::vector<std::string>{"Full-00000000-00000001", "Full-00000000-00000002"}));
}

TEST_F(TwoClusters, WhatAppearsAfterATakeoverIsTakenBack) {
    Cluster& first = add(kMain);
    run(seconds(2), {&first});
    bool taken_over = false;
    store.on_finish = [&](const std::string&) {
        if (!std::exchange(taken_over, true)) {
            ASSERT_TRUE(write_object(store, owner_key("p"), to_text(kOther)));
        }
    };
    const auto asked = first.face.enqueue(true, false).value();
    first.etcd.put("a", "1");
    first.work();
    store.on_finish = nullptr;
    run(minutes(1), {&first});
    EXPECT_EQ(stored(), (std::vector<std::string>{"Full-00000000-00000001"}));
    ASSERT_TRUE(asked->answer);
    EXPECT_NE(asked->answer->error().message.find("Etcd bank/other"), std::string::npos);
}

}  // namespace
}  // namespace capstan::steward
