#include "runtime/plugin/gates.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace capstan::plugin {
namespace {

GateTable parsed(std::string_view text, Problems& problems) {
    return GateTable::parse(json::parse(text).value(), "/featureGates", problems);
}

constexpr std::string_view kGates = R"({
    "Member": [{"since":"1.3","stage":"Alpha","default":false},{"since":"1.4","stage":"Beta","default":true}],
    "Sealed": [{"since":"1.0","stage":"GA","default":true,"locked":true}],
    "Gone": [{"since":"1.0","stage":"Beta","default":true},{"since":"1.4","stage":"Removed","default":true}],
    "Extra": [{"since":"1.3","stage":"Alpha","default":false,"dependsOn":["Member"]}]})";

TEST(Gates, FollowTheVersionTheyAreAskedFor) {
    Problems problems;
    const GateTable table = parsed(kGates, problems);
    ASSERT_TRUE(problems.empty()) << problems.lines().front();
    EXPECT_EQ(table.effective({1, 2, 0}).set.enabled("Member"), std::nullopt);
    EXPECT_EQ(table.effective({1, 3, 9}).set.enabled("Member"), false);
    EXPECT_EQ(table.effective({1, 4, 0}).set.enabled("Member"), true);
    EXPECT_EQ(table.effective({1, 4, 0}).set.enabled("Nope"), std::nullopt);
}

struct OverrideRow {
    const char* name;
    std::vector<GateOverride> overrides;
    const char* error;    // "": none
    const char* warning;  // "": none
};
std::ostream& operator<<(std::ostream& out, const OverrideRow& row) {
    return out << row.name;
}
class GateOverrides : public testing::TestWithParam<OverrideRow> {};

TEST_P(GateOverrides, AreAcceptedOrExplained) {
    Problems problems;
    const GateResult result = parsed(kGates, problems).effective({1, 4, 0}, GetParam().overrides);
    EXPECT_EQ(result.errors.empty() ? "" : result.errors.front(), GetParam().error);
    EXPECT_EQ(result.warnings.empty() ? "" : result.warnings.front(), GetParam().warning);
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    GateOverrides,
    testing::Values(OverrideRow{"none", {}, "", ""},
                    OverrideRow{"off", {{"Member", false}}, "", ""},
                    OverrideRow{"unknown",
                                {{"Nope", true}},
                                "unknown feature gate Nope; known are Extra, Gone, Member, Sealed",
                                ""},
                    OverrideRow{
                        "locked", {{"Sealed", false}}, "feature gate Sealed is locked to true", ""},
                    OverrideRow{"locked_to_its_value",
                                {{"Sealed", true}},
                                "",
                                "feature gate Sealed is GA and will be removed; do not set it"},
                    OverrideRow{"removed",
                                {{"Gone", false}},
                                "",
                                "feature gate Gone was removed and does nothing any more"},
                    OverrideRow{"dependency",
                                {{"Extra", true}, {"Member", false}},
                                "feature gate Extra is on and needs Member, which is off",
                                ""},
                    OverrideRow{"dependency_met", {{"Extra", true}}, "", ""}));

TEST(Gates, SayWhatIsNotDoneWhileTheyAreOff) {
    Problems problems;
    const GateTable table = parsed(
        R"({"Member": [{"since":"1.3","stage":"Alpha","default":false,"whenOff":"nothing is built"},
                       {"since":"1.5","stage":"Beta","default":true}],
            "Silent": [{"since":"1.0","stage":"Alpha","default":false}]})",
        problems);
    ASSERT_TRUE(problems.empty()) << problems.lines().front();
    const auto notes = [&table](const Version& version,
                                const std::vector<GateOverride>& overrides) {
        return table.off_notes(version, table.effective(version, overrides).set);
    };
    EXPECT_EQ(notes({1, 3, 0}, {}),
              (std::vector<std::string>{"gate Member is off: nothing is built"}));
    EXPECT_TRUE(notes({1, 3, 0}, {{"Member", true}}).empty());
    EXPECT_TRUE(notes({1, 2, 0}, {}).empty()) << "younger than that";
    EXPECT_TRUE(notes({1, 5, 0}, {{"Member", false}}).empty()) << "it says nothing any more";
    parsed(R"({"A": [{"since":"1.0","stage":"Alpha","default":false,"whenOff":""}]})", problems);
    ASSERT_EQ(problems.lines().size(), 1u);
    EXPECT_EQ(problems.lines()[0],
              "/featureGates/A/0/whenOff: expected a sentence of at most 256 bytes");
}

