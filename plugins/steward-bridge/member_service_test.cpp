#include "plugins/steward-bridge/member_service.hpp"
#include "plugins/steward-bridge/bolt/writer.hpp"
#include "plugins/steward-bridge/data/data_aside.hpp"
#include "plugins/steward-bridge/data/data_directory.hpp"
#include "plugins/steward-bridge/data/data_owner.hpp"
#include "plugins/steward-bridge/files.hpp"
#include "plugins/steward-bridge/restore/mvcc.hpp"
#include "plugins/steward-bridge/restore/raft_files.hpp"
#include "plugins/steward-bridge/testing_cluster.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>

namespace capstan::steward {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kMember = "druid.gardener.cloud/v1alpha1/EtcdMember";
const ObjectKey kKey{"n", "m-2"};

// The member m-2 (host c) of a cluster of three, with its steward's service.
struct Steward {
    Identity identity;
    std::shared_ptr<Member> member;
    int ended{0};  // terms of snapshots
    bool at_rest{true};
};
Steward* made = nullptr;  // tests run one after the other

Result<void> make_plugin(Setup& setup) {
    made->member = std::make_shared<Member>(setup.host(), made->identity);
    made->member->set_snapshots({[] { ++made->ended; }, [] { return made->at_rest; }});
    setup.service("member", std::make_unique<MemberService>(*made->member));
    setup.own(made->member);
    return ok();
}

const capstan_plugin* entry(const capstan_host* host) noexcept {
    return detail::plugin_entry(host, &make_plugin, "steward-bridge.capstan.dev", "0.1.0");
}

class MemberServiceTest : public ::testing::Test {
protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "capstan-member-XXXXXX";
        root_ = ::mkdtemp(pattern.data());
        data_ = root_ + "/volume/new.etcd";
        fs::create_directories(root_ + "/volume");
        fs::create_directories(root_ + "/run");
        steward_.identity = {"m-2", "n", "m", "m-2", "m-config", root_ + "/run"};
        made = &steward_;
        cluster_.members = {{1, "m-0", "a", false}, {2, "m-1", "b", false}, {3, "m-2", "c", false}};
        cluster_.down.insert("c");
        host_.on_http([this](const json::Value& request, std::string_view body) {
            return cluster_.answer(request, body);
        });
        put_configuration();
    }
    void TearDown() override {
        steward_.member.reset();  // the instance ends with its host's tables
        plugin_.reset();
        fs::remove_all(root_);
    }

