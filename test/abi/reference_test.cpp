// The reference plugins in C, C++ and Rust do the same job: one suite for all, on real modules. So
// do those that tools/keep-plugins has kept of each SDK version: what was built runs ever after.
#include "test/abi/abi_fixture.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

namespace capstan::plugin {
namespace {

using capstan::testing::FakeHost;
using capstan::testing::PluginUnderTest;
using capstan::testing::Reconciled;

constexpr const char* kGreeting = "demo.capstan.dev/v1/Greeting";
const ObjectKey kKey{"n", "a"};
const ObjectKey kOwnedKey{"n", "a-greeting"};

json::Value greeting(std::string_view text) {
    return {{"apiVersion", "demo.capstan.dev/v1"},
            {"kind", "Greeting"},
            {"metadata", {{"namespace", "n"}, {"name", "a"}}},
            {"spec", {{"text", text}}}};
}

// The loaded modules outlive the tests; the entry has no context, so the table travels by a static.
const capstan_plugin* g_table = nullptr;
const capstan_plugin* loaded_entry(const capstan_host*) noexcept {
    return g_table;
}

// Where one of them lies, and how a failed test calls it.
struct Module {
    std::string name, file;

    friend void PrintTo(const Module& module, std::ostream* out) { *out << module.name; }
};

class ReferencePlugin : public AbiTest, public ::testing::WithParamInterface<Module> {
protected:
    void SetUp() override {
        Loader plugins = loader();
        auto candidate = plugins.check(GetParam().file);
        ASSERT_TRUE(candidate) << candidate.error().message;
        const auto module = plugins.load(std::move(candidate).value(), host_.host());
        ASSERT_TRUE(module) << module.error().message;
        g_table = &module.value()->table();
    }
    static Reconciled reconcile(FakeHost& host) {
        PluginUnderTest plugin(host, &loaded_entry);
        EXPECT_TRUE(plugin.running());
        return plugin.reconcile("greeting", kGreeting, kKey);
    }
    static void expect_converged(const FakeHost& host, std::string_view text) {
        const auto owned = host.find("v1/ConfigMap", kOwnedKey);
        ASSERT_TRUE(owned);
        EXPECT_EQ(json::View(*owned)["data"]["text"].string_or(""), text);
        const json::View owner = json::View(*owned)["metadata"]["ownerReferences"][0];
        EXPECT_EQ(owner["name"].string_or(""), "a");
        EXPECT_EQ(owner["uid"].string_or(""), "uid-1");
        const auto greeting = host.find(kGreeting, kKey);
        EXPECT_EQ(json::View(*greeting)["status"]["configMap"].string_or(""), "a-greeting");
    }
};

std::vector<Module> built_plugins() {
    std::vector<Module> found;
    for (const char* name : {
             "reference-c",
             "reference-cpp",
#ifdef CAPSTAN_TEST_RUST
             "reference-rust",
#endif
         }) {
        found.push_back({name, test_plugin(name)});
    }
    return found;
}

// Every <version>/<name>.so; they were built for x86-64.
std::vector<Module> kept_plugins() {
    std::vector<Module> found;
#ifdef __x86_64__
    const char* directory = std::getenv("CAPSTAN_KEPT_PLUGINS");
    std::error_code missing;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             directory != nullptr ? directory : "", missing)) {
        if (entry.path().extension() == ".so") {
            found.push_back({entry.path().parent_path().filename().string() + "/" +
                                 entry.path().stem().string(),
                             entry.path().string()});
        }
    }
    std::sort(found.begin(), found.end(), [](const Module& a, const Module& b) {
        return a.name < b.name;
    });
#endif
    return found;
}

INSTANTIATE_TEST_SUITE_P(Languages, ReferencePlugin, ::testing::ValuesIn(built_plugins()));
INSTANTIATE_TEST_SUITE_P(Kept, ReferencePlugin, ::testing::ValuesIn(kept_plugins()));

#ifdef __x86_64__
TEST(KeptPlugins, AreThereInThreeLanguages) {
    EXPECT_GE(kept_plugins().size(), 3U);
}
#endif

TEST_P(ReferencePlugin, MakesWhatTheGreetingSays) {
    host_.put(greeting("hello \"world\"\n"));
    const Reconciled done = reconcile(host_);
    EXPECT_EQ(done.rc, CAPSTAN_OK);
    EXPECT_EQ(done.leaked_objects, 0U);
    expect_converged(host_, "hello \"world\"\n");
}

