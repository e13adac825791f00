#include "runtime/local/apiserver/rbac.hpp"

#include <gtest/gtest.h>

#include <map>

namespace capstan::local {
namespace {

json::Value parse(const std::string& text) {
    auto value = json::parse(text);
    EXPECT_TRUE(value.has_value()) << text;
    return value ? std::move(value).value() : json::Value();
}

// A few roles in the namespace "ns", and the bootstrap ones.
class World {
public:
    World() {
        for (json::Value& object : bootstrap_rbac()) {
            const std::string name =
                std::string(json::View(object)["metadata"]["name"].string_or(""));
            const bool role = json::View(object)["kind"].string_or("") == "ClusterRole";
            (role ? cluster_roles_ : cluster_bindings_).emplace(name, std::move(object));
        }
        add_role("reader",
                 R"([{"apiGroups":[""],"resources":["pods"],"verbs":["get","list"]}])",
                 R"({"kind":"User","name":"ann"})");
        add_role("logs",
                 R"([{"apiGroups":[""],"resources":["pods/log","*/scale"],"verbs":["get"]}])",
                 R"({"kind":"User","name":"ann"})");
        add_role(
            "named",
            R"([{"apiGroups":[""],"resources":["secrets"],"resourceNames":["a"],"verbs":["get"]}])",
            R"({"kind":"ServiceAccount","name":"sa","namespace":"ns"})");
        add_role("wild",
                 R"([{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}])",
                 R"({"kind":"Group","name":"chiefs"})");
        add_role(
            "binder",
            R"([{"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"],"verbs":["bind","escalate"]}])",
            R"({"kind":"User","name":"bob"})");
    }

    RbacObjects objects() const {
        return {
            [this](const RbacObjects::Visit& visit) { each(cluster_bindings_, visit); },
            [this](std::string_view ns, const RbacObjects::Visit& visit) {
                if (ns == "ns") {
                    each(bindings_, visit);
                }
            },
            [this](std::string_view name) { return get(cluster_roles_, name); },
            [this](std::string_view ns, std::string_view name) {
                return ns == "ns" ? get(roles_, name) : nullptr;
            },
        };
    }

private:
    using Map = std::map<std::string, json::Value, std::less<>>;
    void add_role(const std::string& name, const std::string& rules, const std::string& subject) {
        roles_[name] = parse(R"({"rules":)" + rules + "}");
        bindings_[name] = parse(R"({"roleRef":{"kind":"Role","name":")" + name +
                                R"("},"subjects":[)" + subject + "]}");
    }
    static void each(const Map& map, const RbacObjects::Visit& visit) {
        for (const auto& [name, object] : map) {
            if (!visit(object)) {
                return;
            }
        }
    }
    static const json::Value* get(const Map& map, std::string_view name) {
        const auto found = map.find(name);
        return found == map.end() ? nullptr : &found->second;
    }
    Map cluster_roles_, cluster_bindings_, roles_, bindings_;
};

User user(const std::string& name) {
    return {name, {std::string(kGroupAuthenticated)}};
}
const User kAdmin{"root", {std::string(kGroupMasters)}};
const User kChief{"carl", {"chiefs"}};

struct AuthorizeRow {
    const char* name;
    User who;
    AuthzAttributes what;
    bool allowed;
};

class Authorize : public testing::TestWithParam<AuthorizeRow> {};
TEST_P(Authorize, Answers) {
    const World world;
    EXPECT_EQ(authorize(world.objects(), GetParam().who, GetParam().what), GetParam().allowed);
}

AuthzAttributes on(const char* verb,
                   const char* resource,
                   const char* sub = "",
                   const char* ns = "ns",
                   const char* name = "",
                   const char* group = "") {
    return {verb, group, resource, sub, ns, name, ""};
}
AuthzAttributes at(const char* verb, const char* path) {
    return {verb, "", "", "", "", "", path};
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    Authorize,
    testing::Values(
        AuthorizeRow{"masters", kAdmin, on("delete", "secrets"), true},
        AuthorizeRow{"held", user("ann"), on("get", "pods"), true},
        AuthorizeRow{"verb_not_held", user("ann"), on("delete", "pods"), false},
        AuthorizeRow{"other_group", user("ann"), on("get", "pods", "", "ns", "", "apps"), false},
        AuthorizeRow{"other_namespace", user("ann"), on("get", "pods", "", "other"), false},
        AuthorizeRow{"cluster_scope", user("ann"), on("list", "pods", "", ""), false},
        AuthorizeRow{
            "resource_is_not_subresource", user("ann"), on("get", "pods", "status"), false},
        AuthorizeRow{"subresource", user("ann"), on("get", "pods", "log"), true},
        AuthorizeRow{
            "any_resource_subresource", user("ann"), on("get", "statefulsets", "scale"), true},
        AuthorizeRow{"account_named",
                     service_account_user("ns", "sa"),
                     on("get", "secrets", "", "ns", "a"),
                     true},
        AuthorizeRow{"account_other_name",
                     service_account_user("ns", "sa"),
                     on("get", "secrets", "", "ns", "b"),
                     false},
        AuthorizeRow{"account_list_without_name",
                     service_account_user("ns", "sa"),
                     on("get", "secrets"),
                     false},
        AuthorizeRow{"account_of_other_namespace",
                     service_account_user("x", "sa"),
                     on("get", "secrets", "", "ns", "a"),
                     false},
        AuthorizeRow{
            "user_named_like_account", user("sa"), on("get", "secrets", "", "ns", "a"), false},
        AuthorizeRow{"wildcards",
                     kChief,
                     on("patch", "etcds", "status", "ns", "m", "druid.gardener.cloud"),
                     true},
        AuthorizeRow{"discovery", user("eve"), at("get", "/apis/apps/v1"), true},
        AuthorizeRow{"discovery_anonymous",
                     {"system:anonymous", {"system:unauthenticated"}},
                     at("get", "/apis"),
                     false},
        AuthorizeRow{"health_anonymous",
                     {"system:anonymous", {"system:unauthenticated"}},
                     at("get", "/healthz"),
                     true},
        AuthorizeRow{"metrics_need_a_rule", user("eve"), at("get", "/metrics"), false},
        AuthorizeRow{"review",
                     user("eve"),
                     on("create", "selfsubjectaccessreviews", "", "", "", "authorization.k8s.io"),
                     true}),
    [](const auto& param) { return param.param.name; });

