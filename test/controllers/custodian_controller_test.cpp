// The whole custodian plugin behind its C entry, against objects in memory.
#include "test/controllers/memory_host.hpp"

#include <gtest/gtest.h>

namespace capstan::test {
namespace {

const GroupVersionKind kEtcd{"druid.gardener.cloud", "v1alpha1", "Etcd"};
const ObjectKey kKey{"shop", "main"};
constexpr std::string_view kEtcdUid = "uid-druid.gardener.cloud/Etcd-main";

json::Value child(std::string_view api_version,
                  std::string_view kind,
                  const std::string& name,
                  std::string_view owner) {
    return {
        {"apiVersion", api_version},
        {"kind", kind},
        {"metadata",
         {
             {"name", name},
             {"namespace", "shop"},
             {"labels",
              {{"app.kubernetes.io/managed-by", "etcd-druid"},
               {"app.kubernetes.io/part-of", "main"}}},
             {"ownerReferences",
              json::list({{
                  {"apiVersion", "v1"},
                  {"kind", "Owner"},
                  {"name", "main"},
                  {"uid", owner},
                  {"controller", true},
              }})},
         }},
    };
}

struct Fixture {
    MemoryHost host{"capstan-custodian"};

    Fixture() {
        host.now = *parse_rfc3339("2026-01-01T12:00:00Z");
        host.store.put({
            {"apiVersion", "druid.gardener.cloud/v1alpha1"},
            {"kind", "Etcd"},
            {"metadata", {{"name", "main"}, {"namespace", "shop"}}},
            {"spec",
             {
                 {"replicas", 1},
                 {"labels", json::object()},
                 {"etcd", json::object()},
                 {"backup", json::object()},
             }},
            {"status", {{"observedGeneration", 1}}},
        });
        json::Value set = child("apps/v1", "StatefulSet", "main", kEtcdUid);
        set.set("spec", {{"replicas", 1}});
        set.set("status",
                {{"observedGeneration", 1}, {"currentReplicas", 1}, {"updatedReplicas", 1}});
        host.store.put(set);
        json::Value member =
            child("druid.gardener.cloud/v1alpha1", "EtcdMember", "main-0", kEtcdUid);
        member.set("status",
                   {{"transitions",
                     json::list({{
                         {"state", "Started"},
                         {"subState", "Leader"},
                         {"reason", "x"},
                         {"transitionTime", "2026-01-01T12:00:00Z"},
                     }})}});
        host.store.put(member);
        json::Value pod = child("v1", "Pod", "main-0", "uid-apps/StatefulSet-main");
        pod.set("status",
                {{"conditions",
                  json::list({
                      {{"type", "Ready"}, {"status", "True"}},
                      {{"type", "ContainersReady"}, {"status", "True"}},
                  })}});
        host.store.put(pod);
        renew();
        EXPECT_TRUE(host.load(capstan_plugin_entry, json::object()));
    }
    void renew() {
        json::Value lease = child("coordination.k8s.io/v1", "Lease", "main-0", kEtcdUid);
        lease.set("spec",
                  {{"holderIdentity", "8e:cd:Leader"}, {"renewTime", to_rfc3339_micro(host.now)}});
        host.store.put(lease);
    }
    Pass pass() { return host.reconcile("custodian", kEtcd, kKey); }
    json::View status() const {
        return json::View(*host.store.find("druid.gardener.cloud/Etcd", kKey))["status"];
    }
};

TEST(CustodianController, WritesTheStatusOnceAndAsksForOneTimer) {
    Fixture f;
    const Pass first = f.pass();
    EXPECT_EQ(f.host.sent,
              std::vector<std::string>{"apply druid.gardener.cloud/Etcd shop/main status"});
    EXPECT_TRUE(f.status()["ready"].bool_or(false));
    EXPECT_EQ(f.status()["observedGeneration"].int_or(0), 1);  // another plugin's, untouched
    EXPECT_EQ(first.retry, CAPSTAN_RETRY_AFTER);
    EXPECT_GT(first.after, std::chrono::seconds{59});
    f.host.now += std::chrono::seconds{50};
    f.renew();
    f.pass();
    EXPECT_EQ(f.host.sent.size(), 1u);
}

TEST(CustodianController, AMemberWhoseLeaseIsGoneLeavesTheStatus) {
    Fixture f;
    f.pass();
    json::Value lease = child("coordination.k8s.io/v1", "Lease", "main-0", kEtcdUid);
    lease.set("spec", json::object());
    f.host.store.put(lease);
    f.pass();
    EXPECT_TRUE(f.status()["members"].array().empty());
    EXPECT_EQ(f.host.sent.size(), 2u);
    f.pass();
    EXPECT_EQ(f.host.sent.size(), 2u);
}

TEST(CustodianController, AContainerThatEndedCountsAtOnce) {
    Fixture f;
    f.pass();
    EXPECT_EQ(f.status()["members"][0]["status"].string_or(""), "Ready");
    json::Value pod = child("v1", "Pod", "main-0", "uid-apps/StatefulSet-main");
    pod.set("status",
            {{"conditions", json::list({{{"type", "ContainersReady"}, {"status", "False"}}})},
             {"containerStatuses",
              json::list({
                  {{"name", "backup-restore"}, {"ready", false}},
                  {{"name", "etcd"}, {"ready", true}},
              })}});
    f.host.store.put(pod);
    f.pass();
    EXPECT_EQ(f.status()["members"][0]["status"].string_or(""), "Ready");
    pod.set("status",
            {{"conditions", json::list({{{"type", "ContainersReady"}, {"status", "False"}}})},
             {"containerStatuses", json::list({{{"name", "etcd"}, {"ready", false}}})}});
    f.host.store.put(pod);
    f.pass();
    EXPECT_EQ(f.status()["members"][0]["reason"].string_or(""), "ContainersNotReady");
}

TEST(CustodianController, ADeletedEtcdIsLeftAlone) {
    Fixture f;
    f.host.store.put({
        {"apiVersion", "druid.gardener.cloud/v1alpha1"},
        {"kind", "Etcd"},
        {"metadata",
         {
             {"name", "main"},
             {"namespace", "shop"},
             {"deletionTimestamp", "2026-01-01T12:00:00Z"},
             {"finalizers", json::list({"some/one"})},
         }},
    });
    EXPECT_EQ(f.pass().retry, CAPSTAN_RETRY_NONE);
    EXPECT_TRUE(f.host.sent.empty());
}

}  // namespace
}  // namespace capstan::test