    void put_configuration() {
        json::Value members = json::object();
        std::string initial;
        for (const auto& [name, host] :
             {std::pair{"m-0", "a"}, std::pair{"m-1", "b"}, std::pair{"m-2", "c"}}) {
            const std::string at = std::string("http://") + host;
            initial += (initial.empty() ? "" : ",") + std::string(name) + "=" + at + ":2380";
            members.set(name,
                        {{"configHash", "h"},
                         {"config",
                          {{"name", name},
                           {"data-dir", data_},
                           {"initial-cluster-state", "new"},
                           {"initial-advertise-peer-urls", at + ":2380"},
                           {"advertise-client-urls", at + ":2379"},
                           {"listen-peer-urls", at + ":2380"},
                           {"listen-client-urls", at + ":2379"}}}});
        }
        for (const char* name : {"m-0", "m-1", "m-2"}) {
            members[name]["config"].set("initial-cluster", initial);
        }
        const json::Value document = {
            {"apiVersion", "config.capstan.dev/v1alpha1"},
            {"etcd", {{"replicas", replicas_}}},
            {"backup", backup_},
            {"endpoints",
             {{"local", "http://c:2379"}, {"service", json::list({"http://service:2379"})}}},
            {"dataDir", data_},
            {"members", members}};
        host_.put({{"apiVersion", "v1"},
                   {"kind", "ConfigMap"},
                   {"metadata", {{"namespace", "n"}, {"name", "m-config"}}},
                   {"data", {{"steward.yaml", json::dump(document)}}}});
    }
    void put_member(bool mark, bool record) {
        json::Value object = {{"apiVersion", "druid.gardener.cloud/v1alpha1"},
                              {"kind", "EtcdMember"},
                              {"metadata", {{"namespace", "n"}, {"name", "m-2"}}}};
        if (mark) {
            object["metadata"].set("annotations", {{kLearnerAnnotation, "true"}});
        }
        if (record) {
            object.set("status", {{"id", "3"}, {"clusterID", "c"}});
        }
        host_.put(object);
    }
    // It led before its launcher asked again.
    void put_started_member() {
        put_member(false, true);
        json::Value object = *host_.find(kMember, kKey);
        object["status"].set("transitions",
                             json::list({{{"state", "Started"},
                                          {"subState", "Leader"},
                                          {"reason", "ClusterJoined"},
                                          {"transitionTime", "2026-01-01T00:00:00Z"}}}));
        host_.put(object);
    }
    // A whole data directory of member 3 of cluster c.
    void make_data() {
        fs::create_directories(data_ + "/member/wal");
        fs::create_directories(data_ + "/member/snap");
        NewCluster cluster = make_cluster("m-2", "m-2=http://c:2380", "t").value();
        cluster.id = 0xc;
        cluster.members[0].id = 3;
        ASSERT_TRUE(write_raft_files(data_ + "/member", cluster));
        auto writer = bolt::Writer::create(data_ + "/member/snap/db", 4096).value();
        ASSERT_TRUE(writer->begin_bucket("key"));
        ASSERT_TRUE(writer->begin_bucket("meta"));
        ASSERT_TRUE(
            writer->put(bolt::bytes("consistent_index"), bolt::bytes(mvcc::encode_number(1))));
        ASSERT_TRUE(writer->finish());
    }

    // Runs the service; a launcher starts etcd as soon as it may.
    void run_for(std::chrono::nanoseconds duration) {
        plugin_ = std::make_unique<capstan::testing::PluginUnderTest>(host_, &entry);
        ASSERT_EQ(plugin_->create_rc(), CAPSTAN_OK);
        steward_.member->request_run({"r", true});
        launcher();
        host_.at(host_.now() + duration, [this] { host_.cancel(); });
        plugin_->run_service("member");
    }
    void launcher() {
        host_.at(host_.now() + milliseconds(50), [this] {
            if (steward_.member->run_state("r") == RunState::successful) {
                cluster_.starts("c", "m-2");
                config_ = json::parse(*steward_.member->etcd_config()).value();
            } else {
                launcher();
            }
        });
    }

    std::vector<std::string> reasons() const {
        std::vector<std::string> out;
        const auto object = host_.find(kMember, kKey);
        for (const json::Value& one : json::View(*object)["status"]["transitions"].array()) {
            out.emplace_back(json::View(one)["reason"].string_or(""));
        }
        return out;
    }
    json::Value condition() const {
        const auto object = host_.find(kMember, kKey);
        const auto& all = json::View(*object)["status"]["conditions"].array();
        return all.empty() ? json::object() : all.front();
    }
    std::string waits_for() const {
        const json::Value now = condition();
        return std::string(json::View(now)["reason"].string_or(""));
    }
    bool marked() const {
        const auto object = host_.find(kMember, kKey);
        return json::View(*object)["metadata"]["annotations"][kLearnerAnnotation].present();
    }
    std::string setting(std::string_view key) const {
        return std::string(json::View(config_)[key].string_or(""));
    }

    // Alone, with backups in a directory.
    void put_backups(std::string_view of) {
        const char* data = std::getenv("CAPSTAN_TEST_DATA");
        ASSERT_NE(data, nullptr);
        fs::copy(std::string(data) + "/" + std::string(of),
                 root_ + "/store",
                 fs::copy_options::recursive);
        replicas_ = 1;
        backup_ = {{"snapstoreConfig", {{"provider", "Local"}, {"container", root_ + "/store"}}}};
        put_configuration();
        cluster_.down = {"a", "b", "c"};
    }

