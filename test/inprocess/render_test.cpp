// `capstan render` without its command line: a plugin of the test on an operator without a cluster.
#include "runtime/cli/manifests.hpp"
#include "runtime/cli/offline_operator.hpp"
#include "runtime/cli/render_objects.hpp"

#include "capstan/plugin.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

namespace capstan::cli {
namespace {

using namespace std::chrono_literals;

using Reconcile = std::function<Outcome(Call&, const Request&)>;
Reconcile reconcile_of_the_test;  // the adapter knows one plugin per file

class TestController final : public Controller {
public:
    Outcome reconcile(Call& call, const Request& request) override {
        return reconcile_of_the_test(call, request);
    }
};

Result<void> make_test_plugin(Setup& setup) {
    setup.controller("main", std::make_unique<TestController>());
    return ok();
}

constexpr const char* kManifest = R"({
  "schema": 1, "id": "demo.example.io", "version": "1.0.0",
  "abi": {"major": 1, "minMinor": 0, "builtMinor": 0},
  "requires": {"extensions": ["capstan.call/1", "capstan.cache/1", "capstan.client/1"]},
  "controllers": [{"name": "main", "watches": [{"gvk": "v1/ConfigMap", "role": "for", "predicate": true}]}],
  "permissions": [{"groups": [""], "resources": ["configmaps", "secrets", "services", "services/status"],
                   "verbs": ["get", "list", "watch", "create", "patch", "delete"]}],
  "fieldManager": "demo", "license": "Apache-2.0"})";

json::Value secret(const ObjectKey& key, const std::string& name, int number = 0) {
    return {
        {"apiVersion", "v1"},
        {"kind", "Secret"},
        {"metadata",
         {{"name", name},
          {"namespace", key.ns},
          {"annotations", {{"number", std::to_string(number)}}}}},
    };
}

class OfflineTest : public testing::Test {
protected:
    void SetUp() override {
        auto created = OfflineOperator::create({});
        ASSERT_TRUE(created) << created.error().message;
        offline = std::move(created).value();
        const json::Value config_map = {
            {"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", "a"}}}};
        const auto applied = offline->client().apply(config_map);
        ASSERT_TRUE(applied) << applied.error().message;
    }
    void TearDown() override {
        offline.reset();
        reconcile_of_the_test = nullptr;
    }

    Result<void> run(Reconcile reconcile) {
        reconcile_of_the_test = std::move(reconcile);
        control::Plugin plugin;
        plugin.manifest = plugin::parse_manifest(kManifest).value();
        plugin.table = detail::plugin_entry(
            offline->host_for(plugin.manifest), &make_test_plugin, "test", "1.0.0");
        plugin.config = json::object();
        CAPSTAN_TRY(offline->add(std::move(plugin)));
        return offline->settle();
    }
    std::vector<std::string> written() const {
        std::vector<std::string> names;
        for (const Written& object : offline->written()) {
            names.push_back(object.gvk.kind + " " + object.key.to_string());
        }
        return names;
    }

    std::unique_ptr<OfflineOperator> offline;
};

TEST_F(OfflineTest, WaitsForWhatAPluginDoesLater) {
    int runs = 0;
    const auto rest = run([&](Call& call, const Request& request) {
        const std::string name = "step-" + std::to_string(++runs);
        EXPECT_TRUE(call.client().apply("v1/Secret", secret(request.key, name)));
        return runs < 3 ? Outcome::after(20s) : Outcome::done();
    });
    ASSERT_TRUE(rest) << rest.error().message;
    EXPECT_EQ(written(),
              (std::vector<std::string>{
                  "Secret default/step-1", "Secret default/step-2", "Secret default/step-3"}));
    EXPECT_EQ(offline->failures(), std::vector<std::string>());
}

TEST_F(OfflineTest, OneThatNeverRestsIsNamed) {
    int runs = 0;
    const auto rest = run([&](Call& call, const Request& request) {
        EXPECT_TRUE(call.client().apply("v1/Secret", secret(request.key, "busy", ++runs)));
        return Outcome::after(10s);
    });
    ASSERT_FALSE(rest);
    EXPECT_EQ(rest.error().code, Code::timeout);
    EXPECT_NE(rest.error().message.find("last they wrote Secret default/busy"), std::string::npos)
        << rest.error().message;
}

