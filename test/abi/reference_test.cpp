// The reference plugins in C, C++ and Rust do the same job: one suite for all, on real modules.
#include "test/abi/abi_fixture.hpp"

#include <cstdlib>
#include <fstream>
#include <ostream>
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

class ReferencePlugin : public AbiTest, public ::testing::WithParamInterface<const char*> {
protected:
    void SetUp() override {
        Loader plugins = loader();
        auto candidate = plugins.check(test_plugin(GetParam()));
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

std::vector<const char*> reference_plugins() {
#ifdef CAPSTAN_TEST_RUST
    return {"reference-c", "reference-cpp", "reference-rust"};
#else
    return {"reference-c", "reference-cpp"};
#endif
}

INSTANTIATE_TEST_SUITE_P(Languages, ReferencePlugin, ::testing::ValuesIn(reference_plugins()));

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
        auto candidate = plugins.check(test_plugin(GetParam()));
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
