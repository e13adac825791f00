#include "plugins/steward-bridge/snapshotter/service.hpp"

#include "plugins/steward-bridge/snapshotter/testing_call.hpp"
#include "plugins/steward-bridge/snapshotter/testing_etcd.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace capstan::steward {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr std::string_view kLease = "coordination.k8s.io/v1/Lease";

class ServiceTest : public ::testing::Test {
protected:
    ServiceTest() {
        std::string name = (fs::temp_directory_path() / "capstan-service-XXXXXX").string();
        directory = ::mkdtemp(name.data());
        host.on_http([this](const json::Value& request, std::string_view body) {
            return etcd(std::string(json::View(request)["url"].string_or("")), body);
        });
    }
    ~ServiceTest() override { fs::remove_all(directory); }

    // An etcd at revision 7 that ends every watch at once, one from 8 on after a change.
    static capstan::testing::HttpReply etcd(const std::string& url, std::string_view body) {
        capstan::testing::HttpReply reply;
        if (url.ends_with("/v3/watch") &&
            body.find(R"("start_revision":"8")") != std::string_view::npos) {
            reply.body = R"({"result":{"header":{"revision":"8"},"events":[{"kv":{"key":"YQ==",)"
                         R"("create_revision":"8","mod_revision":"8","version":"1"}}]}})"
                         "\n";
        }
        if (url.ends_with("/v3/kv/range")) {
            reply.body = R"({"header":{"revision":"7"}})";
        } else if (url.ends_with("/v3/maintenance/status")) {
            reply.body = R"({"header":{"member_id":"1","cluster_id":"2"},"leader":"1"})";
        } else if (url.ends_with("/v3/maintenance/snapshot")) {
            reply.body =
                R"({"result":{"blob":")" + to_base64(testing_database(noise(1024, 3))) + "\"}}\n";
        }
        return reply;
    }
    void put_configuration(const json::Value& backup) {
        const json::Value document = {
            {"apiVersion", "config.capstan.dev/v1alpha1"},
            {"etcd", {{"replicas", 1}}},
            {"endpoints", {{"local", "http://etcd:2379"}}},
            {"dataDir", "/data"},
            {"backup", backup},
            {"members", {{"main-0", {{"configHash", "h"}, {"config", json::object()}}}}},
        };
        host.put({{"apiVersion", "v1"},
                  {"kind", "ConfigMap"},
                  {"metadata", {{"namespace", "ns"}, {"name", "main-config"}}},
                  {"data", {{"steward.yaml", json::dump(document)}}}});
    }
    json::Value local_store() const {
        return {{"snapstoreConfig",
                 {{"provider", "Local"}, {"container", directory}, {"prefix", "ns/main"}}}};
    }
    void run(seconds time) {
        host.at(host.now() + time, [this] { host.cancel(); });
        with_call(host, [this](Call& call) { EXPECT_TRUE(service.run(call)); });
    }
    std::vector<std::string> stored() const {
        std::vector<std::string> names;
        if (fs::exists(directory + "/ns/main/v2")) {
            for (const auto& entry : fs::directory_iterator(directory + "/ns/main/v2")) {
                names.push_back(entry.path().filename().string().substr(0, 22));
            }
        }
        return names;
    }

    std::string directory;
    capstan::testing::FakeHost host;
    HostTables tables{host.host()};
    Identity identity{"main-0", "ns", "main", "main-0", "main-config", "/run"};
    Member member{tables, identity};
    Snapshotter face{tables};
    SnapshotService service{tables, member, face, {}};
};

TEST_F(ServiceTest, TakesAFullIntoTheConfiguredStoreAndReportsIt) {
    put_configuration(local_store());
    face.on_role(Role::leader);
    run(seconds(3));
    EXPECT_EQ(stored(), (std::vector<std::string>{"Full-00000000-00000007"}));
    const BackupReport report = member.backup_report();
    ASSERT_TRUE(report.snapshots);
    EXPECT_EQ(report.snapshots->last_full->end_revision, 7);
}

