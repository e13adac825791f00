#include "plugins/steward-bridge/start_plan.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

using List = StartFacts::List;
using State = DataDirectory::State;
using Store = StartFacts::Store;
using Owner = DataOwner;

struct Row {
    const char* name;
    bool record{false};
    List list{List::unreachable};
    State data{State::missing};
    Store store{Store::none};
    std::int64_t replicas{3};
    StartDo expected{StartDo::wait};
    const char* reason{""};
    bool quorum{true};
    bool mark{false};
    bool first{true};
    Owner owner{Owner::mine};
};

StartFacts facts_of(const Row& row) {
    StartFacts facts;
    facts.has_record = row.record;
    facts.learner_mark = row.mark;
    facts.list = row.list;
    facts.quorum_without_me = row.quorum;
    facts.data.state = row.data;
    facts.data.reason = row.data == State::missing || row.data == State::valid ? "" : "db: torn";
    facts.owner.message = row.owner == Owner::foreign ? "it is somebody else's" : "";
    facts.owner.owner = row.owner;
    facts.store = row.store;
    facts.replicas = row.replicas;
    facts.first = row.first;
    return facts;
}

class StartTable : public testing::TestWithParam<Row> {};

TEST_P(StartTable, Decides) {
    const StartDecision decision = decide_start(facts_of(GetParam()));
    EXPECT_EQ(decision.what, GetParam().expected);
    EXPECT_EQ(decision.reason, GetParam().reason);
    EXPECT_EQ(decision.message.empty(), decision.reason.empty());
}

constexpr auto kGone = List::unreachable;
constexpr auto kMissing = State::missing;
constexpr auto kInvalid = State::invalid;
constexpr auto kValid = State::valid;
const auto kName = [](const auto& row) { return row.param.name; };

INSTANTIATE_TEST_SUITE_P(
    Listed,
    StartTable,
    testing::Values(
        Row{"valid", true, List::member, kValid, Store::none, 3, StartDo::start},
        Row{"valid_no_record", false, List::member, kValid, Store::none, 3, StartDo::start},
        Row{"missing",
            true,
            List::member,
            kMissing,
            Store::none,
            3,
            StartDo::rejoin_learner,
            "DataInvalid"},
        Row{"invalid",
            false,
            List::member,
            kInvalid,
            Store::none,
            3,
            StartDo::rejoin_learner,
            "DataInvalid"},
        Row{"invalid_without_quorum",
            true,
            List::member,
            kInvalid,
            Store::has_backups,
            3,
            StartDo::wait,
            "NoQuorumWithoutMember",
            false},
        Row{"earlier_life",
            true,
            List::member,
            kValid,
            Store::none,
            3,
            StartDo::rejoin_learner,
            "DataInvalid",
            true,
            false,
            true,
            Owner::earlier_life},
        Row{"never_started_missing",
            false,
            List::member_never_started,
            kMissing,
            Store::none,
            3,
            StartDo::join},
        Row{"never_started_valid",
            false,
            List::member_never_started,
            kValid,
            Store::none,
            3,
            StartDo::start},
        Row{"never_started_invalid",
            false,
            List::member_never_started,
            kInvalid,
            Store::none,
            3,
            StartDo::rejoin_learner,
            "DataInvalid"},
        Row{"never_started_with_record",
            true,
            List::member_never_started,
            kMissing,
            Store::none,
            3,
            StartDo::rejoin_learner,
            "DataInvalid"},
        Row{"learner_valid",
            true,
            List::learner,
            kValid,
            Store::none,
            3,
            StartDo::start,
            "",
            true,
            true},
        // what it acknowledged is gone: the leader must begin anew with it
        Row{"learner_missing",
            false,
            List::learner,
            kMissing,
            Store::none,
            3,
            StartDo::rejoin_learner,
            "DataInvalid",
            false,
            true},
        Row{"learner_invalid",
            true,
            List::learner,
            kInvalid,
            Store::none,
            3,
            StartDo::rejoin_learner,
            "DataInvalid",
            false,
            true},
        Row{"not_listed",
            true,
            List::not_member,
            kValid,
            Store::none,
            3,
            StartDo::become_learner,
            "NotAMember"},
        Row{"not_listed_new",
            false,
            List::not_member,
            kMissing,
            Store::none,
            3,
            StartDo::become_learner,
            "NotAMember",
            true,
            true},
        Row{"not_listed_with_backups",
            false,
            List::not_member,
            kMissing,
            Store::has_backups,
            3,
            StartDo::become_learner,
            "NotAMember"}),
    kName);