    std::string root_, data_;
    std::int64_t replicas_{3};
    json::Value backup_{json::object()};
    capstan::testing::FakeHost host_;
    TestCluster cluster_;
    Steward steward_;
    std::unique_ptr<capstan::testing::PluginUnderTest> plugin_;
    json::Value config_{json::object()};
};

using Texts = std::vector<std::string>;

TEST_F(MemberServiceTest, ComesBackAsALearnerWhenItsDataIsGone) {
    put_member(false, true);
    run_for(seconds(10));
    EXPECT_EQ(cluster_.changes, (Texts{"remove 3", "add c", "promote 100"}));
    EXPECT_EQ(setting("initial-cluster-state"), "existing");
    EXPECT_EQ(setting("initial-cluster"), "m-0=http://a:2380,m-1=http://b:2380,m-2=http://c:2380");
    EXPECT_EQ(reasons(),
              (Texts{"NewClusterCreated",
                     "DataMissing",
                     "MemberRemoved",
                     "WaitingToJoinAsLearner",
                     "JoinedAsLearner",
                     "PromotedAsVotingMember"}));
    EXPECT_EQ(waits_for(), "");
    const auto object = host_.find(kMember, kKey);
    EXPECT_EQ(json::View(*object)["status"]["lastRestoration"]["type"].string_or(""), "FromLeader");
    EXPECT_EQ(json::View(*object)["status"]["lastRestoration"]["status"].string_or(""),
              "Succeeded");
    EXPECT_EQ(json::View(*object)["status"]["id"].string_or(""), "64");
}

TEST_F(MemberServiceTest, KeepsDamagedDataAsideUntilItVotes) {
    put_member(false, true);
    make_data();
    fs::resize_file(data_ + "/member/snap/db", 4096);
    fs::create_directories(root_ + "/volume/member.damaged-20200101T000000Z");
    run_for(seconds(10));
    EXPECT_EQ(cluster_.changes, (Texts{"remove 3", "add c", "promote 100"}));
    ASSERT_EQ(list_aside(data_).size(), 1U);  // the older one went when the new data worked
    EXPECT_TRUE(fs::exists(list_aside(data_).front() + "/snap/db"));
    EXPECT_EQ(read_owner_notes(data_).value().note, "n/m-2");
}

TEST_F(MemberServiceTest, RemovesNobodyWithoutAQuorumOfOthers) {
    put_member(false, true);
    cluster_.down.insert("b");
    run_for(seconds(30));
    EXPECT_TRUE(cluster_.changes.empty());
    EXPECT_EQ(waits_for(), "WaitingForCluster");
    EXPECT_EQ(steward_.member->run_state("r"), RunState::progress);
}

TEST_F(MemberServiceTest, IsNotStartedWhileItWaitsWithoutItsData) {
    put_started_member();
    cluster_.down = {"a", "b", "c"};
    run_for(seconds(5));
    EXPECT_EQ(waits_for(), "WaitingForCluster");
    EXPECT_EQ(reasons(), (Texts{"ClusterJoined", "DetectedPreviousUncleanExit"}));
}

TEST_F(MemberServiceTest, IsNotStartedWhileItWaitsForItsConfiguration) {
    put_started_member();
    make_data();
    host_.erase("v1/ConfigMap", {"n", "m-config"});
    run_for(seconds(5));
    EXPECT_EQ(waits_for(), "ConfigurationUnreadable");
    EXPECT_EQ(reasons(), (Texts{"ClusterJoined", "DetectedPreviousUncleanExit"}));
}

TEST_F(MemberServiceTest, CountsOnlyThoseWhoAnswer) {
    put_member(false, true);
    cluster_.deaf.insert("b");
    host_.at(host_.now() + seconds(20), [this] {
        EXPECT_TRUE(cluster_.changes.empty());
        EXPECT_EQ(waits_for(), "NoQuorumWithoutMember");
        cluster_.deaf.clear();
    });
    run_for(seconds(40));
    EXPECT_EQ(cluster_.changes, (Texts{"remove 3", "add c", "promote 100"}));
}