// Its name alone would take an Etcd of another Kubernetes cluster for the same.
TEST_F(ServiceTest, SaysWhoseThePrefixIsByTheUidOfItsEtcd) {
    put_configuration(local_store());
    host.put({{"apiVersion", "druid.gardener.cloud/v1alpha1"},
              {"kind", "EtcdMember"},
              {"metadata",
               {{"namespace", "ns"},
                {"name", "main-0"},
                {"ownerReferences",
                 json::list({{{"apiVersion", "druid.gardener.cloud/v1alpha1"},
                              {"kind", "Etcd"},
                              {"name", "main"},
                              {"uid", "uid-of-main"},
                              {"controller", true}}})}}}});
    face.on_role(Role::leader);
    run(seconds(3));
    std::ifstream file(directory + "/ns/main/capstan/owner");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_NE(text.find(R"("uid":"uid-of-main")"), std::string::npos) << text;
    EXPECT_NE(text.find(R"("namespace":"ns")"), std::string::npos) << text;
}

TEST_F(ServiceTest, WhenEtcdStartsAnewStoresWhatItHoldsThenNothingMore) {
    put_configuration(local_store());
    face.on_role(Role::leader);
    bool busy = false;
    std::size_t stored_before = 0;
    host.at(host.now() + seconds(5), [&] {
        busy = !face.at_rest();
        stored_before = stored().size();
        face.end_term();
    });
    run(seconds(30));
    EXPECT_TRUE(busy);
    EXPECT_EQ(stored_before, 1u);
    const std::vector<std::string> names = stored();
    EXPECT_EQ(names.size(), 2u);
    EXPECT_EQ(std::count(names.begin(), names.end(), "Incr-00000008-00000008"), 1);
    EXPECT_TRUE(face.at_rest());
    EXPECT_EQ(face.view().state, SnapshotterState::stopped);
}

TEST_F(ServiceTest, AFollowerStoresNothing) {
    put_configuration(local_store());
    face.on_role(Role::follower);
    run(seconds(30));
    EXPECT_TRUE(stored().empty());
    EXPECT_EQ(face.view().state, SnapshotterState::stopped);
    EXPECT_TRUE(face.backups());
}

TEST_F(ServiceTest, WithoutAStoreSaysSo) {
    put_configuration(json::object());
    face.on_role(Role::leader);
    run(seconds(10));
    EXPECT_EQ(face.view().state, SnapshotterState::no_store);
    EXPECT_EQ(member.backup_report().reason, "");
}

TEST_F(ServiceTest, AConfigurationThatCannotBeReadIsReported) {
    put_configuration({{"snapshotterConfig", {{"schedule", "never"}}}});
    face.on_role(Role::leader);
    run(seconds(10));
    EXPECT_EQ(member.backup_report().reason, "ConfigurationUnreadable");
    EXPECT_NE(member.backup_report().message.find("/backup/snapshotterConfig/schedule"),
              std::string::npos)
        << member.backup_report().message;
}

TEST_F(ServiceTest, AStoreThatCannotBeUsedIsReported) {
    put_configuration({{"snapstoreConfig", {{"provider", "gcp"}, {"container", "b"}}}});
    face.on_role(Role::leader);
    run(seconds(30));
    EXPECT_EQ(member.backup_report().reason, "StoreNotUsable");
    EXPECT_NE(member.backup_report().message.find("GCS"), std::string::npos);
}

TEST_F(ServiceTest, RenewsTheLeasesOfSnapshotsWhereAsked) {
    for (const char* name : {"main-full-snap", "main-delta-snap"}) {
        host.put({{"apiVersion", "coordination.k8s.io/v1"},
                  {"kind", "Lease"},
                  {"metadata", {{"namespace", "ns"}, {"name", name}}},
                  {"spec", json::object()}});
    }
    json::Value backup = local_store();
    backup.set("healthConfig",
               {{"snapshotLeaseRenewalEnabled", true},
                {"fullSnapshotLeaseName", "main-full-snap"},
                {"deltaSnapshotLeaseName", "main-delta-snap"}});
    put_configuration(backup);
    face.on_role(Role::leader);
    run(seconds(3));
    const auto held = [this](const char* name) {
        const auto lease = host.find(kLease, {"ns", name});
        return lease ? held_revision(*lease).value() : -1;
    };
    EXPECT_EQ(held("main-full-snap"), 7);
    EXPECT_EQ(held("main-delta-snap"), 0);
    const auto delta = host.find(kLease, {"ns", "main-delta-snap"});
    EXPECT_EQ(json::View(*delta)["spec"]["holderIdentity"].string_or(""), "0");
    EXPECT_TRUE(json::View(*delta)["spec"]["renewTime"].present());
}

}  // namespace
}  // namespace capstan::steward
