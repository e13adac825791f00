#include "plugins/steward-bridge/member.hpp"
#include "plugins/steward-bridge/configuration.hpp"
#include "plugins/steward-bridge/etcd_gateway.hpp"
#include "plugins/steward-bridge/files.hpp"
#include "plugins/steward-bridge/member_restore.hpp"
#include "plugins/steward-bridge/membership.hpp"
#include "plugins/steward-bridge/render.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

namespace capstan::steward {
namespace {

const capstan_host kHost{
    {sizeof(capstan_host), CAPSTAN_ABI},
    nullptr,
    [](const capstan_host*, capstan_str) noexcept -> const void* { return nullptr; },
    [](const capstan_host*, std::int32_t, capstan_str, capstan_str) noexcept {},
    [](const capstan_host*, capstan_rc, capstan_str) noexcept {}};

TEST(EtcdGateway, ReadsIdsBeyondSignedRange) {
    const auto answer = json::parse(
        R"({"header":{"cluster_id":"14841639068965178418","member_id":"10276657743932975437","revision":"4","raft_term":"2"},)"
        R"("version":"3.4.23","dbSize":"20480","leader":"10276657743932975437","dbSizeInUse":"16384"})");
    const auto status = parse_status(answer.value());
    ASSERT_TRUE(status);
    EXPECT_EQ(status.value().member_id, "8e9e05c52164694d");
    EXPECT_EQ(status.value().cluster_id, "cdf818194e3a8c32");
    EXPECT_TRUE(status.value().leader && status.value().has_leader);
    EXPECT_EQ(status.value().db_size_in_use, 16384);
}

TEST(EtcdGateway, RefusesAnAnswerWithoutIds) {
    EXPECT_EQ(parse_status(json::parse("{}").value()).error().code, Code::invalid);
    EXPECT_EQ(parse_status(json::parse(R"({"header":{"member_id":"x","cluster_id":"1"}})").value())
                  .error()
                  .message,
              "/header/member_id: not an unsigned 64-bit number");
    EXPECT_FALSE(parse_member_list(json::parse("{}").value()));
}

struct RefusalRow {
    const char* name;
    const char* message;
    Code code;
};
class Refusals : public testing::TestWithParam<RefusalRow> {};
TEST_P(Refusals, AreToldApartByTheirMessage) {
    const std::string body = json::dump({{"code", 9}, {"message", GetParam().message}});
    const Error error = refusal_of(412, body);
    EXPECT_EQ(error.code, GetParam().code);
    EXPECT_EQ(error.message, std::string("HTTP 412 \"") + GetParam().message + "\"");
}
INSTANTIATE_TEST_SUITE_P(
    EtcdGateway,
    Refusals,
    testing::Values(
        RefusalRow{
            "another_learner", "etcdserver: too many learner members in cluster", Code::overloaded},
        RefusalRow{"not_in_sync",
                   "etcdserver: can only promote a learner member which is in sync with leader",
                   Code::conflict},
        RefusalRow{"votes_already", "etcdserver: can only promote a learner member", Code::exists},
        RefusalRow{"listed_url", "etcdserver: Peer URLs already exists", Code::exists},
        RefusalRow{"listed_id", "etcdserver: member ID already exist", Code::exists},
        RefusalRow{"unknown_member", "etcdserver: member not found", Code::not_found},
        RefusalRow{"no_leader", "etcdserver: no leader", Code::unavailable}),
    [](const auto& row) { return row.param.name; });

TEST(EtcdGateway, QuotesAnAnswerThatIsNoJson) {
    EXPECT_EQ(refusal_of(502, "<html>").message, "HTTP 502 \"<html>\"");
}

MemberList three_members() {
    MemberList list;
    list.cluster_id = "c";
    list.members = {
        {"1", "m-0", {"http://a:2380"}, {"http://a:2379"}, true, false},
        {"2", "m-1", {"http://b:2380", "http://b:2381"}, {"http://b:2379"}, true, false},
        {"3", "", {"http://c:2380"}, {}, false, true}};
    return list;
}

TEST(Membership, FindsItselfByNameAndElseByPeerUrl) {
    const MemberList list = three_members();
    EXPECT_EQ(find_own(list, "m-1", {})->id, "2");
    EXPECT_EQ(find_own(list, "m-2", {"http://c:2380"})->id, "3");
    EXPECT_EQ(find_own(list, "m-9", {"http://d:2380"}), nullptr);
    // a name counts more than an address
    EXPECT_EQ(find_own(list, "m-0", {"http://b:2380"})->id, "1");
    EXPECT_EQ(standing_of(find_own(list, "m-1", {})), StartFacts::List::member);
    EXPECT_EQ(standing_of(find_own(list, "m-2", {"http://c:2380"})), StartFacts::List::learner);
    EXPECT_EQ(standing_of(nullptr), StartFacts::List::not_member);
}

TEST(Membership, NamesEveryMemberAndAllOfItsUrls) {
    EXPECT_EQ(initial_cluster_of(three_members(), "3", "m-2"),
              "m-0=http://a:2380,m-1=http://b:2380,m-1=http://b:2381,m-2=http://c:2380");
    EXPECT_EQ(initial_cluster_of(three_members(), "1", "m-0"),
              "m-0=http://a:2380,m-1=http://b:2380,m-1=http://b:2381,3=http://c:2380");
}

TEST(Membership, NeedsAQuorumOfTodaysVotersToRemoveOne) {
    MemberList list;
    const std::size_t expected[] = {1, 2, 2, 3, 3};  // of 1 to 5 voters
    for (std::size_t voters = 1; voters <= 5; ++voters) {
        list.members.push_back({std::to_string(voters), "", {}, {}, true, false});
        EXPECT_EQ(answers_needed(list, "1"), expected[voters - 1]) << voters;
    }
    list.members.push_back({"9", "", {}, {}, true, true});  // a learner does not count
    EXPECT_EQ(answers_needed(list, "1"), 3U);
}

TEST(EtcdGateway, TellsWhoHasStarted) {
    const auto list = parse_member_list(json::parse(R"({"members":[
        {"ID":"1","name":"a","peerURLs":["http://x:2380"],"clientURLs":["http://x:2379"]},
        {"ID":"2","name":"b","peerURLs":["http://y:2380"]}]})")
                                            .value());
    ASSERT_TRUE(list);
    EXPECT_TRUE(list.value()[0].started);
    EXPECT_FALSE(list.value()[1].started);
}