TEST_F(OfflineTest, ReportsOfHealthAreNoChange) {
    int runs = 0;
    const auto rest = run([&](Call& call, const Request& request) {
        const json::Value service = {
            {"apiVersion", "v1"},
            {"kind", "Service"},
            {"metadata", {{"name", "s"}, {"namespace", request.key.ns}}},
            {"spec", {{"ports", json::list({{{"name", "p"}, {"port", 80}}})}}},
        };
        EXPECT_TRUE(call.client().apply("v1/Service", service));
        const json::Value ingress =
            json::list({{{"ip", "10.0.0." + std::to_string(++runs % 250)}}});
        const json::Value status = {{"status", {{"loadBalancer", {{"ingress", ingress}}}}}};
        EXPECT_TRUE(
            call.client().patch_merge("v1/Service", {request.key.ns, "s"}, status, "status"));
        return Outcome::after(10s);
    });
    EXPECT_TRUE(rest) << rest.error().message;
    EXPECT_GT(runs, 3);
}

TEST_F(OfflineTest, AKeyThatFailsIsTold) {
    const auto rest = run([](Call&, const Request&) {
        return Outcome::failed(Error{Code::unavailable, "the moon is down", {}});
    });
    ASSERT_TRUE(rest) << rest.error().message;
    ASSERT_EQ(offline->failures().size(), 1U);
    for (const char* part : {"plugin demo.example.io", "main", "default/a", "the moon is down"}) {
        EXPECT_NE(offline->failures().front().find(part), std::string::npos) << part;
    }
}

json::Value owned_pod() {
    return {
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata",
         {
             {"name", "p"},
             {"uid", "u"},
             {"resourceVersion", "7"},
             {"generation", 1},
             {"creationTimestamp", "2026-01-01T00:00:00Z"},
             {"managedFields", json::list()},
             {"ownerReferences", json::list({{{"kind", "Etcd"}, {"name", "e"}, {"uid", "v"}}})},
         }},
        {"spec", {{"template", {{"metadata", {{"creationTimestamp", nullptr}}}}}}},
        {"status", {{"phase", "Running"}}},
    };
}

TEST(RenderObjects, PrintsWithoutWhatTheServerDecides) {
    EXPECT_EQ(json::dump(as_printed(owned_pod(), {})),
              R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},)"
              R"("spec":{"template":{"metadata":{}}}})");
    RenderShape whole;
    whole.status = true;
    whole.owners = true;
    const json::Value printed = as_printed(owned_pod(), whole);
    EXPECT_EQ(json::View(printed)["metadata"]["ownerReferences"][0]["uid"].string_or(""), kNoUid);
    EXPECT_EQ(json::View(printed)["status"]["phase"].string_or(""), "Running");
}

TEST(RenderObjects, TakesObjectsReadFromAServer) {
    const json::Value given = as_given(owned_pod());
    EXPECT_EQ(json::dump(*given.find("metadata")), R"({"name":"p"})");
    EXPECT_EQ(given.find("status"), nullptr);
}

TEST(RenderObjects, SortsWhatOthersReferToFirst) {
    std::vector<json::Value> objects;
    const std::pair<const char*, const char*> unsorted[] = {{"StatefulSet", "a"},
                                                            {"EtcdMember", "b"},
                                                            {"EtcdMember", "a"},
                                                            {"Service", "a"},
                                                            {"Namespace", "z"},
                                                            {"ConfigMap", "a"}};
    for (const auto& [kind, name] : unsorted) {
        objects.push_back({{"apiVersion", "v1"}, {"kind", kind}, {"metadata", {{"name", name}}}});
    }
    sort_for_apply(objects);
    std::string order;
    for (const json::Value& object : objects) {
        const json::View view(object);
        order += std::string(view["kind"].string_or("")) + "/" +
                 std::string(view["metadata"]["name"].string_or("")) + " ";
    }
    EXPECT_EQ(order, "Namespace/z ConfigMap/a Service/a EtcdMember/a EtcdMember/b StatefulSet/a ");
    EXPECT_EQ(to_text({}, {}), "");
    RenderShape list;
    list.as_json = true;
    const auto parsed = json::parse(to_text(objects, list));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(json::View(parsed.value())["items"].array().size(), 6U);
}

TEST(RenderInput, ItemsOfAListKeepTheirLines) {
    const std::string path = testing::TempDir() + "render-list.yaml";
    std::ofstream(path) << "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Secret\n"
                           "  metadata:\n    name: a\n- apiVersion: v1\n  kind: Secret\n"
                           "  metadata: {}\n";
    const auto loaded = load_manifests({path});
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().message, path + ":10: /metadata/name: missing");
    std::filesystem::remove(path);
}

}  // namespace
}  // namespace capstan::cli
