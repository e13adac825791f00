#include "runtime/plugin/policy.hpp"

#include <gtest/gtest.h>

#include <string>

namespace capstan::plugin {
namespace {

std::string joined(const std::vector<std::string>& texts) {
    std::string all;
    for (const std::string& text : texts) {
        all += (all.empty() ? "" : ",") + text;
    }
    return all;
}

std::string shown(const std::vector<PermissionRule>& rules) {
    std::string all;
    for (const PermissionRule& rule : rules) {
        all += joined(rule.groups) + "/" + joined(rule.resources) + ":" + joined(rule.verbs) +
               (rule.resource_names.empty() ? "" : "=" + joined(rule.resource_names)) + ";";
    }
    return all;
}

struct Row {
    const char* name;
    PermissionRule rule;
    PermissionRule policy;
    const char* left;
};

class PolicyNarrows : public testing::TestWithParam<Row> {};

TEST_P(PolicyNarrows, ToWhatBothAllow) {
    EXPECT_EQ(shown(narrow({GetParam().rule}, {GetParam().policy})), GetParam().left);
}

const PermissionRule kRule{{"apps"}, {"statefulsets", "deployments"}, {"get", "patch"}, {}};

INSTANTIATE_TEST_SUITE_P(Rows,
                         PolicyNarrows,
                         testing::Values(Row{"everything",
                                             kRule,
                                             {{"*"}, {"*"}, {"*"}, {}},
                                             "apps/statefulsets,deployments:get,patch;"},
                                         Row{"verbs",
                                             kRule,
                                             {{"apps"}, {"*"}, {"get", "list"}, {}},
                                             "apps/statefulsets,deployments:get;"},
                                         Row{"resources",
                                             kRule,
                                             {{"*"}, {"statefulsets"}, {"*"}, {}},
                                             "apps/statefulsets:get,patch;"},
                                         Row{"other_group", kRule, {{""}, {"*"}, {"*"}, {}}, ""},
                                         Row{"names",
                                             kRule,
                                             {{"*"}, {"*"}, {"get"}, {"a"}},
                                             "apps/statefulsets,deployments:get=a;"},
                                         Row{"names_on_both_sides",
                                             {{""}, {"secrets"}, {"get"}, {"a", "b"}},
                                             {{""}, {"secrets"}, {"get"}, {"b", "c"}},
                                             "/secrets:get=b;"},
                                         Row{"no_name_is_not_every_name",
                                             {{""}, {"secrets"}, {"get"}, {"a"}},
                                             {{""}, {"secrets"}, {"get"}, {"b"}},
                                             ""}),
                         [](const auto& row) { return row.param.name; });

TEST(Policy, RulesAddUp) {
    EXPECT_EQ(shown(narrow({kRule},
                           {{{"apps"}, {"statefulsets"}, {"get"}, {}},
                            {{"apps"}, {"deployments"}, {"patch"}, {}}})),
              "apps/statefulsets:get;apps/deployments:patch;");
    EXPECT_EQ(shown(narrow({kRule}, {})), "") << "an empty policy permits nothing";
}

TEST(Policy, SaysWhichWatchItForbids) {
    Manifest manifest;
    manifest.permissions = {{{"apps"}, {"statefulsets"}, {"get", "list", "watch"}, {}}};
    manifest.controllers.emplace_back();
    manifest.controllers[0].watches.emplace_back();
    manifest.controllers[0].watches[0].gvk = {"apps", "v1", "StatefulSet"};
    EXPECT_TRUE(policy_problems(manifest, {{{"*"}, {"*"}, {"*"}, {}}}).empty());
    EXPECT_EQ(policy_problems(manifest, {{{"*"}, {"*"}, {"get", "list"}, {}}}),
              (std::vector<std::string>{
                  "/controllers/0/watches: watches apps/v1/StatefulSet without the permission to "
                  "watch statefulsets of group \"apps\""}));
}

}  // namespace
}  // namespace capstan::plugin