INSTANTIATE_TEST_SUITE_P(
    Alone,
    StartTable,
    testing::Values(
        Row{"whole_cluster_restart", true, kGone, kValid, Store::none, 3, StartDo::start},
        Row{"whole_cluster_restart_no_record",
            false,
            kGone,
            kValid,
            Store::none,
            3,
            StartDo::start},
        Row{"valid_whatever_the_store", true, kGone, kValid, Store::unreachable, 1, StartDo::start},
        Row{"learner_restart", true, kGone, kValid, Store::none, 3, StartDo::start, "", true, true},
        Row{"lost_no_store", true, kGone, kMissing, Store::none, 1, StartDo::fail, "DataLost"},
        Row{"lost_empty_store", true, kGone, kMissing, Store::empty, 1, StartDo::fail, "NoBackups"},
        Row{"lost_with_backups",
            true,
            kGone,
            kMissing,
            Store::has_backups,
            1,
            StartDo::restore,
            "DataInvalid"},
        Row{"lost_store_down",
            true,
            kGone,
            kMissing,
            Store::unreachable,
            1,
            StartDo::wait,
            "StoreUnreachable"},
        Row{"lost_backups_of_another",
            true,
            kGone,
            kMissing,
            Store::foreign,
            1,
            StartDo::wait,
            "StoreHeldByAnotherEtcd"},
        Row{"damaged_with_backups",
            true,
            kGone,
            kInvalid,
            Store::has_backups,
            1,
            StartDo::restore,
            "DataInvalid"},
        Row{"damaged_no_record_with_backups",
            false,
            kGone,
            kInvalid,
            Store::has_backups,
            1,
            StartDo::restore,
            "DataInvalid"},
        Row{"damaged_no_record_no_store",
            false,
            kGone,
            kInvalid,
            Store::none,
            1,
            StartDo::fail,
            "DataInvalid"},
        Row{"lost_among_three",
            true,
            kGone,
            kInvalid,
            Store::none,
            3,
            StartDo::wait,
            "WaitingForCluster"},
        Row{"lost_among_three_with_backups",
            true,
            kGone,
            kMissing,
            Store::has_backups,
            3,
            StartDo::wait,
            "WaitingForCluster"},
        Row{"foreign_leftovers",
            false,
            kGone,
            kInvalid,
            Store::none,
            3,
            StartDo::fail,
            "DataInvalid"},
        Row{"marked_waits",
            false,
            kGone,
            kMissing,
            Store::none,
            3,
            StartDo::wait,
            "WaitingToJoinAsLearner",
            true,
            true},
        Row{"marked_waits_with_backups",
            false,
            kGone,
            kMissing,
            Store::has_backups,
            3,
            StartDo::wait,
            "WaitingToJoinAsLearner",
            true,
            true},
        Row{"marked_waits_with_record",
            true,
            kGone,
            kInvalid,
            Store::none,
            3,
            StartDo::wait,
            "WaitingToJoinAsLearner",
            true,
            true}),
    kName);

INSTANTIATE_TEST_SUITE_P(
    First,
    StartTable,
    testing::Values(
        Row{"one", false, kGone, kMissing, Store::none, 1, StartDo::bootstrap},
        Row{"three", false, kGone, kMissing, Store::none, 3, StartDo::bootstrap},
        Row{"three_empty_store", false, kGone, kMissing, Store::empty, 3, StartDo::bootstrap},
        Row{"three_store_down",
            false,
            kGone,
            kMissing,
            Store::unreachable,
            3,
            StartDo::wait,
            "StoreUnreachable"},
        Row{"one_with_backups_of_another",
            false,
            kGone,
            kMissing,
            Store::foreign,
            1,
            StartDo::wait,
            "StoreHeldByAnotherEtcd"},
        Row{"one_with_backups",
            false,
            kGone,
            kMissing,
            Store::has_backups,
            1,
            StartDo::restore,
            "BackupsFound"},
        Row{"first_of_three_with_backups",
            false,
            kGone,
            kMissing,
            Store::has_backups,
            3,
            StartDo::restore,
            "BackupsFound"},
        Row{"second_of_three_with_backups",
            false,
            kGone,
            kMissing,
            Store::has_backups,
            3,
            StartDo::wait,
            "WaitingForRestoration",
            true,
            false,
            false}),
    kName);