TEST_F(MemberServiceTest, CountsAMemberOnceWhoseverUrlLeadsToIt) {
    put_member(false, true);
    cluster_.members[1].leads_to = "a";
    run_for(seconds(20));
    EXPECT_TRUE(cluster_.changes.empty());
    EXPECT_EQ(waits_for(), "NoQuorumWithoutMember");
}

TEST_F(MemberServiceTest, WaitsForDataThatCannotBeRead) {
    put_member(false, true);
    make_data();
    const std::string database = data_ + "/member/snap/db";
    fs::rename(database, root_ + "/db");
    fs::create_symlink(database, database);
    host_.at(host_.now() + seconds(20), [&] {
        EXPECT_EQ(waits_for(), "DataUnreadable");
        fs::remove(database);
        fs::rename(root_ + "/db", database);
    });
    run_for(seconds(40));
    EXPECT_TRUE(cluster_.changes.empty());
    EXPECT_TRUE(list_aside(data_).empty());
    EXPECT_EQ(steward_.member->run_state("r"), RunState::successful);
}

TEST_F(MemberServiceTest, ARestorationReplacesDamagedDataAndKeepsIt) {
    put_backups("backups/gzip-members");
    put_member(false, true);
    make_data();
    fs::resize_file(data_ + "/member/snap/db", 4096);
    run_for(seconds(5));
    EXPECT_EQ(steward_.member->run_state("r"), RunState::successful);
    ASSERT_EQ(list_aside(data_).size(), 1U);
    EXPECT_EQ(fs::file_size(list_aside(data_).front() + "/snap/db"), 4096U);
    EXPECT_EQ(inspect_data_directory(data_, Depth::full).state, DataDirectory::State::valid);
    EXPECT_EQ(read_owner_notes(data_).value().note, "n/m-2");
    EXPECT_EQ(reasons().back(), "DBCorruptionDetected");
}

// The first of three, new, with backups in the store: whether others ran is told by their leases.
class FirstOfThree : public MemberServiceTest {
protected:
    void SetUp() override {
        MemberServiceTest::SetUp();
        steward_.identity.pod = "m-0";
        put_backups("backups/gzip-members");
        replicas_ = 3;
        put_configuration();
        put_member(false, false);
        put_lease("m-0", {});
    }
    void put_lease(const char* name, const char* holder) {
        json::Value lease = {{"apiVersion", "coordination.k8s.io/v1"},
                             {"kind", "Lease"},
                             {"metadata", {{"namespace", "n"}, {"name", name}}}};
        if (holder != nullptr) {
            lease.set("spec", {{"holderIdentity", holder}});
        }
        host_.put(lease);
    }
};

TEST_F(FirstOfThree, RestoresAClusterThatNeverRan) {
    run_for(seconds(5));
    EXPECT_EQ(steward_.member->run_state("r"), RunState::successful);
    EXPECT_TRUE(fs::exists(data_ + "/member/snap/db"));
}

TEST_F(FirstOfThree, RestoresNothingBesideAClusterThatOnlyDoesNotAnswer) {
    put_lease("m-1", "2:c:Leader");
    run_for(seconds(10));
    EXPECT_EQ(waits_for(), "WaitingForCluster");
    EXPECT_EQ(steward_.member->run_state("r"), RunState::progress);
    EXPECT_FALSE(fs::exists(data_ + "/member"));
}

class FirstOfThreeFault : public FirstOfThree, public ::testing::WithParamInterface<int> {};

TEST_P(FirstOfThreeFault, TakesNoFailureForALeaseWithoutHolder) {
    put_lease("m-1", "2:c:Leader");
    host_.fail_call(static_cast<std::size_t>(GetParam()), CAPSTAN_E_UNAVAIL);
    run_for(seconds(10));
    EXPECT_EQ(waits_for(), "WaitingForCluster");
    EXPECT_EQ(steward_.member->run_state("r"), RunState::progress);
}
INSTANTIATE_TEST_SUITE_P(Calls, FirstOfThreeFault, ::testing::Range(1, 30));

