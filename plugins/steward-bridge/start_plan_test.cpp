#include "plugins/steward-bridge/start_plan.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

using List = StartFacts::List;
using State = DataDirectory::State;

struct Row {
    const char* name;
    bool record;
    List list;
    State data;
    bool store;
    std::int64_t replicas;
    StartDo expected;
    const char* reason;
};

class StartTable : public testing::TestWithParam<Row> {};

TEST_P(StartTable, Decides) {
    const Row& row = GetParam();
    const StartDecision decision =
        decide_start({row.record,
                      row.list,
                      {row.data, row.data == State::invalid ? "db: torn" : ""},
                      row.store,
                      row.replicas});
    EXPECT_EQ(decision.what, row.expected);
    EXPECT_EQ(decision.reason, row.reason);
    EXPECT_EQ(decision.message.empty(), std::string(row.reason).empty());
}

constexpr auto kUnreachable = List::unreachable;
INSTANTIATE_TEST_SUITE_P(
    StartPlan,
    StartTable,
    testing::Values(
        Row{"listed_valid", true, List::member, State::valid, false, 3, StartDo::start, ""},
        Row{"listed_valid_no_record",
            false,
            List::member,
            State::valid,
            false,
            3,
            StartDo::start,
            ""},
        Row{"listed_missing",
            true,
            List::member,
            State::missing,
            false,
            3,
            StartDo::rejoin_learner,
            "DataInvalid"},
        Row{"listed_invalid",
            false,
            List::member,
            State::invalid,
            false,
            3,
            StartDo::rejoin_learner,
            "DataInvalid"},
        Row{"never_started_missing",
            false,
            List::member_never_started,
            State::missing,
            false,
            3,
            StartDo::join,
            ""},
        Row{"never_started_valid",
            false,
            List::member_never_started,
            State::valid,
            false,
            3,
            StartDo::start,
            ""},
        Row{"never_started_with_record",
            true,
            List::member_never_started,
            State::missing,
            false,
            3,
            StartDo::rejoin_learner,
            "DataInvalid"},
        Row{"not_listed",
            true,
            List::not_member,
            State::valid,
            false,
            3,
            StartDo::become_learner,
            "NotAMember"},
        Row{"whole_cluster_restart",
            true,
            kUnreachable,
            State::valid,
            false,
            3,
            StartDo::start,
            ""},
        Row{"whole_cluster_restart_no_record",
            false,
            kUnreachable,
            State::valid,
            false,
            3,
            StartDo::start,
            ""},
        Row{"lost_alone_no_store",
            true,
            kUnreachable,
            State::missing,
            false,
            1,
            StartDo::fail,
            "DataLost"},
        Row{"lost_alone_with_store",
            true,
            kUnreachable,
            State::missing,
            true,
            1,
            StartDo::restore,
            "DataInvalid"},
        Row{"lost_among_three",
            true,
            kUnreachable,
            State::invalid,
            false,
            3,
            StartDo::wait,
            "WaitingForCluster"},
        Row{"lost_among_three_with_store",
            true,
            kUnreachable,
            State::missing,
            true,
            3,
            StartDo::wait,
            "WaitingForCluster"},
        Row{"bootstrap_one", false, kUnreachable, State::missing, false, 1, StartDo::bootstrap, ""},
        Row{"bootstrap_three",
            false,
            kUnreachable,
            State::missing,
            false,
            3,
            StartDo::bootstrap,
            ""},
        Row{"unknown_store",
            false,
            kUnreachable,
            State::missing,
            true,
            3,
            StartDo::wait,
            "BackupsNotSupported"},
        Row{"foreign_data",
            false,
            kUnreachable,
            State::invalid,
            false,
            3,
            StartDo::fail,
            "DataInvalid"}),
    [](const auto& row) { return row.param.name; });

// Whatever is unknown, data that may be the last copy is never replaced by an empty cluster.
TEST(StartPlan, BootstrapsOnlyWhereNothingEverWas) {
    for (const bool record : {false, true}) {
        for (const List list :
             {List::unreachable, List::member, List::member_never_started, List::not_member}) {
            for (const State data : {State::missing, State::valid, State::invalid}) {
                for (const bool store : {false, true}) {
                    for (const std::int64_t replicas : {1, 3}) {
                        const auto what =
                            decide_start({record, list, {data, "x"}, store, replicas}).what;
                        if (what == StartDo::bootstrap) {
                            EXPECT_TRUE(!record && list == List::unreachable &&
                                        data == State::missing && !store);
                        }
                    }
                }
            }
        }
    }
}

}  // namespace
}  // namespace capstan::steward