TEST(ForbiddenText, ReadsAsTheApiServers) {
    EXPECT_EQ(
        forbidden_text(user("u"), on("get", "pods", "log", "ns", "x")),
        R"(pods "x" is forbidden: User "u" cannot get resource "pods/log" in API group "" in the namespace "ns")");
    EXPECT_EQ(
        forbidden_text(user("u"), on("list", "etcds", "", "", "", "d.io")),
        R"(etcds.d.io is forbidden: User "u" cannot list resource "etcds" in API group "d.io" at the cluster scope)");
    EXPECT_EQ(forbidden_text(user("u"), at("get", "/x")),
              R"(forbidden: User "u" cannot get path "/x")");
}

struct EscalateRow {
    const char* name;
    User who;
    const char* rules;
    std::vector<std::string> missing;
};

class Escalate : public testing::TestWithParam<EscalateRow> {};
TEST_P(Escalate, HolderMustHaveWhatItGrants) {
    const World world;
    const json::Value role =
        parse(std::string(R"({"metadata":{"name":"new"},"rules":)") + GetParam().rules + "}");
    EXPECT_EQ(escalation_of_role(world.objects(), GetParam().who, role, "ns"), GetParam().missing);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    Escalate,
    testing::Values(
        EscalateRow{"held",
                    user("ann"),
                    R"([{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}])",
                    {}},
        EscalateRow{"one_verb_more",
                    user("ann"),
                    R"([{"apiGroups":[""],"resources":["pods"],"verbs":["get","delete"]}])",
                    {R"({APIGroups:[""], Resources:["pods"], Verbs:["delete"]})"}},
        EscalateRow{"all_verbs",
                    user("ann"),
                    R"([{"apiGroups":[""],"resources":["pods"],"verbs":["*"]}])",
                    {R"({APIGroups:[""], Resources:["pods"], Verbs:["*"]})"}},
        EscalateRow{"all_resources",
                    user("ann"),
                    R"([{"apiGroups":[""],"resources":["*"],"verbs":["get"]}])",
                    {R"({APIGroups:[""], Resources:["*"], Verbs:["get"]})"}},
        EscalateRow{"named_only",
                    service_account_user("ns", "sa"),
                    R"([{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}])",
                    {R"({APIGroups:[""], Resources:["secrets"], Verbs:["get"]})"}},
        EscalateRow{
            "same_name",
            service_account_user("ns", "sa"),
            R"([{"apiGroups":[""],"resources":["secrets"],"resourceNames":["a"],"verbs":["get"]}])",
            {}},
        EscalateRow{"escalate_verb",
                    user("bob"),
                    R"([{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}])",
                    {}},
        EscalateRow{
            "chief", kChief, R"([{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}])", {}},
        EscalateRow{"urls",
                    user("ann"),
                    R"([{"nonResourceURLs":["/metrics"],"verbs":["get"]}])",
                    {R"({NonResourceURLs:["/metrics"], Verbs:["get"]})"}}),
    [](const auto& param) { return param.param.name; });

TEST(EscalateBinding, ChecksTheRoleItNames) {
    const World world;
    const json::Value wild = parse(R"({"roleRef":{"kind":"Role","name":"wild"}})");
    const json::Value reader = parse(R"({"roleRef":{"kind":"Role","name":"reader"}})");
    const json::Value absent = parse(R"({"roleRef":{"kind":"Role","name":"absent"}})");
    EXPECT_EQ(escalation_of_binding(world.objects(), user("ann"), wild, "ns").size(), 1u);
    EXPECT_TRUE(escalation_of_binding(world.objects(), user("ann"), reader, "ns").empty());
    EXPECT_TRUE(escalation_of_binding(world.objects(), user("bob"), wild, "ns").empty())
        << "has the bind verb";
    EXPECT_EQ(escalation_of_binding(world.objects(), user("ann"), absent, "ns").size(), 1u);
}

TEST(EscalateRole, RefusesMoreRightsThanItCanCheck) {
    json::Value names = json::list();
    for (int i = 0; i < 20'000; ++i) {
        names.push_back(std::to_string(i));
    }
    const World world;
    const json::Value role = {
        {"rules",
         json::list({{{"apiGroups", json::list({""})},
                      {"resources", json::list({"pods"})},
                      {"resourceNames", names},
                      {"verbs", json::list({"get"})}}})},
    };
    EXPECT_EQ(escalation_of_role(world.objects(), user("ann"), role, "ns").size(), 1u);
}

}  // namespace
}  // namespace capstan::local