INSTANTIATE_TEST_SUITE_P(
    Untouchable,
    StartTable,
    testing::Values(
        Row{"in_use", true, kGone, State::in_use, Store::none, 1, StartDo::wait, "DataInUse"},
        Row{"foreign",
            true,
            kGone,
            kValid,
            Store::has_backups,
            1,
            StartDo::wait,
            "VolumeMismatch",
            true,
            false,
            true,
            Owner::foreign},
        Row{"foreign_listed",
            true,
            List::member,
            kValid,
            Store::none,
            3,
            StartDo::wait,
            "VolumeMismatch",
            true,
            false,
            true,
            Owner::foreign},
        Row{"foreign_damaged",
            true,
            List::not_member,
            kInvalid,
            Store::none,
            3,
            StartDo::wait,
            "VolumeMismatch",
            true,
            false,
            true,
            Owner::foreign}),
    kName);

template <class Visit>
void for_all_facts(const Visit& visit) {
    for (const bool record : {false, true}) {
        for (const bool mark : {false, true}) {
            for (const List list : {List::unreachable,
                                    List::member,
                                    List::member_never_started,
                                    List::learner,
                                    List::not_member}) {
                for (const State data : {State::missing,
                                         State::valid,
                                         State::invalid,
                                         State::in_use,
                                         State::unreadable}) {
                    for (const Store store : {Store::none,
                                              Store::unreachable,
                                              Store::empty,
                                              Store::has_backups,
                                              Store::foreign}) {
                        for (const std::int64_t replicas : {1, 3}) {
                            for (const Owner owner : {Owner::unknown,
                                                      Owner::mine,
                                                      Owner::earlier_life,
                                                      Owner::foreign}) {
                                Row row{"", record, list, data, store, replicas};
                                row.mark = mark;
                                row.owner = owner;
                                row.quorum = replicas == 3;
                                visit(facts_of(row));
                            }
                        }
                    }
                }
            }
        }
    }
}

// Whatever is unknown, data that may be the last copy is never replaced by an empty cluster.
TEST(StartPlan, BootstrapsOnlyWhereNothingEverWas) {
    for_all_facts([](const StartFacts& facts) {
        if (decide_start(facts).what == StartDo::bootstrap) {
            EXPECT_TRUE(!facts.has_record && !facts.learner_mark &&
                        facts.list == List::unreachable && facts.data.state == State::missing &&
                        (facts.store == Store::none || facts.store == Store::empty));
        }
    });
}

TEST(StartPlan, RestoresOnlyWhereNobodyElseCanHaveTheData) {
    for_all_facts([](const StartFacts& facts) {
        if (decide_start(facts).what == StartDo::restore) {
            EXPECT_TRUE(facts.list == List::unreachable && facts.store == Store::has_backups &&
                        !usable(facts) && !facts.learner_mark &&
                        (facts.replicas == 1 || (!facts.has_record && facts.first)));
        }
    });
}

TEST(StartPlan, RestoresNothingWhereAnotherMemberRan) {
    for_all_facts([](StartFacts facts) {
        const bool asked = needs_others(facts);
        const StartDo alone = decide_start(facts).what;
        facts.other_ran = "main-1";
        EXPECT_EQ(decide_start(facts).what, asked ? StartDo::wait : alone);
    });
}

TEST(StartPlan, LeavesWhatIsInUseUnreadableOrForeignAlone) {
    for_all_facts([](const StartFacts& facts) {
        if (facts.data.state == State::in_use || facts.data.state == State::unreadable ||
            facts.owner.owner == Owner::foreign) {
            EXPECT_EQ(decide_start(facts).what, StartDo::wait);
        }
    });
}

TEST(StartPlan, StartsOnlyWithUsableData) {
    for_all_facts([](const StartFacts& facts) {
        if (decide_start(facts).what == StartDo::start) {
            EXPECT_TRUE(usable(facts));
        }
    });
}

TEST(StartPlan, LooksAtTheStoreWheneverTheDecisionHangsOnIt) {
    for_all_facts([](const StartFacts& facts) {
        if (needs_store(facts)) {
            return;
        }
        for (const Store other :
             {Store::none, Store::unreachable, Store::empty, Store::has_backups, Store::foreign}) {
            StartFacts changed = facts;
            changed.store = other;
            EXPECT_EQ(decide_start(changed).what, decide_start(facts).what);
        }
    });
}

}  // namespace
}  // namespace capstan::steward
