// A runtime that is confined to some namespaces: one watch for each, and reads over all of them.
#include "test/sim/demo.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace capstan::test {
namespace {

struct Scoped : ::testing::Test {
    Scoped() {
        for (const char* ns : {"other", "far"}) {
            const json::Value object = {
                {"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", ns}}}};
            world.api.ask("POST", "/api/v1/namespaces", json::dump(object));
        }
        TestPlugin plugin;
        const json::Value watches = json::list({
            {{"gvk", "v1/ConfigMap"}, {"role", "for"}, {"predicate", true}},
            {{"gvk", "v1/Namespace"},
             {"role", "maps"},
             {"map", {{"all", true}}},
             {"predicate", true}},
        });
        const json::Value permission = {{"groups", json::list({""})},
                                        {"resources", json::list({"configmaps", "namespaces"})},
                                        {"verbs", json::list({"get", "list", "watch"})}};
        plugin.manifest_json =
            manifest_json(plugin.id,
                          {{"controllers", json::list({{{"name", "main"}, {"watches", watches}}})},
                           {"permissions", json::list({permission})}});
        plugin.controllers["main"] = [this](Call& call, const Request& request) {
            ++runs[request.key.to_string()];
            std::vector<std::string> now;
            const auto listed = call.cache().list("ConfigMap", "");
            for (std::size_t i = 0; listed && i < listed.value().size(); ++i) {
                const json::View metadata = json::View(listed.value()[i])["metadata"];
                now.push_back(std::string(metadata["namespace"].string_or("")) + "/" +
                              std::string(metadata["name"].string_or("")));
            }
            seen = std::move(now);
            return Outcome::done();
        };
        world.add(plugin);
        world.boot();
    }
    void put(const std::string& ns, const std::string& name) {
        const json::Value object = {{"apiVersion", "v1"},
                                    {"kind", "ConfigMap"},
                                    {"metadata", {{"name", name}, {"namespace", ns}}}};
        world.api.ask("POST", "/api/v1/namespaces/" + ns + "/configmaps", json::dump(object));
    }

    World world{{.namespaces = {"ns", "other"}, .cluster_scoped = {"Namespace"}}};
    const ShutDownFirst end{world};
    std::map<std::string, int> runs;
    std::vector<std::string> seen;
};

TEST_F(Scoped, SeesItsNamespacesAndNoOther) {
    put("ns", "a");
    put("other", "b");
    put("far", "c");
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(runs.count("ns/a"), 1u);
    EXPECT_EQ(runs.count("other/b"), 1u);
    EXPECT_EQ(runs.count("far/c"), 0u);
    EXPECT_EQ(seen, (std::vector<std::string>{"ns/a", "other/b"}));
}

TEST_F(Scoped, HasOneWatchForEachAndOneOfAKindWithoutNamespaces) {
    ASSERT_TRUE(world.settle());
    std::vector<std::string> watches;
    for (const auto& [spec, state] : world.cache->states()) {
        EXPECT_EQ(state.state, cache::SyncState::live) << state.reason;
        watches.push_back(spec.gvk.kind + " " + spec.ns);
    }
    std::sort(watches.begin(), watches.end());
    EXPECT_EQ(watches, (std::vector<std::string>{"ConfigMap ns", "ConfigMap other", "Namespace "}));
}

TEST_F(Scoped, AnEventMapsToTheKeysOfEveryNamespace) {
    put("ns", "a");
    put("other", "b");
    ASSERT_TRUE(world.settle());
    runs.clear();
    world.api.ask("PATCH",
                  "/api/v1/namespaces/far",
                  R"({"metadata":{"labels":{"x":"y"}}})",
                  "application/merge-patch+json");
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(runs, (std::map<std::string, int>{{"ns/a", 1}, {"other/b", 1}}));
}

}  // namespace
}  // namespace capstan::test