TEST_F(MemberServiceTest, ARestorationThatFailsHasMovedNothing) {
    put_backups("backups-malformed/full-bit-flip");
    put_member(false, true);
    make_data();
    fs::resize_file(data_ + "/member/snap/db", 4096);
    run_for(seconds(5));
    EXPECT_EQ(steward_.member->run_state("r"), RunState::failed);
    EXPECT_EQ(waits_for(), "RestorationFailed");
    EXPECT_TRUE(list_aside(data_).empty());
    EXPECT_EQ(fs::file_size(data_ + "/member/snap/db"), 4096U);
}

// The lease alone knows of an earlier life; whichever call fails once, no cluster is made anew.
class MemberServiceFault : public MemberServiceTest, public ::testing::WithParamInterface<int> {};

TEST_P(MemberServiceFault, NeverTakesAFailureForAFirstStart) {
    put_member(false, false);
    host_.put({{"apiVersion", "coordination.k8s.io/v1"},
               {"kind", "Lease"},
               {"metadata", {{"namespace", "n"}, {"name", "m-2"}}},
               {"spec", {{"holderIdentity", "3:Member"}}}});
    cluster_.down = {"a", "b", "c"};
    host_.fail_call(static_cast<std::size_t>(GetParam()), CAPSTAN_E_UNAVAIL);
    run_for(seconds(10));
    EXPECT_EQ(waits_for(), "WaitingForCluster");
    EXPECT_EQ(steward_.member->run_state("r"), RunState::progress);
}
INSTANTIATE_TEST_SUITE_P(Calls, MemberServiceFault, ::testing::Range(1, 30));

TEST_F(MemberServiceTest, WaitsForItsTurnAndForTheClusterWithPatience) {
    put_member(true, false);
    cluster_.members = {{1, "m-0", "a", false}, {2, "m-1", "b", true}};
    cluster_.down = {"a", "c"};
    host_.at(host_.now() + seconds(20), [this] { cluster_.down.erase("a"); });
    host_.at(host_.now() + seconds(40), [this] { cluster_.members[1].learner = false; });
    run_for(seconds(60));
    EXPECT_EQ(cluster_.changes, (Texts{"add c", "promote 100"}));
    EXPECT_EQ(reasons(),
              (Texts{"ClusterScaledUp",
                     "WaitingToJoinAsLearner",
                     "JoinedAsLearner",
                     "PromotedAsVotingMember"}));
    EXPECT_FALSE(marked());
    std::size_t requests = 0;
    for (const auto& call : host_.calls()) {
        requests += call.verb == "http.open" ? 1u : 0u;
    }
    EXPECT_LT(requests, 400U);
}

TEST_F(MemberServiceTest, IsPromotedWhenItHasCaughtUpAndDropsTheMarkLast) {
    put_member(true, false);
    cluster_.members.pop_back();
    cluster_.in_sync = false;
    bool marked_while_learning = false, held_while_learning = false;
    std::string waiting;
    host_.at(host_.now() + seconds(30), [&] {
        marked_while_learning = marked();
        held_while_learning = fs::exists(learner_file(root_ + "/run"));
        waiting = waits_for();
        cluster_.in_sync = true;
    });
    run_for(seconds(60));
    EXPECT_TRUE(marked_while_learning);
    EXPECT_TRUE(held_while_learning);
    EXPECT_FALSE(fs::exists(learner_file(root_ + "/run")));
    EXPECT_EQ(waiting, "CatchingUp");
    EXPECT_EQ(waits_for(), "");
    EXPECT_FALSE(marked());
    EXPECT_EQ(reasons().back(), "PromotedAsVotingMember");
}

