#include "plugins/etcd/rollout.hpp"

#include "plugins/etcd/cluster.hpp"

#include <gtest/gtest.h>

namespace capstan::etcd {
namespace {

// One letter pair per member: what it was told, and how it stands.
//   told: 'a' the old hash, 'b' the new one, '-' no EtcdMember
//   stands: 'L' leads, 'F' follows (both with what it was told), 'o' started with the other hash,
//          '.' not started
struct RolloutRow {
    const char* name;
    const char* members;
    const char* told_next;  // per member
    const char* waiting_for;
};

class RolloutTest : public testing::TestWithParam<RolloutRow> {};

TEST_P(RolloutTest, TellsTheRightMembers) {
    const std::string text = GetParam().members;
    std::vector<api::EtcdMember> members;
    std::vector<std::string> names;
    std::vector<std::string> targets;
    for (std::size_t i = 0; i * 3 < text.size(); ++i) {
        names.push_back("m" + std::to_string(i));
        targets.push_back("b");
        const char told = text[i * 3];
        const char stands = text[i * 3 + 1];
        if (told == '-') {
            continue;
        }
        api::EtcdMember member;
        member.metadata.name = names.back();
        member.metadata.annotations[std::string(kAnnotationConfigHash)] = std::string(1, told);
        if (stands != '.') {
            member.status.emplace();
            member.status->config_hash =
                std::string(1, stands == 'o' ? (told == 'a' ? 'b' : 'a') : told);
            member.status->transitions.emplace_back();
            member.status->transitions.back().state = api::MemberState::started;
            member.status->transitions.back().sub_state =
                stands == 'L' ? api::MemberSubState::leader : api::MemberSubState::follower;
        }
        members.push_back(member);
    }
    const Rollout rollout = plan_rollout(members, names, targets);
    std::string told_next;
    for (const std::string& hash : rollout.hashes) {
        told_next += hash;
    }
    EXPECT_EQ(told_next, GetParam().told_next);
    EXPECT_EQ(rollout.waiting_for, GetParam().waiting_for);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    RolloutTest,
    testing::Values(RolloutRow{"new_cluster", "-. -. -. ", "bbb", ""},
                    RolloutRow{"not_started_yet_is_not_awaited", "b. b. b. ", "bbb", ""},
                    RolloutRow{"all_done", "bL bF bF ", "bbb", ""},
                    RolloutRow{"first_follower", "aL aF aF ", "aba", "m1"},
                    RolloutRow{"waits_while_it_restarts", "aL bo aF ", "aba", "m1"},
                    RolloutRow{"waits_while_it_is_down", "aL b. aF ", "aba", "m1"},
                    RolloutRow{"second_follower", "aL bF aF ", "abb", "m2"},
                    RolloutRow{"leader_last", "aL bF bF ", "bbb", "m0"},
                    RolloutRow{"last_one_is_awaited", "bo bF bL ", "bbb", "m0"},
                    RolloutRow{"the_unwell_first", "aL aF a. ", "aab", "m2"},
                    RolloutRow{"no_quorum_tells_all_unwell", "a. a. aF ", "bba", "m0"},
                    RolloutRow{"nobody_started", "a. a. a. ", "bbb", "m0"},
                    RolloutRow{"single_member", "aL ", "b", "m0"},
                    RolloutRow{"added_member_starts_with_target_but_holds_up_others",
                               "aL -. -. ",
                               "abb",
                               "m1"}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace capstan::etcd
