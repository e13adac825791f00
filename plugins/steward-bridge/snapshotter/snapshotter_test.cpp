#include "plugins/steward-bridge/snapshotter/snapshotter.hpp"

#include "plugins/steward-bridge/snapshotter/leases.hpp"
#include "plugins/steward-bridge/snapshotter/report.hpp"

#include "capstan/testing/fake_host.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

class SnapshotterTest : public ::testing::Test {
protected:
    SnapshotterTest() { config.store.provider = "Local"; }

    capstan::testing::FakeHost host;
    HostTables tables{host.host()};
    Snapshotter face{tables};
    SnapshotterConfig config;
};

TEST_F(SnapshotterTest, RefusesWhatItCannotDo) {
    EXPECT_EQ(face.enqueue(true, false).error().code, Code::unavailable);
    face.configure(SnapshotterConfig(), {});
    EXPECT_EQ(face.enqueue(true, false).error().code, Code::unsupported);
    face.configure(config, {});
    EXPECT_EQ(face.enqueue(true, false).error().code, Code::unavailable);
    face.on_role(Role::leader);
    EXPECT_TRUE(face.enqueue(true, false));
    config.delta_period = {};
    face.configure(config, {});
    EXPECT_EQ(face.enqueue(false, false).error().code, Code::unsupported);
    EXPECT_TRUE(face.leads());
    EXPECT_TRUE(face.backups());
}

TEST_F(SnapshotterTest, LetsOnlySoManyWait) {
    face.configure(config, {});
    face.on_role(Role::leader);
    for (std::size_t i = 0; i < kSnapshotRequestsMax; ++i) {
        EXPECT_TRUE(face.enqueue(true, false));
    }
    EXPECT_EQ(face.enqueue(true, false).error().code, Code::overloaded);
    face.refuse_asks({Code::cancelled, "over", {}});
    EXPECT_TRUE(face.enqueue(true, false));
}

TEST_F(SnapshotterTest, AChangeOfRoleOrConfigurationBeginsANewTerm) {
    std::uint64_t term = face.term();
    const auto changed = [&] {
        const bool is = face.term() != term;
        term = face.term();
        return is;
    };
    face.configure(config, {"http://a", {}});
    EXPECT_TRUE(changed());
    face.configure(config, {"http://a", {}});
    EXPECT_FALSE(changed());
    face.on_role(Role::follower);
    EXPECT_FALSE(changed());  // nothing was under way
    face.on_role(Role::leader);
    EXPECT_TRUE(changed());
    face.on_role(Role::leader);
    EXPECT_FALSE(changed());
    face.configure(config, {"http://b", {}});
    EXPECT_TRUE(changed());
    config.max_backups = 1;
    face.configure(config, {"http://b", {}});
    EXPECT_TRUE(changed());
    face.on_role(Role::follower);
    EXPECT_TRUE(changed());
}

TEST_F(SnapshotterTest, ASlowMomentOfEtcdEndsNoTerm) {
    face.on_role(Role::leader);
    const std::uint64_t term = face.term();
    face.on_role(Role::unknown);
    face.on_role(Role::unknown);
    EXPECT_TRUE(face.leads());
    face.on_role(Role::leader);
    face.on_role(Role::unknown);
    face.on_role(Role::unknown);
    EXPECT_EQ(face.term(), term);
    face.on_role(Role::unknown);
    EXPECT_FALSE(face.leads());
    EXPECT_NE(face.term(), term);
    face.on_role(Role::leader);
    face.on_role(Role::follower);  // said by etcd: at once
    EXPECT_FALSE(face.leads());
}

TEST_F(SnapshotterTest, AStartOfEtcdEndsTheTermAtOnce) {
    face.configure(config, {});
    face.on_role(Role::leader);
    const std::uint64_t term = face.term();
    EXPECT_TRUE(face.at_rest());
    EXPECT_TRUE(face.begin_work(term));
    face.end_term();
    EXPECT_NE(face.term(), term);
    EXPECT_FALSE(face.leads());
    EXPECT_TRUE(face.etcd_gone());
    EXPECT_FALSE(face.at_rest());  // what the term holds is still being stored
    face.end_work();
    EXPECT_TRUE(face.at_rest());
    EXPECT_FALSE(face.begin_work(term));  // who was about to begin
    EXPECT_TRUE(face.at_rest());
    face.on_role(Role::unknown);
    EXPECT_TRUE(face.etcd_gone());
    face.on_role(Role::leader);
    EXPECT_FALSE(face.etcd_gone());
    EXPECT_TRUE(face.leads());
    for (int looks = 0; looks < kUnknownRolesMax; ++looks) {
        face.on_role(Role::unknown);
    }
    EXPECT_TRUE(face.etcd_gone());
    face.on_role(Role::follower);
    EXPECT_FALSE(face.etcd_gone());
}

TEST_F(SnapshotterTest, ItsViewChangesOnlyWithWhatIsSaid) {
    face.publish(SnapshotterState::running, "", "");
    const std::uint64_t version = face.view().version;
    face.publish(SnapshotterState::running, "", "");
    EXPECT_EQ(face.view().version, version);
    face.publish(SnapshotterState::failing, "R", "m");
    EXPECT_NE(face.view().version, version);
}

TEST(SnapshotReport, ShowsTheFacts) {
    SnapshotFacts facts;
    facts.full.emplace();
    facts.full->name = "Full-00000000-00000027-1800000000.gz";
    facts.full->last_revision = 27;
    facts.full->created = WallTime(std::chrono::seconds(1'800'000'000));
    facts.full_bytes = 1024;
    facts.observed_at = WallTime(std::chrono::seconds(1'800'000'060));
    facts.delta_bytes = 55;
    SnapshotRecord delta;
    delta.kind = SnapshotKind::delta;
    delta.name = "Incr";
    delta.start_revision = 28;
    delta.last_revision = 30;
    facts.deltas.push_back(delta);
    const json::Value status = api::encode(to_status(facts));
    const json::View view(status);
    EXPECT_EQ(view["lastFull"]["endRevision"].int_or(0), 27);
    EXPECT_EQ(view["lastFull"]["timestamp"].string_or(""), "2027-01-15T08:00:00Z");
    EXPECT_EQ(view["lastDelta"]["startRevision"].int_or(0), 28);
    EXPECT_FALSE(view["lastDelta"]["size"].present());
    EXPECT_EQ(view["observedAt"].string_or(""), "2027-01-15T08:01:00Z");
}

TEST(SnapshotLease, HoldsADecimalRevision) {
    const auto held = [](json::Value spec) { return held_revision({{"spec", std::move(spec)}}); };
    EXPECT_EQ(held(json::object()).value(), 0);
    EXPECT_EQ(held({{"holderIdentity", ""}}).value(), 0);
    EXPECT_EQ(held({{"holderIdentity", "123"}}).value(), 123);
    EXPECT_EQ(held({{"holderIdentity", "main-0"}}).error().code, Code::invalid);
}

}  // namespace
}  // namespace capstan::steward