TEST_F(MemberServiceTest, BelievesTheListWhenAnAnswerWasLost) {
    put_member(false, true);
    bool lost = false;
    host_.at(host_.now() + milliseconds(1), [&] { lost = cluster_.lose_next_answer = true; });
    cluster_.down.insert("b");
    host_.at(host_.now() + seconds(5), [this] { cluster_.down.erase("b"); });
    run_for(seconds(30));
    EXPECT_TRUE(lost);
    // the removal was not heard of, so the next look found itself not listed
    EXPECT_EQ(cluster_.changes, (Texts{"remove 3", "add c", "promote 100"}));
}

TEST_F(MemberServiceTest, LeavesAVolumeOfSomebodyElseUntouched) {
    put_member(false, true);
    make_data();
    ASSERT_TRUE(write_owner_notes(data_, {"n", "m-1"}));
    run_for(seconds(30));
    EXPECT_TRUE(cluster_.changes.empty());
    EXPECT_EQ(waits_for(), "VolumeMismatch");
    const auto object = host_.find(kMember, kKey);
    const json::View mismatches = json::View(*object)["status"]["volumeMismatches"];
    EXPECT_EQ(mismatches[0]["volumeID"].string_or(""), "n/m-1");
    EXPECT_EQ(mismatches[0]["numRestarts"].int_or(-1), 0);
    EXPECT_TRUE(list_aside(data_).empty());
    EXPECT_TRUE(fs::exists(data_ + "/member/snap/db"));
}

TEST_F(MemberServiceTest, StartsWholeDataWithoutTheApiAndNothingElse) {
    make_data();
    ASSERT_TRUE(write_file(root_ + "/run/etcd.conf.yaml",
                           json::dump({{"data-dir", data_}, {"name", "m-2"}})));
    host_.erase("v1/ConfigMap", {"n", "m-config"});
    run_for(seconds(2));
    EXPECT_EQ(steward_.member->run_state("r"), RunState::successful);
}

TEST_F(MemberServiceTest, DoesNotStartLostDataWithoutTheApi) {
    ASSERT_TRUE(write_file(root_ + "/run/etcd.conf.yaml",
                           json::dump({{"data-dir", data_}, {"name", "m-2"}})));
    host_.erase("v1/ConfigMap", {"n", "m-config"});
    run_for(seconds(30));
    EXPECT_EQ(steward_.member->run_state("r"), RunState::progress);
}

TEST_F(MemberServiceTest, SaysWhenEtcdNeverLivesLongEnoughToAnswer) {
    put_member(false, true);
    make_data();
    cluster_.down = {"a", "b", "c"};
    for (int start = 1; start <= kSilentStartsMax; ++start) {
        host_.at(host_.now() + seconds(start), [this, start] {
            EXPECT_EQ(waits_for(), "");
            steward_.member->request_run({"again-" + std::to_string(start), true});
        });
    }
    run_for(seconds(10));
    EXPECT_EQ(waits_for(), "EtcdEndsAtStart");
}

// What an earlier etcd's steward still stores would be missing in what the store is looked through
// for.
TEST_F(MemberServiceTest, LooksAtTheStoreOnlyWhenNothingMoreComesIntoIt) {
    put_member(false, false);
    cluster_.down = {"a", "b", "c"};
    steward_.at_rest = false;
    std::string waiting;
    host_.at(host_.now() + seconds(20), [&] {
        EXPECT_EQ(steward_.ended, 1);
        waiting = waits_for();
        EXPECT_EQ(steward_.member->run_state("r"), RunState::progress);
        steward_.at_rest = true;
    });
    run_for(seconds(40));
    EXPECT_EQ(waiting, "SnapshotsUnderWay");
    EXPECT_EQ(setting("initial-cluster-state"), "new");
}

TEST_F(MemberServiceTest, BootstrapsWithTheFullInitialCluster) {
    put_member(false, false);
    cluster_.down = {"a", "b", "c"};
    run_for(seconds(1));
    EXPECT_EQ(setting("initial-cluster-state"), "new");
    EXPECT_EQ(setting("initial-cluster"), "m-0=http://a:2380,m-1=http://b:2380,m-2=http://c:2380");
    EXPECT_TRUE(cluster_.changes.empty());
}

}  // namespace
}  // namespace capstan::steward