json::Value pod_map() {
    return {
        {"podIP", "127.77.0.2"},
        {"paths", {{"/var/etcd/data", "/d/data"}, {"/var/etcd", "/d/other"}}},
        {"names",
         {{"m-0.m-peer.ns.svc", "127.77.0.2"},
          {"m-1.m-peer.ns.svc", "127.77.0.3"},
          {"m-client", json::list({"127.77.0.2", "127.77.0.3"})},
          {"m-2.m-peer.ns.svc", json::list()}}},
    };
}

TEST(PodMap, MapsPathsByTheLongestPrefixAtABoundary) {
    const PodMap map = PodMap::decode(pod_map()).value();
    EXPECT_EQ(map.path("/var/etcd/data/new.etcd"), "/d/data/new.etcd");
    EXPECT_EQ(map.path("/var/etcd/data"), "/d/data");
    EXPECT_EQ(map.path("/var/etcd/database"), "/d/other/database");
    EXPECT_EQ(map.path("/var/etcdx"), "/var/etcdx");
    EXPECT_EQ(PodMap().path("/var/etcd/data"), "/var/etcd/data");
}

TEST(PodMap, NamesTheTokenThatStewardsShare) {
    json::Value value = pod_map();
    EXPECT_EQ(PodMap::decode(value).value().steward_token_file(), "");
    value.set("stewardTokenFile", "/d/steward-token");
    EXPECT_EQ(PodMap::decode(value).value().steward_token_file(), "/d/steward-token");
}

TEST(PodMap, MapsUrls) {
    const PodMap map = PodMap::decode(pod_map()).value();
    EXPECT_EQ(map.url("http://m-1.m-peer.ns.svc:2380").value(), "http://127.77.0.3:2380");
    EXPECT_EQ(map.url("http://0.0.0.0:2379").value(), "http://127.77.0.2:2379");
    EXPECT_EQ(map.url("http://m-2.m-peer.ns.svc:2380").error().code, Code::not_found);
    EXPECT_EQ(map.url("http://nobody:1").error().code, Code::not_found);
    EXPECT_EQ(map.urls("http://m-client:2379").size(), 2U);
    EXPECT_TRUE(map.urls("http://nobody:1").empty());
    EXPECT_EQ(PodMap().urls("http://m-client:2379").size(), 1U);
    EXPECT_EQ(PodMap().url("http://0.0.0.0:2379").value(), "http://0.0.0.0:2379");
}

