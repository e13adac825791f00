// The whole etcd plugin behind its C entry, against objects in memory.
#include "test/controllers/memory_host.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace capstan::test {
namespace {

const GroupVersionKind kEtcd{"druid.gardener.cloud", "v1alpha1", "Etcd"};
const ObjectKey kKey{"shop", "main"};

json::Value manifest(int replicas) {
    return {
        {"apiVersion", "druid.gardener.cloud/v1alpha1"},
        {"kind", "Etcd"},
        {"metadata", {{"name", "main"}, {"namespace", "shop"}}},
        {"spec",
         {
             {"replicas", replicas},
             {"labels", {{"app", "main"}}},
             {"etcd", json::object()},
             {"backup", json::object()},
         }},
    };
}

struct Fixture {
    MemoryHost host{"capstan-etcd"};

    explicit Fixture(int replicas) {
        host.now = *parse_rfc3339("2026-01-01T12:00:00Z");
        host.gates.insert("EtcdMember");
        host.store.put(manifest(replicas));
        EXPECT_TRUE(host.load(capstan_plugin_entry, json::object()));
    }
    Pass pass() {
        host.now += std::chrono::seconds{1};
        return host.reconcile("etcd", kEtcd, kKey);
    }
    const json::Value* etcd() const { return host.store.find("druid.gardener.cloud/Etcd", kKey); }
    json::View status() const { return json::View(*etcd())["status"]; }
    void delete_etcd() {
        const json::View meta = json::View(*etcd())["metadata"];
        EXPECT_TRUE(host.store.remove("druid.gardener.cloud/Etcd",
                                      kKey,
                                      meta["uid"].string_or(""),
                                      meta["resourceVersion"].string_or("")));
    }
};

// Everything there is, but for the token.
std::string world_of(const Fixture& f) {
    std::string text = f.host.store.world();
    constexpr std::string_view kToken = "\"token\":\"";
    if (const std::size_t at = text.find(kToken); at != std::string::npos) {
        const std::size_t begin = at + kToken.size();
        const std::size_t end = text.find('"', begin);
        EXPECT_EQ(end - begin, 64U) << "a token of 32 bytes";
        text.erase(begin, end - begin);
    }
    return text;
}

TEST(EtcdController, ASecondPassSendsNothing) {
    Fixture f(3);
    EXPECT_EQ(f.pass().rc, CAPSTAN_OK);
    EXPECT_EQ(f.status()["lastOperation"]["state"].string_or(""), "Succeeded");
    EXPECT_EQ(f.status()["observedGeneration"].int_or(0), 1);
    // Etcd, rights, leases, members, token, budget, services, …
    EXPECT_EQ(f.host.store.size(), 1u + 3 + 3 + 3 + 1 + 1 + 2 + 1 + 1);
    f.host.sent.clear();
    const Pass again = f.pass();
    EXPECT_EQ(again.rc, CAPSTAN_OK);
    EXPECT_EQ(again.retry, CAPSTAN_RETRY_NONE);
    EXPECT_EQ(f.host.sent, std::vector<std::string>{});
}

TEST(EtcdController, ARepairSendsOnlyWhatWasChanged) {
    Fixture f(3);
    f.pass();
    f.host.sent.clear();
    json::Value service = *f.host.store.find("Service", {"shop", "main-peer"});
    service["spec"].set("publishNotReadyAddresses", false);
    f.host.store.put(service);
    f.pass();
    EXPECT_EQ(f.host.sent, std::vector<std::string>{"apply Service shop/main-peer"});
}

TEST(EtcdController, AFieldThatTheSpecNoLongerAsksForGoesAway) {
    Fixture f(1);
    json::Value etcd = manifest(1);
    etcd["spec"].set("annotations", {{"team", "data"}});
    f.host.store.put(etcd);
    f.pass();
    f.host.store.put(manifest(1));
    f.pass();
    const json::Value* set = f.host.store.find("apps/StatefulSet", kKey);
    EXPECT_FALSE(json::View(*set)["spec"]["template"]["metadata"]["annotations"]["team"].present());
}

TEST(EtcdController, TheLearnerAnnotationIsNotBroughtBack) {
    Fixture f(1);
    f.pass();
    f.host.store.put(manifest(3));
    f.pass();
    const ObjectKey key{"shop", "main-1"};
    constexpr std::string_view kKind = "druid.gardener.cloud/EtcdMember";
    constexpr std::string_view kLearner = "druid.gardener.cloud/create-as-learner";
    json::Value member = *f.host.store.find(kKind, key);
    ASSERT_TRUE(json::View(member)["metadata"]["annotations"][kLearner].present());
    member["metadata"]["annotations"].erase(kLearner);  // as the steward does after promotion
    f.host.store.put(member);
    f.pass();
    EXPECT_FALSE(
        json::View(*f.host.store.find(kKind, key))["metadata"]["annotations"][kLearner].present());
    EXPECT_FALSE(json::View(*f.host.store.find(
        kKind, {"shop", "main-0"}))["metadata"]["annotations"][kLearner]
                     .present());
}

TEST(EtcdController, TlsWithoutAClientPairIsRefusedAndItsConditionGoesWhenTheWishDoes) {
    Fixture f(3);
    json::Value wish = manifest(3);
    wish["spec"]["etcd"] = {
        {"clientUrlTls",
         {
             {"tlsCASecretRef", {{"name", "ca"}}},
             {"serverTLSSecretRef", {{"name", "server"}}},
         }},
    };
    f.host.store.put(wish);
    EXPECT_EQ(f.pass().rc, CAPSTAN_OK);
    EXPECT_EQ(f.host.store.size(), 1u);
    EXPECT_EQ(f.status()["conditions"][0]["reason"].string_or(""), "TLSIncomplete");
    EXPECT_EQ(f.status()["lastErrors"].array().size(), 1u);
    EXPECT_EQ(f.host.events, std::vector<std::string>{"TLSIncomplete"});
    f.host.sent.clear();
    f.pass();
    EXPECT_TRUE(f.host.sent.empty());
    f.host.store.put(manifest(3));
    f.pass();
    EXPECT_TRUE(f.status()["conditions"].array().empty());
    EXPECT_TRUE(f.status()["lastErrors"].array().empty());
}

TEST(EtcdController, DeletionEndsWithNothingLeft) {
    Fixture f(3);
    f.pass();
    f.delete_etcd();
    Pass pass = f.pass();
    EXPECT_EQ(pass.retry, CAPSTAN_RETRY_AFTER);
    EXPECT_EQ(f.status()["lastOperation"]["type"].string_or(""), "Delete");
    EXPECT_EQ(f.host.store.find("apps/StatefulSet", kKey), nullptr);
    // only the pods go at first
    EXPECT_NE(f.host.store.find("ConfigMap", {"shop", "main-config"}), nullptr);
    for (int i = 0; i < 3; ++i) {
        f.pass();
    }
    EXPECT_EQ(f.host.store.size(), 0u) << f.host.store.world();
}

TEST(EtcdController, DeletionSparesAnObjectOfAnotherOwner) {
    Fixture f(1);
    f.pass();
    json::Value map = *f.host.store.find("ConfigMap", {"shop", "main-config"});
    (*map["metadata"]["ownerReferences"].if_array())[0].set("uid", "someone-else");
    f.host.store.put(map);
    f.delete_etcd();
    for (int i = 0; i < 4; ++i) {
        f.pass();
    }
    EXPECT_EQ(f.host.store.size(), 1u);
    EXPECT_NE(f.host.store.find("ConfigMap", {"shop", "main-config"}), nullptr);
}

// The Etcd is another one of the same name, as after an orphaning deletion or while the garbage
// collector is stuck: none of its children knows it.
void become_another(Fixture& f) {
    json::Value etcd = *f.etcd();
    etcd["metadata"].set("uid", "second");
    etcd["metadata"].set("finalizers", json::list());
    etcd.set("status", json::object());
    f.host.store.put(etcd);
}

void expect_all_children_are_ours(const Fixture& f) {
    EXPECT_EQ(f.status()["lastOperation"]["state"].string_or(""), "Succeeded");
    EXPECT_EQ(f.host.store.size(), 16u);
    for (const char* kind : {"ServiceAccount",
                             "rbac.authorization.k8s.io/Role",
                             "rbac.authorization.k8s.io/RoleBinding",
                             "coordination.k8s.io/Lease",
                             "druid.gardener.cloud/EtcdMember",
                             "policy/PodDisruptionBudget",
                             "Service",
                             "ConfigMap",
                             "Secret",
                             "apps/StatefulSet"}) {
        const auto found = f.host.store.list(kind, "shop", "");
        EXPECT_FALSE(found.empty()) << kind;
        for (const json::Value* object : found) {
            const json::View owners = json::View(*object)["metadata"]["ownerReferences"];
            EXPECT_EQ(owners.array().size(), 1u) << json::dump(*object);
            EXPECT_EQ(owners[0]["uid"].string_or(""), "second") << json::dump(*object);
        }
    }
}

json::Value member_with_a_past(const Fixture& f) {
    json::Value member = *f.host.store.find("druid.gardener.cloud/EtcdMember", {"shop", "main-0"});
    member.set("status", {{"id", "8e9e05c52164694d"}, {"clusterID", "cdf818194e3a8c32"}});
    return member;
}

std::string past_of(const Fixture& f) {
    const auto* member = f.host.store.find("druid.gardener.cloud/EtcdMember", {"shop", "main-0"});
    return std::string(json::View(*member)["status"]["clusterID"].string_or(""));
}

TEST(EtcdController, ChildrenOfAnEtcdBeforeBecomeOurs) {
    Fixture f(3);
    f.pass();
    f.host.store.put(member_with_a_past(f));
    become_another(f);
    EXPECT_EQ(f.pass().retry, CAPSTAN_RETRY_AFTER);
    f.pass();
    expect_all_children_are_ours(f);
    EXPECT_EQ(past_of(f), "") << "the members' records tell of another cluster";
}

TEST(EtcdController, ChildrenOfAnEtcdBeforeBecomeOursWhoeverWroteThem) {
    Fixture before(3);
    before.pass();
    Fixture f(3);
    for (const char* kind : {"ServiceAccount",
                             "rbac.authorization.k8s.io/Role",
                             "rbac.authorization.k8s.io/RoleBinding",
                             "coordination.k8s.io/Lease",
                             "druid.gardener.cloud/EtcdMember",
                             "policy/PodDisruptionBudget",
                             "Service",
                             "ConfigMap",
                             "Secret",
                             "apps/StatefulSet"}) {
        for (const json::Value* object : before.host.store.list(kind, "shop", "")) {
            f.host.store.put(*object);  // of no field manager we know
        }
    }
    become_another(f);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(f.pass().rc, CAPSTAN_OK);
    }
    expect_all_children_are_ours(f);
}