TEST_P(ReferencePlugin, ChangesNothingTheSecondTime) {
    host_.put(greeting("hello"));
    reconcile(host_);
    host_.clear_calls();
    EXPECT_EQ(reconcile(host_).rc, CAPSTAN_OK);
    EXPECT_EQ(host_.write_count(), 0U);
}

TEST_P(ReferencePlugin, ForgetsADeletedGreeting) {
    EXPECT_EQ(reconcile(host_).rc, CAPSTAN_OK);
    EXPECT_EQ(host_.write_count(), 0U);
}

TEST_P(ReferencePlugin, RepairsWhatOthersChange) {
    host_.put(greeting("hello"));
    reconcile(host_);
    json::Value owned = *host_.find("v1/ConfigMap", kOwnedKey);
    owned["data"].set("text", "tampered");
    host_.put(std::move(owned));
    reconcile(host_);
    expect_converged(host_, "hello");
}

TEST_P(ReferencePlugin, ConvergesAfterACrashAtEachHostCall) {
    for (std::size_t k = 1; k <= 3; ++k) {
        FakeHost host;
        host.put(greeting("hello"));
        host.fail_call(k, CAPSTAN_E_UNAVAIL, true);
        const Reconciled failed = reconcile(host);
        EXPECT_EQ(failed.rc, CAPSTAN_E_UNAVAIL) << "call " << k;
        EXPECT_EQ(failed.leaked_objects, 0U) << "call " << k;
        host.clear_calls();
        EXPECT_EQ(reconcile(host).rc, CAPSTAN_OK);
        expect_converged(host, "hello");
    }
}

TEST_P(ReferencePlugin, ConvergesAfterReadingOneVersionLate) {
    host_.put(greeting("old"));
    host_.put(greeting("new"));
    host_.set_stale_cache(true);
    reconcile(host_);
    host_.set_stale_cache(false);
    reconcile(host_);
    expect_converged(host_, "new");
}

std::size_t count_mappings() {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) {
        count += line.find("plugin.so") != std::string::npos ? 1 : 0;
    }
    return count;
}

TEST_P(ReferencePlugin, StaysMappedThroughTwoHundredLives) {
    host_.put(greeting("hello"));
    reconcile(host_);
    const std::size_t before = count_mappings();
    EXPECT_GT(before, 0U);
    for (int i = 0; i < 200; ++i) {
        FakeHost host;
        host.put(greeting("hello"));
        EXPECT_EQ(reconcile(host).rc, CAPSTAN_OK);
    }
    EXPECT_EQ(count_mappings(), before);
}

int number(const char* name, int fallback) {
    const char* text = std::getenv(name);
    return text == nullptr ? fallback : std::atoi(text);
}

// Kind: life time (boostorg/dll#65, #68). Load, many reconciles, stop, destroy, load again: nothing
// is unloaded, nothing is left over, nothing comes back. docs/testing.md has the figure for 200
// lives of 1,000 reconciles; the sanitizer builds look closest.
TEST_P(ReferencePlugin, LoadsRunsAndEndsManyTimes) {
    const int lives = number("CAPSTAN_ABI_LIVES", 50);
    const int reconciles = number("CAPSTAN_ABI_RECONCILES", 20);
    const std::size_t before = count_mappings();
    for (int life = 0; life < lives; ++life) {
        Loader plugins = loader();
        auto candidate = plugins.check(GetParam().file);
        ASSERT_TRUE(candidate) << candidate.error().message;
        FakeHost host;
        const auto module = plugins.load(std::move(candidate).value(), host.host());
        ASSERT_TRUE(module) << module.error().message;
        g_table = &module.value()->table();
        host.put(greeting("hello"));
        PluginUnderTest plugin(host, &loaded_entry);
        ASSERT_TRUE(plugin.running());
        for (int i = 0; i < reconciles; ++i) {
            const Reconciled done = plugin.reconcile("greeting", kGreeting, kKey);
            ASSERT_EQ(done.rc, CAPSTAN_OK);
            ASSERT_EQ(done.leaked_objects, 0U);
            host.clear_calls();
        }
        expect_converged(host, "hello");
    }
    // Each life's copy has a path of its own digest, which is the same one.
    EXPECT_EQ(count_mappings(), before);
}

}  // namespace
}  // namespace capstan::plugin
