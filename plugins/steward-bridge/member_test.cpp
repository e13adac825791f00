#include "plugins/steward-bridge/member.hpp"
#include "plugins/steward-bridge/configuration.hpp"
#include "plugins/steward-bridge/data_directory.hpp"
#include "plugins/steward-bridge/etcd_gateway.hpp"
#include "plugins/steward-bridge/files.hpp"
#include "plugins/steward-bridge/render.hpp"

#include <gtest/gtest.h>

#include <cstring>
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
    const auto text = render_etcd_config(etcd_config(), PodMap::decode(pod_map()).value(), false);
    ASSERT_TRUE(text);
    const auto out = json::parse(text.value()).value();
    EXPECT_EQ(json::View(out)["initial-cluster"].string_or(""),
              "m-0=http://127.77.0.2:2380,m-1=http://127.77.0.3:2380");
    EXPECT_EQ(json::View(out)["listen-client-urls"].string_or(""), "http://127.77.0.2:2379");
    EXPECT_EQ(json::View(out)["data-dir"].string_or(""), "/d/data/new.etcd");
    EXPECT_EQ(json::View(out)["initial-cluster-state"].string_or(""), "new");
    EXPECT_EQ(json::View(out)["quota-backend-bytes"].int_or(0), 8589934592);
    EXPECT_EQ(render_etcd_config(etcd_config(), PodMap(), false).value(),
              json::dump_pretty(etcd_config()) + "\n");
}

TEST(Render, JoinsARunningClusterAsExisting) {
    const auto text = render_etcd_config(etcd_config(), PodMap(), true);
    const auto rendered = json::parse(text.value());
    EXPECT_EQ(json::View(rendered.value())["initial-cluster-state"].string_or(""), "existing");
}

TEST(Render, NamesWhatIsMissing) {
    json::Value config = etcd_config();
    config.set("initial-cluster",
               "m-0=http://m-0.m-peer.ns.svc:2380,m-2=http://m-2.m-peer.ns.svc:2380");
    EXPECT_EQ(render_etcd_config(config, PodMap::decode(pod_map()).value(), false).error().code,
              Code::not_found);
    config.erase("data-dir");
    EXPECT_EQ(render_etcd_config(config, PodMap(), false).error().message, "/data-dir: missing");
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

TEST(Member, AsksForItsToken) {
    const HostTables host(&kHost);
    const Member member(host, Identity{}, "secret");
    EXPECT_TRUE(member.authorized("Bearer secret"));
    for (const char* wrong :
         {"", "secret", "Bearer", "Bearer secreT", "Bearer secret ", "Basic secret"}) {
        EXPECT_FALSE(member.authorized(wrong)) << wrong;
    }
}

TEST(Member, ReportsARunByItsNameAndKeepsIt) {
    const HostTables host(&kHost);
    Member member(host, Identity{}, "t");
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
    Member member(host, Identity{}, "t");
    member.request_run({"", false});
    EXPECT_EQ(member.run_state(""), RunState::progress);
    member.take_request();
    member.finish_run(RunState::failed, {});
    EXPECT_EQ(member.run_state(""), RunState::failed);
    EXPECT_EQ(member.run_state(""), RunState::none);
}

TEST(Member, ANewerRequestMakesAnOlderResultVoid) {
    const HostTables host(&kHost);
    Member member(host, Identity{}, "t");
    member.request_run({"a", true});
    member.take_request();
    member.request_run({"b", true});
    member.finish_run(RunState::successful, "old");
    EXPECT_EQ(member.run_state("b"), RunState::progress);
    EXPECT_FALSE(member.etcd_config());
}

class DataDirectoryTest : public testing::Test {
protected:
    void SetUp() override {
        std::string pattern =
            (std::filesystem::temp_directory_path() / "capstan-data-XXXXXX").string();
        root_ = ::mkdtemp(pattern.data());
    }
    void TearDown() override { std::filesystem::remove_all(root_); }
    // A database file of four pages whose two meta pages are intact or torn.
    void write_database(bool first_intact, bool second_intact) {
        std::string file(4 * 4096, '\0');
        for (const std::size_t page : {0, 1}) {
            unsigned char meta[64]{};
            const std::uint32_t head[3]{0xED0CDAED, 2, 4096};
            std::memcpy(meta, head, sizeof head);
            std::uint64_t hash = 0xcbf29ce484222325ULL;
            for (std::size_t i = 0; i < 56; ++i) {
                hash = (hash ^ meta[i]) * 0x100000001b3ULL;
            }
            hash ^= (page == 0 ? first_intact : second_intact) ? 0U : 1U;
            std::memcpy(meta + 56, &hash, 8);
            std::memcpy(file.data() + page * 4096 + 16, meta, sizeof meta);
        }
        std::filesystem::create_directories(root_ + "/member/snap");
        std::filesystem::create_directories(root_ + "/member/wal");
        ASSERT_TRUE(write_file(root_ + "/member/wal/0.wal", "x"));
        ASSERT_TRUE(write_file(root_ + "/member/snap/db", file));
    }
    std::string root_;
};

TEST_F(DataDirectoryTest, SeesWhatIsThere) {
    using State = DataDirectory::State;
    EXPECT_EQ(inspect_data_directory(root_ + "/nowhere").state, State::missing);
    EXPECT_EQ(inspect_data_directory(root_).state, State::missing);
    std::filesystem::create_directories(root_ + "/member/wal");
    // etcd died before it stored anything
    EXPECT_EQ(inspect_data_directory(root_).state, State::missing);
    write_database(true, true);
    EXPECT_EQ(inspect_data_directory(root_).state, State::valid);
    write_database(false, true);
    // one torn meta page is bbolt's normal crash
    EXPECT_EQ(inspect_data_directory(root_).state, State::valid);
    write_database(true, false);
    EXPECT_EQ(inspect_data_directory(root_).state, State::valid);
    write_database(false, false);
    EXPECT_EQ(inspect_data_directory(root_).state, State::invalid);
    write_database(true, true);
    std::filesystem::resize_file(root_ + "/member/snap/db", 4096);
    EXPECT_EQ(inspect_data_directory(root_).state, State::invalid);
    write_database(true, true);
    std::filesystem::remove_all(root_ + "/member/wal");
    EXPECT_EQ(inspect_data_directory(root_).state, State::invalid);
}

}  // namespace
}  // namespace capstan::steward
