#include "api/etcd.hpp"
#include "api/etcd_member.hpp"

#include <gtest/gtest.h>

namespace capstan::api {
namespace {

json::Value minimal() {
    return {
        {"apiVersion", kApiVersion},
        {"kind", "Etcd"},
        {"metadata", {{"name", "main"}, {"namespace", "shop"}}},
        {"spec",
         {
             {"replicas", 3},
             {"labels", {{"app", "main"}}},
             {"etcd", json::object()},
             {"backup", json::object()},
         }},
    };
}

TEST(EtcdType, ReadsTheMinimalManifest) {
    json::Value written = minimal();
    Etcd etcd;
    auto got = decode(json::View(written), etcd);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(etcd.metadata.name, "main");
    EXPECT_EQ(etcd.spec.replicas, 3);
    EXPECT_FALSE(etcd.spec.backup.store);
    EXPECT_FALSE(etcd.status);
}

TEST(EtcdType, WritesWhatItReadForEveryKindOfField) {
    json::Value written = minimal();
    written["spec"]["etcd"] = {
        {"clientPort", 12379},
        {"quota", "8Gi"},
        {"metrics", "extensive"},
        {"resources", {{"requests", {{"cpu", "50m"}}}}},
        {"clientUrlTls",
         {
             {"tlsCASecretRef", {{"name", "ca"}, {"dataKey", "bundle.crt"}}},
             {"serverTLSSecretRef", {{"name", "server"}}},
         }},
        {"additionalAdvertisePeerURLs",
         json::list({
             {{"memberName", "main-0"}, {"urls", json::list({"http://10.0.0.1:2380"})}},
         })},
    };
    written["status"] = {
        {"observedGeneration", 4},
        {"conditions",
         json::list({{
             {"type", "Ready"},
             {"status", "True"},
             {"reason", "Quorate"},
             {"message", ""},
             {"lastTransitionTime", "2026-01-01T00:00:00Z"},
             {"lastUpdateTime", "2026-01-01T00:00:00Z"},
         }})},
        {"memberRefs", json::list({{{"name", "main-0"}, {"uid", "u"}}})},
    };
    Etcd etcd;
    auto got = decode(json::View(written), etcd);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(etcd.spec.etcd.metrics, MetricsDetail::extensive);
    EXPECT_EQ(json::dump_sorted(encode(etcd)), json::dump_sorted(written));
}

struct BadRow {
    const char* name;
    const char* pointer;
    json::Value value;
    const char* message;
};

class EtcdTypeBad : public testing::TestWithParam<BadRow> {};

TEST_P(EtcdTypeBad, NamesTheField) {
    json::Value written = minimal();
    written["spec"].set(GetParam().pointer, GetParam().value);
    Etcd etcd;
    auto got = decode(json::View(written), etcd);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().message, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    EtcdTypeBad,
    testing::Values(
        BadRow{"required_field", "replicas", nullptr, "/spec/replicas: missing"},
        BadRow{"wrong_kind", "replicas", "3", "/spec/replicas: expected integer, found string"},
        BadRow{"inner_object",
               "backup",
               {{"store", {{"provider", "S3"}}}},
               "/spec/backup/store/prefix: missing"},
        BadRow{"closed_set",
               "etcd",
               {{"metrics", "all"}},
               "/spec/etcd/metrics: \"all\" is none of basic, extensive"}),
    [](const auto& row) { return row.param.name; });

TEST(EtcdMemberType, ReadsStatesAndBothSpellingsOfAnOutcome) {
    json::Value written = {
        {"metadata", {{"name", "main-0"}}},
        {"status",
         {
             {"id", "8e9e05c52164694d"},
             {"dbSize", 24576},
             {"transitions",
              json::list({
                  {{"state", "New"},
                   {"reason", "ClusterScaledUp"},
                   {"transitionTime", "2026-01-01T00:00:00Z"}},
                  {{"state", "Started"},
                   {"subState", "Leader"},
                   {"reason", "GainedClusterLeadership"},
                   {"transitionTime", "2026-01-01T00:00:01Z"}},
              })},
             {"lastRestoration",
              {{"status", "In-Progress"}, {"startTime", "2026-01-01T00:00:00Z"}}},
         }},
    };
    EtcdMember member;
    auto got = decode(json::View(written), member);
    ASSERT_TRUE(got) << got.error().message;
    ASSERT_EQ(member.status->transitions.size(), 2u);
    EXPECT_EQ(member.status->transitions[1].sub_state, MemberSubState::leader);
    EXPECT_EQ(member.status->last_restoration->status, TaskStatus::in_progress_dep04);
    EXPECT_EQ(quantity(*member.status->db_size).value(), 24576);
}

}  // namespace
}  // namespace capstan::api