// kubectl delete --cascade=orphan: they are kept on purpose, with what they know.
TEST(EtcdController, OrphansAreAdoptedAsTheyAre) {
    Fixture f(3);
    f.pass();
    f.host.store.put(member_with_a_past(f));
    for (const char* kind : {"druid.gardener.cloud/EtcdMember", "apps/StatefulSet"}) {
        for (const json::Value* object : f.host.store.list(kind, "shop", "")) {
            json::Value orphan = *object;
            orphan["metadata"].set("ownerReferences", json::list());
            f.host.store.put(orphan);
        }
    }
    become_another(f);
    f.pass();
    expect_all_children_are_ours(f);
    EXPECT_EQ(past_of(f), "cdf818194e3a8c32");
}

TEST(EtcdController, AnObjectOfSomebodyElseIsNamedAndAskedForAgain) {
    Fixture f(1);
    f.host.store.put({{"apiVersion", "v1"},
                      {"kind", "Service"},
                      {"metadata",
                       {{"name", "main-client"},
                        {"namespace", "shop"},
                        {"ownerReferences",
                         json::list({{{"apiVersion", "example.org/v1"},
                                      {"kind", "Shop"},
                                      {"name", "corner"},
                                      {"uid", "s"},
                                      {"controller", true}}})}}}});
    const Pass pass = f.pass();
    EXPECT_EQ(pass.rc, CAPSTAN_E_UNAVAIL);
    EXPECT_EQ(f.status()["lastErrors"][0]["description"].string_or(""),
              "Service shop/main-client belongs to Shop corner, not to this Etcd; remove it, or "
              "name one of them otherwise");
    const ObjectKey key{"shop", "main-client"};
    const json::View meta = json::View(*f.host.store.find("Service", key))["metadata"];
    EXPECT_EQ(meta["ownerReferences"].array().size(), 1u);
    EXPECT_TRUE(f.host.store.remove(
        "Service", key, meta["uid"].string_or(""), meta["resourceVersion"].string_or("")));
    f.pass();
    EXPECT_EQ(f.status()["lastOperation"]["state"].string_or(""), "Succeeded");
}

