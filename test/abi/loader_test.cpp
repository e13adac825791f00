// Loading: where the mapped bytes come from, what two versions share, what a misbehaving
// plugin shows at the border.
#include "test/abi/abi_fixture.hpp"

namespace capstan::plugin {
namespace {

using capstan::testing::PluginUnderTest;
using capstan::testing::Reconciled;
using LoaderTest = AbiTest;

TEST_F(LoaderTest, MapsAPrivateCopyUnderItsDigest) {
    Loader plugins = loader();
    auto candidate = plugins.check(test_plugin("minimal"));
    ASSERT_TRUE(candidate) << candidate.error().message;
    EXPECT_EQ(candidate.value().load_path(),
              path("cache") + "/sha256-" + candidate.value().sha256() + "/plugin.so");
    EXPECT_EQ(read_bytes(candidate.value().load_path()), read_bytes(test_plugin("minimal")));
    // A file that lies under its digest already is used as it is.
    const std::string installed = candidate.value().load_path();
    auto again = plugins.check(installed);
    ASSERT_TRUE(again);
    EXPECT_EQ(again.value().load_path(), installed);
}

TEST_F(LoaderTest, ReplacesADamagedCopy) {
    Loader plugins = loader();
    const std::string copy = plugins.check(test_plugin("minimal")).value().load_path();
    std::filesystem::permissions(copy, std::filesystem::perms::owner_all);
    std::ofstream(copy, std::ios::binary | std::ios::trunc) << "damaged";
    ASSERT_TRUE(plugins.check(test_plugin("minimal")));
    EXPECT_EQ(read_bytes(copy), read_bytes(test_plugin("minimal")));
}

// glibc hands out the old mapping for a path it knows; the digest in the path is
// what keeps versions apart.
TEST_F(LoaderTest, RunsTheNewFileAtAnOldPath) {
    const std::string file = write("current.so", read_bytes(test_plugin("minimal")));
    EXPECT_EQ(refusal(file), "");
    std::filesystem::remove(file);
    write("current.so", read_bytes(test_plugin("refusing")));  // same id, other code
    EXPECT_NE(refusal(file).find("the moon is not full"), std::string::npos);
}

TEST_F(LoaderTest, ReportReadsAsTextAndJson) {
    const Report report = inspect(test_plugin("reference-c"));
    ASSERT_TRUE(report.loadable()) << to_text(report);
    const std::string text = to_text(report);
    EXPECT_NE(text.find("plugin:       reference-c.capstan.dev 0.1.0\n"), std::string::npos)
        << text;
    EXPECT_NE(text.find("    owns v1/ConfigMap, predicate of 1 node\n"), std::string::npos) << text;
    EXPECT_NE(text.find("result:       this host would load it\n"), std::string::npos) << text;
    const std::string plain = to_text(inspect(test_plugin("misbehaving")));
    EXPECT_NE(plain.find("for v1/ConfigMap, every event\n"), std::string::npos) << plain;
    const json::Value value = to_json(report);
    EXPECT_TRUE(json::View(value)["loadable"].bool_or(false));
    EXPECT_EQ(json::View(value)["elf"]["exports"][0].string_or(""), "capstan_plugin_entry");
    EXPECT_EQ(json::View(value)["manifest"]["id"].string_or(""), "reference-c.capstan.dev");
    EXPECT_TRUE(report.elf->marked_nodelete);
    EXPECT_NE(report.elf->build_facts.find("\"compiler\""), std::string::npos);
}

const capstan_plugin* g_misbehaving = nullptr;
const capstan_plugin* misbehaving_entry(const capstan_host*) noexcept {
    return g_misbehaving;
}

class MisbehavingTest : public AbiTest {
protected:
    void SetUp() override {
        Loader plugins = loader();
        auto candidate = plugins.check(test_plugin("misbehaving"));
        ASSERT_TRUE(candidate) << candidate.error().message;
        const auto module = plugins.load(std::move(candidate).value(), host_.host());
        ASSERT_TRUE(module) << module.error().message;
        EXPECT_NE(module.value()->service(), nullptr);
        g_misbehaving = &module.value()->table();
        host_.put({{"apiVersion", "v1"},
                   {"kind", "ConfigMap"},
                   {"metadata", {{"namespace", "n"}, {"name", "a"}}}});
    }
    Reconciled reconcile(std::string_view behaviour) {
        PluginUnderTest plugin(
            host_, &misbehaving_entry, "{\"behaviour\":\"" + std::string(behaviour) + "\"}");
        return plugin.reconcile("misbehaving", "v1/ConfigMap", {"n", "a"});
    }
};

TEST_F(MisbehavingTest, ExceptionsBecomeACodeAndALogLine) {
    EXPECT_EQ(reconcile("throw-in-reconcile").rc, CAPSTAN_E_PANIC);
    ASSERT_FALSE(host_.logs().empty());
    EXPECT_NE(host_.logs().back().fields_json.find("thrown by the misbehaving plugin"),
              std::string::npos);
    EXPECT_EQ(reconcile("throw-odd-in-reconcile").rc, CAPSTAN_E_PANIC);
    EXPECT_EQ(reconcile("throw-own-in-reconcile").rc, CAPSTAN_E_PANIC);
    EXPECT_NE(host_.logs().back().fields_json.find("of a type the host does not know"),
              std::string::npos);
    PluginUnderTest plugin(host_, &misbehaving_entry, R"({"behaviour":"throw-in-create"})");
    EXPECT_EQ(plugin.create_rc(), CAPSTAN_E_PANIC);
}

TEST_F(MisbehavingTest, FailedCreateSaysWhyInTheLog) {
    PluginUnderTest plugin(host_, &misbehaving_entry, R"({"behaviour":"fail-create"})");
    EXPECT_EQ(plugin.create_rc(), CAPSTAN_E_INVALID);
    EXPECT_FALSE(plugin.running());
    EXPECT_NE(
        host_.logs().back().fields_json.find("create fails because the configuration asks for it"),
        std::string::npos);
}

TEST_F(MisbehavingTest, LeaksAndUnknownCodesAreSeen) {
    EXPECT_EQ(reconcile("leak-object").leaked_objects, 1U);
    EXPECT_EQ(reconcile("unknown-code").rc, 4711);
    EXPECT_EQ(reconcile("none").rc, CAPSTAN_OK);
}

TEST_F(MisbehavingTest, ServicesReturnThrowOrWaitForCancellation) {
    PluginUnderTest returns(host_, &misbehaving_entry, R"({"behaviour":"service-returns"})");
    EXPECT_EQ(returns.run_service("worker"), CAPSTAN_OK);
    PluginUnderTest throws(host_, &misbehaving_entry, R"({"behaviour":"service-throws"})");
    EXPECT_EQ(throws.run_service("worker"), CAPSTAN_E_PANIC);
    PluginUnderTest waits(host_, &misbehaving_entry);
    host_.at(host_.now() + std::chrono::minutes(5), [this] { host_.cancel(); });
    const MonotonicTime before = host_.now();
    EXPECT_EQ(waits.run_service("worker"), CAPSTAN_OK);
    EXPECT_EQ(host_.now() - before, std::chrono::minutes(5));
}

}  // namespace
}  // namespace capstan::plugin