json::Value etcd_config() {
    return {
        {"name", "m-0"},
        {"data-dir", "/var/etcd/data/new.etcd"},
        {"initial-cluster", "m-0=http://m-0.m-peer.ns.svc:2380,m-1=http://m-1.m-peer.ns.svc:2380"},
        {"initial-cluster-state", "new"},
        {"initial-advertise-peer-urls", "http://m-0.m-peer.ns.svc:2380"},
        {"advertise-client-urls", "http://m-0.m-peer.ns.svc:2379"},
        {"listen-peer-urls", "http://0.0.0.0:2380"},
        {"listen-client-urls", "http://0.0.0.0:2379"},
        {"quota-backend-bytes", 8589934592},
    };
}

TEST(Render, MapsAddressesAndPathsAndNothingElse) {
    const auto text = render_etcd_config(etcd_config(), PodMap::decode(pod_map()).value());
    ASSERT_TRUE(text);
    const auto out = json::parse(text.value()).value();
    EXPECT_EQ(json::View(out)["initial-cluster"].string_or(""),
              "m-0=http://127.77.0.2:2380,m-1=http://127.77.0.3:2380");
    EXPECT_EQ(json::View(out)["listen-client-urls"].string_or(""), "http://127.77.0.2:2379");
    EXPECT_EQ(json::View(out)["data-dir"].string_or(""), "/d/data/new.etcd");
    EXPECT_EQ(json::View(out)["initial-cluster-state"].string_or(""), "new");
    EXPECT_EQ(json::View(out)["quota-backend-bytes"].int_or(0), 8589934592);
    EXPECT_EQ(render_etcd_config(etcd_config(), PodMap()).value(),
              json::dump_pretty(etcd_config()) + "\n");
}

TEST(Render, JoinsARunningClusterAsExisting) {
    const auto text = render_etcd_config(etcd_config(), PodMap(), {"m-0=http://x:2380"});
    const auto rendered = json::parse(text.value());
    EXPECT_EQ(json::View(rendered.value())["initial-cluster-state"].string_or(""), "existing");
    EXPECT_EQ(json::View(rendered.value())["initial-cluster"].string_or(""), "m-0=http://x:2380");
}

TEST(Render, NamesWhatIsMissing) {
    json::Value config = etcd_config();
    config.set("initial-cluster",
               "m-0=http://m-0.m-peer.ns.svc:2380,m-2=http://m-2.m-peer.ns.svc:2380");
    EXPECT_EQ(render_etcd_config(config, PodMap::decode(pod_map()).value()).error().code,
              Code::not_found);
    config.erase("data-dir");
    EXPECT_EQ(render_etcd_config(config, PodMap()).error().message, "/data-dir: missing");
}

TEST(Configuration, ReadsItsOwnMemberAndNamesTheField) {
    const std::string good =
        R"({"apiVersion":"config.capstan.dev/v1alpha1","etcd":{"replicas":3},"ports":{"launcher":9095},
        "endpoints":{"local":"http://m-local:2379","service":["http://m-client:2379"]},"dataDir":"/var/etcd/data/new.etcd",
        "heartbeat":"10s","members":{"m-0":{"configHash":"h","config":{"name":"m-0"}}},"later":true})";
    const auto read = Configuration::parse(good, "m-0");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read.value().replicas, 3);
    EXPECT_EQ(read.value().config_hash, "h");
    EXPECT_EQ(Configuration::parse(good, "m-9").error().message,
              "/members/m-9/configHash: missing");
    EXPECT_EQ(Configuration::parse(R"({"apiVersion":"v2"})", "m-0").error().message,
              "/apiVersion: this steward reads config.capstan.dev/v1alpha1 only");
}

TEST(MemberRestore, TakesTheEtcdsStoreOverThePluginsMemberByMember) {
    const json::Value plugin = {
        {"snapstoreConfig", {{"provider", "S3"}, {"container", "all"}, {"prefix", "p"}}}};
    const json::Value etcd = {{"snapstoreConfig", {{"container", "own"}}}};
    EXPECT_TRUE(store_of({}, {}).is_null());
    EXPECT_TRUE(store_of(etcd, {}).is_null());
    const json::Value want = {{"provider", "S3"}, {"container", "own"}, {"prefix", "p"}};
    EXPECT_EQ(store_of(etcd, plugin), want);
    EXPECT_EQ(store_of({}, plugin), *plugin.find("snapstoreConfig"));
}

