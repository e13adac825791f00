// The node's controllers and a pod's life on the real core of the embedded API server.
#include "runtime/local/node/api_server_adapter.hpp"

#include "runtime/local/apiserver/api_server.hpp"
#include "runtime/local/node/files.hpp"
#include "runtime/local/node/node.hpp"
#include "runtime/local/node/objects.hpp"
#include "runtime/local/node/process.hpp"
#include "runtime/local/node/test_loop.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace capstan::local {
namespace {

using namespace std::chrono_literals;
constexpr auto kLimit = 30s;

class AdapterTest : public ::testing::Test {
protected:
    void SetUp() override {
        std::string path = "/tmp/capstan-node-test-XXXXXX";
        ASSERT_NE(::mkdtemp(path.data()), nullptr);
        dir = path;
        auto made = ApiServer::create(loop, {});
        ASSERT_TRUE(made.has_value()) << made.error().message;
        server = std::move(made).value();
        api = make_node_api(loop, *server);
    }
    void TearDown() override {
        node.reset();
        const auto id = read_file(dir + "/n/node/id");
        if (id.has_value()) {
            for (const pid_t pid : find_by_environment("CAPSTAN_NODE_ID=" + id.value())) {
                ::kill(pid, SIGKILL);
            }
        }
        ASSERT_TRUE(remove_tree(dir).has_value());
    }
    // Runs the loop and the server's own timers.
    bool wait(const std::function<bool()>& done) {
        return loop.run_until(
            [&] {
                // "now" when there is work: so read before the loop's now
                const auto due = server->next_tick();
                if (due <= loop.now()) {
                    server->tick();
                }
                return done();
            },
            kLimit);
    }
    static json::Value set(int replicas, std::string_view script) {
        return {
            {"apiVersion", "apps/v1"},
            {"kind", "StatefulSet"},
            {"metadata", {{"name", "m"}, {"namespace", "default"}}},
            {"spec",
             {
                 {"replicas", replicas},
                 {"serviceName", "m-peer"},
                 {"podManagementPolicy", "Parallel"},
                 {"selector", {{"matchLabels", {{"app", "m"}}}}},
                 {"template",
                  {
                      {"metadata", {{"labels", {{"app", "m"}}}}},
                      {"spec",
                       {
                           {"terminationGracePeriodSeconds", 1},
                           {"containers",
                            json::list({{{"name", "a"},
                                         {"image", "host"},
                                         {"command", json::list({"/bin/sh", "-c", script})}}})},
                       }},
                  }},
                 {"volumeClaimTemplates",
                  json::list({{
                      {"metadata", {{"name", "d"}}},
                      {"spec",
                       {{"accessModes", json::list({"ReadWriteOnce"})},
                        {"resources", {{"requests", {{"storage", "1Gi"}}}}}}},
                  }})},
             }},
        };
    }

    testing::RealLoop loop;
    std::string dir;
    std::unique_ptr<ApiServer> server;
    std::unique_ptr<NodeApi> api;
    std::unique_ptr<Node> node;
};

TEST_F(AdapterTest, ReportsWhatIsThereAndWhatChanges) {
    const json::Value map = {
        {"apiVersion", "v1"},
        {"kind", "ConfigMap"},
        {"metadata", {{"name", "c"}, {"namespace", "default"}}},
        {"data", {{"k", "v"}}},
    };
    const auto created = api->create(kConfigMapKind, map);
    ASSERT_TRUE(created.has_value()) << created.error().message;
    EXPECT_EQ(api->create(kConfigMapKind, map).error().code, Code::exists);
    std::vector<std::string> seen;
    const auto watch = api->watch(kConfigMapKind, [&](const NodeChange& change) {
        if (key_of(change.object).name == "c") {
            seen.push_back(change.type == NodeChangeType::added     ? "added"
                           : change.type == NodeChangeType::deleted ? "deleted"
                                                                    : "modified");
        }
    });
    EXPECT_TRUE(seen.empty());
    ASSERT_TRUE(wait([&] { return seen.size() == 1; }));
    ASSERT_TRUE(api->patch(kConfigMapKind, {"default", "c"}, {{"data", {{"k", "w"}}}}).has_value());
    EXPECT_EQ(api->remove(kConfigMapKind, {"default", "c"}, {.uid = "other"}).error().code,
              Code::conflict);
    ASSERT_TRUE(api->remove(kConfigMapKind, {"default", "c"}, {.uid = uid_of(created.value())})
                    .has_value());
    ASSERT_TRUE(wait([&] { return seen.size() == 3; }));
    EXPECT_EQ(seen, (std::vector<std::string>{"added", "modified", "deleted"}));
    EXPECT_EQ(api->get(kConfigMapKind, {"default", "c"}).error().code, Code::not_found);
}

TEST_F(AdapterTest, StatefulSetLivesScalesAndGoes) {
    NodeOptions options;
    options.dir = dir + "/n";
    options.images.host_images = {"host"};
    options.api_url = "https://127.0.0.1:6443";
    std::vector<std::string> warnings;
    options.log = [&](NodeLogLevel level,
                      std::string_view message,
                      std::string_view pod,
                      std::string_view detail) {
        if (level == NodeLogLevel::warn || level == NodeLogLevel::error) {
            warnings.push_back(std::string(message) + " " + std::string(pod) + ": " +
                               std::string(detail));
        }
    };
    auto made = Node::create(loop, *api, std::move(options));
    ASSERT_TRUE(made.has_value()) << made.error().message;
    node = std::move(made).value();
    node->start();
    const auto created = api->create(kStatefulSetKind, set(3, "exec sleep 1000"));
    ASSERT_TRUE(created.has_value()) << created.error().message;
    const auto ready = [&](int count) {
        return wait([&] {
            const auto object = api->get(kStatefulSetKind, {"default", "m"});
            return object.has_value() &&
                   json::View(object.value())["status"]["readyReplicas"].int_or(0) == count &&
                   json::View(object.value())["status"]["replicas"].int_or(0) == count;
        });
    };
    ASSERT_TRUE(ready(3));
    ASSERT_TRUE(
        api->patch(kStatefulSetKind, {"default", "m"}, {{"spec", {{"replicas", 1}}}}).has_value());
    ASSERT_TRUE(ready(1));
    const auto at_rest = server->revision();
    loop.run_until([] { return false; }, 300ms);
    EXPECT_EQ(server->revision(), at_rest);
    ASSERT_TRUE(api->remove(kStatefulSetKind, {"default", "m"}, {}).has_value());
    const auto gone = [&] { return api->get(kPodKind, {"default", "m-0"}).has_error(); };
    ASSERT_TRUE(wait(gone));
    EXPECT_TRUE(api->get(kClaimKind, {"default", "d-m-0"}).has_value());  // data stays
    EXPECT_TRUE(warnings.empty()) << warnings[0];
}

}  // namespace
}  // namespace capstan::local
