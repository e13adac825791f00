// Files that must not become plugins: each is refused with its own sentence,
// before any of its code runs.
#include "test/abi/abi_fixture.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <ostream>

namespace capstan::plugin {
namespace {

struct Row {
    const char* name;
    const char* sentence;  // without the path
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
    return out << row.name;
}

class RefusedModule : public AbiTest, public ::testing::WithParamInterface<Row> {};

TEST_P(RefusedModule, SaysWhy) {
    const std::string file = test_plugin(GetParam().name);
    ASSERT_TRUE(std::filesystem::exists(file));
    EXPECT_EQ(refusal(file), file + ": " + GetParam().sentence);
}

INSTANTIATE_TEST_SUITE_P(
    Modules,
    RefusedModule,
    ::testing::Values(
        Row{"no-note",
            "has no CAPSTAN manifest note: it is no plugin, or was linked without its manifest"},
        Row{"two-notes", "has 2 CAPSTAN manifest notes, where one is expected"},
        Row{"big-note", "has a CAPSTAN note of 300 KiB; at most 256 KiB are read"},
        Row{"bad-json", "manifest: the manifest is no valid JSON: offset 8: Invalid value."},
        Row{"future-major",
            "manifest: /abi/major: the plugin speaks ABI major 2, this host speaks 1.0; rebuild "
            "the plugin with this host's SDK"},
        Row{"future-minor",
            "manifest: /abi/minMinor: the plugin needs ABI 1.7, this host speaks 1.0; use a newer "
            "host"},
        Row{"undeclared",
            "manifest: /controllers/0/watches: watches v1/ConfigMap without the permission to "
            "list, watch configmaps of group \"\""},
        Row{"no-entry", "does not export capstan_plugin_entry"},
        Row{"extra-export",
            "exports 2 symbols (capstan_test_extra_export among them), where only "
            "capstan_plugin_entry is allowed; link with the SDK's version script"},
        Row{"static-tls",
            "uses static thread-local storage, of which a process has very little; compile with "
            "-ftls-model=global-dynamic"},
        Row{"run-path", "has the run path \"/opt/somewhere\"; link without -rpath"},
        Row{"executable-stack", "asks for an executable stack; link with -z noexecstack"},
        Row{"other-id",
            "its code says it is other.capstan.dev 0.1.0, its manifest says minimal.capstan.dev "
            "0.1.0"},
        Row{"refusing", "it refuses to be loaded: the moon is not full"}));

using RefusedFile = AbiTest;

TEST_F(RefusedFile, DependencyIsNamed) {
    const std::string why = refusal(test_plugin("dependent"));
    EXPECT_NE(why.find("depends on libcapstan-test-dependency.so; only libc, libm, libstdc++, "
                       "libgcc_s and libz may be shared"),
              std::string::npos)
        << why;
}

TEST_F(RefusedFile, UndefinedSymbolFailsAtLoadAndIsNamed) {
    const std::string why = refusal(test_plugin("undefined-symbol"));
    EXPECT_NE(why.find("the dynamic loader refuses it"), std::string::npos) << why;
    EXPECT_NE(why.find("capstan_test_nobody_defines_this"), std::string::npos) << why;
}

// Seen in a child process: this one could not go on after either.
TEST_F(RefusedFile, StaticInitialisationThatThrowsOrCrashes) {
    const std::string throws = refusal(test_plugin("throwing-constructor"));
    EXPECT_NE(throws.find("its static initialisation ends the process with signal 6"),
              std::string::npos)
        << throws;
    EXPECT_NE(throws.find("thrown by a static object"), std::string::npos) << throws;
    const std::string crashes = refusal(test_plugin("crashing-constructor"));
    EXPECT_NE(crashes.find("signal 6 (Aborted): about to abort"), std::string::npos) << crashes;
    EXPECT_EQ(refusal(test_plugin("minimal")), "") << "the others go on";
}

TEST_F(RefusedFile, StaticInitialisationThatDoesNotEnd) {
    LoaderOptions options;
    options.cache_dir = path("cache");
    options.trial_limit = std::chrono::milliseconds(100);
    Loader plugins(std::move(options));
    auto candidate = plugins.check(test_plugin("endless-constructor"));
    ASSERT_TRUE(candidate);
    const auto module = plugins.load(std::move(candidate).value(), host_.host());
    ASSERT_FALSE(module);
    EXPECT_NE(module.error().message.find("did not end within 100 ms"), std::string::npos);
}

TEST_F(RefusedFile, TextEmptyAbsentDirectoryAndLink) {
    EXPECT_EQ(refusal(write("text.so", std::string(200, 'x'))),
              path("text.so") + ": is not an ELF file");
    EXPECT_EQ(refusal(write("short.so", "hello")), path("short.so") + ": is not an ELF file");
    EXPECT_EQ(refusal(write("empty.so", "")), path("empty.so") + ": is empty");
    EXPECT_EQ(refusal(path("absent.so")), path("absent.so") + ": does not exist");
    EXPECT_EQ(refusal(directory_), directory_ + ": is not a regular file");
    ASSERT_EQ(::symlink("loop.so", path("loop.so").c_str()), 0);
    EXPECT_EQ(refusal(path("loop.so")),
              path("loop.so") + ": is a symbolic link; give the path of the file itself");
    ASSERT_EQ(::mkfifo(path("fifo.so").c_str(), 0600), 0);
    EXPECT_EQ(refusal(path("fifo.so")), path("fifo.so") + ": is not a regular file");
}

TEST_F(RefusedFile, OtherArchitectureAndOtherKinds) {
    std::string bytes = read_bytes(test_plugin("minimal"));
    ASSERT_GT(bytes.size(), 64U);
    const std::string good = bytes;
    bytes[18] = static_cast<char>(0xB7);  // e_machine: aarch64
#if defined(__x86_64__)
    EXPECT_EQ(refusal(write("arm.so", bytes)),
              path("arm.so") + ": is built for aarch64, this host is x86-64");
#endif
    bytes = good;
    bytes[4] = 1;  // 32-bit
    EXPECT_EQ(refusal(write("narrow.so", bytes)),
              path("narrow.so") + ": is not a 64-bit little-endian ELF file");
    bytes = good;
    bytes[16] = 1;  // relocatable
    EXPECT_EQ(refusal(write("object.so", bytes)),
              path("object.so") + ": is an ELF file but not a shared object");
}

TEST_F(RefusedFile, EveryTruncationIsRefused) {
    const std::string bytes = read_bytes(test_plugin("minimal"));
    // Behind the last loaded segment lie only section headers and symbols for
    // debuggers; find where it ends.
    std::size_t loaded = 0;
    for (std::size_t i = 0; i < static_cast<unsigned char>(bytes[56]); ++i) {
        const std::size_t at = 64 + 56 * i;
        const auto number = [&](std::size_t offset) {
            std::uint64_t value = 0;
            for (std::size_t k = 8; k-- > 0;) {
                value = value << 8U | static_cast<unsigned char>(bytes[offset + k]);
            }
            return value;
        };
        if (bytes[at] == 1) {
            loaded = std::max<std::size_t>(
                loaded, static_cast<std::size_t>(number(at + 8) + number(at + 32)));
        }
    }
    ASSERT_GT(loaded, 1000U);
    for (std::size_t cut = 0; cut < loaded; cut += 1 + cut / 40) {
        EXPECT_NE(inspect(write("cut.so", bytes.substr(0, cut))).problems.size(), 0U)
            << "cut at " << cut;
    }
    // section headers are optional
    EXPECT_EQ(refusal(write("stripped-of-sections.so", bytes.substr(0, loaded))), "");
}

TEST_F(RefusedFile, WritableByEveryone) {
    const std::string bytes = read_bytes(test_plugin("minimal"));
    const std::string file = write("open.so", bytes);
    ASSERT_EQ(::chmod(file.c_str(), 0666), 0);
    EXPECT_EQ(refusal(file), file + ": is writable by everyone; chmod o-w it");
    ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
    EXPECT_EQ(refusal(file), "");
    std::filesystem::create_directory(path("open"));
    ASSERT_EQ(::chmod(path("open").c_str(), 0777), 0);
    const std::string inside = write("open/plugin.so", bytes);
    EXPECT_EQ(
        refusal(inside),
        inside + ": lies in " + path("open") + ", which is writable by everyone; chmod o-w it");
}

TEST_F(RefusedFile, CacheDirectoryOfOthers) {
    std::filesystem::create_directory(path("cache"));
    ASSERT_EQ(::chmod(path("cache").c_str(), 0777), 0);
    const std::string file = test_plugin("minimal");
    EXPECT_EQ(refusal(file),
              file + ": the directory " + path("cache") +
                  " must belong to this user and be writable by nobody else");
}

TEST_F(RefusedFile, InspectionRunsNoCode) {
    const std::string marker = path("marker");
    ASSERT_EQ(::setenv("CAPSTAN_TEST_MARKER", marker.c_str(), 1), 0);
    const Report report = inspect(test_plugin("constructor"));
    EXPECT_TRUE(report.loadable()) << to_text(report);
    EXPECT_GE(report.elf->constructor_count, 1U);
    Loader plugins = loader();
    auto candidate = plugins.check(test_plugin("constructor"));
    ASSERT_TRUE(candidate);
    EXPECT_FALSE(std::filesystem::exists(marker));
    EXPECT_TRUE(plugins.load(std::move(candidate).value(), host_.host()));
    EXPECT_TRUE(std::filesystem::exists(marker));  // the plugin of this test does what it should
}

TEST_F(RefusedFile, SameIdTwiceWhileTheFirstGoesOn) {
    Loader plugins = loader();
    auto first = plugins.check(test_plugin("minimal"));
    ASSERT_TRUE(first);
    auto second = plugins.check(test_plugin("constructor"));  // another file, the same id
    ASSERT_TRUE(second);
    const auto loaded = plugins.load(std::move(first).value(), host_.host());
    ASSERT_TRUE(loaded);
    const auto refused = plugins.load(std::move(second).value(), host_.host());
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("the plugin id minimal.capstan.dev is loaded already"),
              std::string::npos);
    const auto checked = plugins.check(test_plugin("minimal"));
    ASSERT_FALSE(checked);
    EXPECT_NE(checked.error().message.find("is loaded already, from " + loaded.value()->path()),
              std::string::npos);
    EXPECT_EQ(plugins.modules().size(), 1U);
}

}  // namespace
}  // namespace capstan::plugin