struct Sweep {
    const char* name;
    bool after;     // the call took effect before it failed
    bool deleting;  // the passes take a whole Etcd away instead of building it
};

class EtcdControllerSweep : public testing::TestWithParam<Sweep> {};

// Whichever host call fails, the next passes come to the same end.
TEST_P(EtcdControllerSweep, EveryFailedCallIsMadeGood) {
    Fixture good(3);
    good.pass();
    if (GetParam().deleting) {
        good.delete_etcd();
    }
    for (int i = 0; i < 4; ++i) {
        good.pass();
    }
    for (int number = 0;; ++number) {
        ASSERT_LT(number, 200);
        Fixture f(3);
        if (GetParam().deleting) {
            f.pass();
            f.delete_etcd();
        }
        const int before = f.host.calls;
        f.host.fail_at = before + number;
        f.host.fail_after = GetParam().after;
        f.pass();
        if (f.host.calls - before <= number) {
            EXPECT_GT(number, 10);
            break;  // the pass needs fewer calls than that
        }
        for (int i = 0; i < 5; ++i) {
            f.pass();
        }
        EXPECT_EQ(world_of(f), world_of(good)) << "call " << number;
        EXPECT_EQ(f.pass().rc, CAPSTAN_OK);
    }
}

INSTANTIATE_TEST_SUITE_P(Rows,
                         EtcdControllerSweep,
                         testing::Values(Sweep{"building_without_effect", false, false},
                                         Sweep{"building_with_effect", true, false},
                                         Sweep{"deleting_without_effect", false, true},
                                         Sweep{"deleting_with_effect", true, true}),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace capstan::test
