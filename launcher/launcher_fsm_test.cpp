#include "launcher/launcher_fsm.hpp"

#include <gtest/gtest.h>

namespace capstan::launcher {
namespace {

using Kind = Action::Kind;

const Action* find(const Actions& actions, Kind kind) {
    for (const Action& action : actions) {
        if (action.kind == kind) {
            return &action;
        }
    }
    return nullptr;
}

// Drives a fresh machine to a running, healthy etcd.
LauncherFsm running(std::string_view marker = "") {
    LauncherFsm fsm(marker, "r");
    fsm.start();
    fsm.on_reply(200, "");
    fsm.on_reply(200, "Successful");
    fsm.on_reply(200, "name: a");
    fsm.on_health(true);
    return fsm;
}

struct ModeRow {
    const char* name;
    const char* marker;
    const char* mode;
};
class Mode : public testing::TestWithParam<ModeRow> {};
TEST_P(Mode, FollowsTheExitMarker) {
    LauncherFsm fsm(GetParam().marker, "r");
    EXPECT_EQ(fsm.start().at(0).text,
              std::string("/initialization/start?mode=") + GetParam().mode + "&run=r-1");
}
INSTANTIATE_TEST_SUITE_P(LauncherFsm,
                         Mode,
                         testing::Values(ModeRow{"clean", "terminated", "sanity"},
                                         ModeRow{"interrupted", "interrupt\n", "sanity"},
                                         ModeRow{"none", "", "full"},
                                         ModeRow{"garbage", "xyz", "full"}),
                         [](const auto& row) { return row.param.name; });

TEST(LauncherFsm, SaysOnceThatTheStewardIsSilent) {
    LauncherFsm fsm("", "r");
    fsm.start();
    std::string said;
    for (int i = 1; i <= 2 * kSilentMax; ++i) {
        const Actions actions = fsm.on_reply(0, "connect: No such file or directory");
        const Action* line = find(actions, Kind::log);
        EXPECT_EQ(line != nullptr, i == kSilentMax) << i;
        said += line == nullptr ? "" : line->text;
        EXPECT_NE(find(actions, Kind::set_timer), nullptr);
    }
    EXPECT_EQ(
        said,
        "the steward in this pod does not answer: connect: No such file or directory; etcd is "
        "not started before it does, its log says why");
}

TEST(LauncherFsm, WalksFromStewardToRunningEtcd) {
    LauncherFsm fsm("", "r");
    EXPECT_EQ(fsm.start().at(0).kind, Kind::get);
    EXPECT_EQ(fsm.on_reply(0, "").at(0).kind, Kind::set_timer);  // no steward yet
    EXPECT_EQ(fsm.why_not_ready(), "waiting for the steward");
    EXPECT_EQ(fsm.on_timer().at(0).kind, Kind::get);
    EXPECT_EQ(fsm.on_reply(200, "").at(0).text, "/initialization/status?run=r-1");
    EXPECT_EQ(fsm.on_reply(200, "Progress").at(0).kind, Kind::set_timer);
    EXPECT_EQ(fsm.on_timer().at(0).text, "/initialization/status?run=r-1");
    EXPECT_EQ(fsm.on_reply(200, "Successful").at(0).text, "/config");
    EXPECT_EQ(fsm.on_reply(500, "no").at(0).kind, Kind::set_timer);
    EXPECT_EQ(fsm.on_timer().at(0).text, "/config");
    const Actions spawned = fsm.on_reply(200, "name: a");
    EXPECT_EQ(spawned.at(0).kind, Kind::spawn);
    EXPECT_EQ(spawned.at(0).text, "name: a");
    EXPECT_FALSE(fsm.ready());
    EXPECT_EQ(fsm.on_timer().at(0).kind, Kind::check_health);
    fsm.on_health(true);
    EXPECT_TRUE(fsm.ready());
}

TEST(LauncherFsm, StartsANewRunAfterAFailedOne) {
    LauncherFsm fsm("", "r");
    fsm.start();
    fsm.on_reply(200, "");
    const Actions failed = fsm.on_reply(200, "Failed");
    ASSERT_NE(find(failed, Kind::set_timer), nullptr);
    EXPECT_EQ(find(failed, Kind::set_timer)->delay, kFailurePauseFirst);
    EXPECT_EQ(fsm.on_timer().at(0).text, "/initialization/start?mode=full&run=r-2");
    fsm.on_reply(200, "");
    EXPECT_EQ(find(fsm.on_reply(200, "Failed"), Kind::set_timer)->delay, kFailurePauseFirst * 2);
}

TEST(LauncherFsm, AsksAgainWhenTheStewardForgotTheRun) {
    LauncherFsm fsm("", "r");
    fsm.start();
    fsm.on_reply(200, "");
    fsm.on_reply(200, "New");
    EXPECT_EQ(fsm.on_timer().at(0).text, "/initialization/start?mode=full&run=r-1");
}

TEST(LauncherFsm, RemovesTheMarkerOnlyOnceEtcdIsReady) {
    LauncherFsm fsm("terminated", "r");
    fsm.start();
    fsm.on_reply(200, "");
    fsm.on_reply(200, "Successful");
    fsm.on_reply(200, "name: a");
    EXPECT_EQ(find(fsm.on_health(false), Kind::remove_marker), nullptr);
    EXPECT_NE(find(fsm.on_health(true), Kind::remove_marker), nullptr);
    EXPECT_EQ(find(fsm.on_health(true), Kind::remove_marker), nullptr);
}

TEST(LauncherFsm, IsNotReadyBeforeItsMemberVotes) {
    LauncherFsm fsm("terminated", "r");
    fsm.start();
    fsm.on_reply(200, "");
    fsm.on_reply(200, "Successful");
    fsm.on_reply(200, "name: a");
    // what runs can be ended uncleanly from here on
    EXPECT_NE(find(fsm.on_health(true, true), Kind::remove_marker), nullptr);
    EXPECT_FALSE(fsm.ready());
    EXPECT_EQ(fsm.why_not_ready(), "waiting for the cluster to give this member a vote");
    EXPECT_EQ(find(fsm.on_health(true, true), Kind::log), nullptr);
    fsm.on_health(true);
    EXPECT_TRUE(fsm.ready());
}

TEST(LauncherFsm, WritesTheMarkerBeforeItStopsEtcdAndExitsZero) {
    LauncherFsm fsm = running();
    const Actions stopping = fsm.on_terminate("terminated");
    ASSERT_EQ(stopping.at(0).kind, Kind::write_marker);
    EXPECT_EQ(stopping.at(0).text, "terminated");
    EXPECT_EQ(stopping.at(1).kind, Kind::terminate);
    const Actions ended = fsm.on_child_exit(true, 0);
    ASSERT_NE(find(ended, Kind::exit), nullptr);
    EXPECT_EQ(find(ended, Kind::exit)->code, 0);
    EXPECT_EQ(find(ended, Kind::remove_marker), nullptr);
}

TEST(LauncherFsm, TakesTheMarkerBackWhenEtcdHadToBeKilled) {
    LauncherFsm fsm = running();
    fsm.on_terminate("terminated");
    EXPECT_NE(find(fsm.on_timer(), Kind::kill), nullptr);
    const Actions ended = fsm.on_child_exit(false, 137);
    EXPECT_NE(find(ended, Kind::remove_marker), nullptr);
    EXPECT_EQ(find(ended, Kind::exit)->code, 1);
}

TEST(LauncherFsm, KillsOnASecondSignal) {
    LauncherFsm fsm = running();
    fsm.on_terminate("terminated");
    EXPECT_NE(find(fsm.on_terminate("terminated"), Kind::kill), nullptr);
}

TEST(LauncherFsm, LeavesWithEtcdsCodeWhenItDies) {
    LauncherFsm fsm = running();
    EXPECT_EQ(find(fsm.on_child_exit(false, 137), Kind::exit)->code, 137);
    LauncherFsm zero = running();
    EXPECT_EQ(find(zero.on_child_exit(true, 0), Kind::exit)->code, 1);  // nobody asked it to end
}

TEST(LauncherFsm, RestartsTheProcessWithSanityValidationAfterACleanEnd) {
    LauncherFsm fsm = running();
    EXPECT_NE(find(fsm.on_restart_request(), Kind::terminate), nullptr);
    EXPECT_FALSE(fsm.ready());
    EXPECT_TRUE(fsm.on_restart_request().empty());  // idempotent
    EXPECT_EQ(fsm.on_child_exit(true, 0).at(0).text, "/initialization/start?mode=sanity&run=r-2");
}

TEST(LauncherFsm, EndsAtOnceWhenNothingRuns) {
    LauncherFsm fsm("terminated", "r");
    fsm.start();
    const Actions ended = fsm.on_terminate("terminated");
    EXPECT_EQ(find(ended, Kind::write_marker), nullptr);  // the old marker stays true
    EXPECT_EQ(find(ended, Kind::exit)->code, 0);
}

}  // namespace
}  // namespace capstan::launcher