TEST(Gates, StageOverridesSpareTheGatesNamed) {
    Problems problems;
    const GateTable table = parsed(kGates, problems);
    EXPECT_EQ(table.effective({1, 3, 0}, {{"AllAlpha", true}}).set.enabled("Member"), true);
    const GateSet set = table.effective({1, 4, 0}, {{"AllBeta", false}, {"Member", true}}).set;
    EXPECT_EQ(set.enabled("Member"), true);
    EXPECT_EQ(table.effective({1, 4, 0}, {{"AllBeta", false}}).set.enabled("Member"), false);
}

struct HistoryRow {
    const char* name;
    const char* gates;
    const char* problem;
};
std::ostream& operator<<(std::ostream& out, const HistoryRow& row) {
    return out << row.name;
}
class RefusedGates : public testing::TestWithParam<HistoryRow> {};

TEST_P(RefusedGates, NameThePlace) {
    Problems problems;
    parsed(GetParam().gates, problems);
    ASSERT_FALSE(problems.empty());
    EXPECT_EQ(problems.lines().front(), GetParam().problem);
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    RefusedGates,
    testing::Values(
        HistoryRow{"alpha_on",
                   R"({"A":[{"since":"1.0","stage":"Alpha","default":true}]})",
                   "/featureGates/A/0/default: an Alpha gate is off by default"},
        HistoryRow{
            "falling",
            R"({"A":[{"since":"1.2","stage":"Alpha","default":false},{"since":"1.1","stage":"Beta","default":true}]})",
            "/featureGates/A/1/since: versions must rise"},
        HistoryRow{
            "regression",
            R"({"A":[{"since":"1.0","stage":"Beta","default":true},{"since":"1.1","stage":"Alpha","default":false}]})",
            "/featureGates/A/1/stage: a stage never goes back (Beta before)"},
        HistoryRow{
            "unlocked",
            R"({"A":[{"since":"1.0","stage":"GA","default":true,"locked":true},{"since":"1.1","stage":"GA","default":true}]})",
            "/featureGates/A/1/locked: a locked gate is never unlocked or turned over"},
        HistoryRow{"locked_beta",
                   R"({"A":[{"since":"1.0","stage":"Beta","default":true,"locked":true}]})",
                   "/featureGates/A/0/locked: only GA, Deprecated and Removed gates are locked"},
        HistoryRow{"unknown_stage",
                   R"({"A":[{"since":"1.0","stage":"Gamma","default":true}]})",
                   "/featureGates/A/0/stage: expected Alpha, Beta, GA, Deprecated or Removed"},
        HistoryRow{"incomplete",
                   R"({"A":[{"since":"1.0","stage":"GA"}]})",
                   "/featureGates/A/0: needs \"since\", \"stage\" and \"default\""},
        HistoryRow{
            "lower_stage",
            R"({"A":[{"since":"1.0","stage":"Beta","default":false,"dependsOn":["B"]}], "B":[{"since":"1.0","stage":"Alpha","default":false}]})",
            "/featureGates/A/0/dependsOn: depends on B, which has a lower stage"},
        HistoryRow{
            "lower_default",
            R"({"A":[{"since":"1.0","stage":"Beta","default":true,"dependsOn":["B"]}], "B":[{"since":"1.0","stage":"Beta","default":false}]})",
            "/featureGates/A/0/dependsOn: is on by default and depends on B, which is off"},
        HistoryRow{
            "circle",
            R"({"A":[{"since":"1.0","stage":"Alpha","default":false,"dependsOn":["B"]}], "B":[{"since":"1.0","stage":"Alpha","default":false,"dependsOn":["A"]}]})",
            "/featureGates: the dependencies of gate A form a circle"}));

}  // namespace
}  // namespace capstan::plugin