TEST(Configuration, ReadsDefragmentation) {
    const auto parse = [](const std::string& more) {
        return Configuration::parse(
            R"({"apiVersion":"config.capstan.dev/v1alpha1","etcd":{"replicas":3},)"
            R"("endpoints":{"local":"http://m-local:2379"},"dataDir":"/d",)"
            R"("members":{"m-1":{},"m-0":{"configHash":"h","config":{}}})" +
                more + "}",
            "m-0");
    };
    const auto plain = parse("");
    ASSERT_TRUE(plain) << plain.error().message;
    EXPECT_EQ(plain.value().defragmentation_schedule, "");
    EXPECT_EQ(plain.value().defragmentation_timeout, std::chrono::minutes(15));
    EXPECT_EQ(plain.value().member_names, (std::vector<std::string>{"m-0", "m-1"}));
    const auto set = parse(R"(,"defragTimeout":"8m","defragmentationSchedule":"0 0 */3 * *")");
    ASSERT_TRUE(set) << set.error().message;
    EXPECT_EQ(set.value().defragmentation_timeout, std::chrono::minutes(8));
    EXPECT_EQ(set.value().defragmentation_schedule, "0 0 */3 * *");
    EXPECT_EQ(parse(R"(,"defragmentationSchedule":"0 25 * * *")").error().code, Code::invalid);
    EXPECT_TRUE(parse(R"(,"defragmentationSchedule":"0 25 * * *")")
                    .error()
                    .message.starts_with("/defragmentationSchedule: "));
    EXPECT_FALSE(parse(R"(,"defragTimeout":"soon")"));
}

TEST(EtcdGateway, TellsTheLeaderAndClientUrls) {
    const auto status = parse_status(
        json::parse(R"({"header":{"member_id":"1","cluster_id":"9"},"leader":"26"})").value());
    EXPECT_EQ(status.value().leader_id, "1a");
    const auto list = parse_member_list(
        json::parse(R"({"members":[{"ID":"1","clientURLs":["http://x:2379","http://y:2379"]}]})")
            .value());
    EXPECT_EQ(list.value()[0].client_urls,
              (std::vector<std::string>{"http://x:2379", "http://y:2379"}));
}

TEST(Member, ReportsARunByItsNameAndKeepsIt) {
    const HostTables host(&kHost);
    Member member(host, Identity{});
    EXPECT_EQ(member.run_state("a"), RunState::none);
    member.request_run({"a", true});
    ASSERT_TRUE(member.take_request());
    member.request_run({"a", true});  // the launcher asks again: the same run
    EXPECT_FALSE(member.take_request());
    member.finish_run(RunState::successful, "name: a");
    EXPECT_EQ(member.run_state("a"), RunState::successful);
    EXPECT_EQ(member.run_state("a"), RunState::successful);
    EXPECT_EQ(member.run_state("b"), RunState::none);
    EXPECT_EQ(member.etcd_config(), "name: a");
}

TEST(Member, ReportsAnUnnamedRunOnceAsThePeerDoes) {
    const HostTables host(&kHost);
    Member member(host, Identity{});
    member.request_run({"", false});
    EXPECT_EQ(member.run_state(""), RunState::progress);
    member.take_request();
    member.finish_run(RunState::failed, {});
    EXPECT_EQ(member.run_state(""), RunState::failed);
    EXPECT_EQ(member.run_state(""), RunState::none);
}

TEST(Member, ANewerRequestMakesAnOlderResultVoid) {
    const HostTables host(&kHost);
    Member member(host, Identity{});
    member.request_run({"a", true});
    member.take_request();
    member.request_run({"b", true});
    member.finish_run(RunState::successful, "old");
    EXPECT_EQ(member.run_state("b"), RunState::progress);
    EXPECT_FALSE(member.etcd_config());
}

TEST(Files, SayWhenTheDiskIsFull) {
    std::string pattern = ::testing::TempDir() + "capstan-files-XXXXXX";
    const std::string directory = ::mkdtemp(pattern.data());
    ASSERT_EQ(::symlink("/dev/full", (directory + "/note.tmp").c_str()), 0);
    const auto refused = write_file(directory + "/note", "text");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::overloaded);
    EXPECT_NE(refused.error().message.find("No space"), std::string::npos);
    EXPECT_EQ(read_file(directory + "/note").error().code, Code::not_found);
    std::filesystem::remove_all(directory);
}

TEST(Files, SayWhyOnlyPartOfATextWasTaken) {
    std::string pattern = ::testing::TempDir() + "capstan-files-XXXXXX";
    const std::string directory = ::mkdtemp(pattern.data());
    ASSERT_TRUE(write_file(directory + "/note", "old"));
    const auto before = std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlimit small{4, limit.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto refused = write_file(directory + "/note", "a longer text");
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    std::signal(SIGXFSZ, before);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("File too large"), std::string::npos)
        << refused.error().message;
    EXPECT_EQ(read_file(directory + "/note").value(), "old");
    std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace capstan::steward
