// Commands of plugins at the border: a plugin in C as built and loaded for real, one in C++ linked
// in, and a file whose manifest and code do not agree.
#include "capstan/cli.hpp"
#include "capstan/testing/fake_cli.hpp"
#include "test/abi/abi_fixture.hpp"

#include <stdexcept>

namespace capstan::plugin {
namespace {

using capstan::testing::CommandInput;
using capstan::testing::CommandOutput;
using capstan::testing::FakeHost;
using capstan::testing::PluginUnderTest;
using capstan::testing::run_command;

const capstan_plugin* g_commands = nullptr;
const capstan_plugin* commands_entry(const capstan_host*) noexcept {
    return g_commands;
}

class CommandModule : public AbiTest {
protected:
    void SetUp() override {
        Loader plugins = loader();
        auto candidate = plugins.check(test_plugin("commands"));
        ASSERT_TRUE(candidate) << candidate.error().message;
        const auto module = plugins.load(std::move(candidate).value(), host_.host());
        ASSERT_TRUE(module) << module.error().message;
        EXPECT_NE(module.value()->cli(), nullptr);
        g_commands = &module.value()->table();
    }
    CommandOutput run(std::string_view command, const CommandInput& input = {}) {
        return run_command(host_, &commands_entry, command, input);
    }
};

TEST_F(CommandModule, GetsItsArgumentsAsTheyAre) {
    CommandInput input;
    input.args = {"a b", "", "--c=\xff"};
    const CommandOutput said = run("echo", input);
    EXPECT_EQ(said.rc, CAPSTAN_OK);
    EXPECT_EQ(said.exit_code, 0);
    EXPECT_EQ(said.out, "a b\n\n--c=\xff\n");
}

TEST_F(CommandModule, ReadsVariablesAndInput) {
    CommandInput input;
    input.args = {"HOME"};
    EXPECT_EQ(run("variable", input).err, "not set\n");
    input.environment["HOME"] = "/home/me";
    EXPECT_EQ(run("variable", input).out, "/home/me");
    input.in = std::string(10'000, 'x');
    EXPECT_EQ(run("count", input).out, "10000\n");
    host_.cancel();
    const CommandOutput cancelled = run("count", input);
    EXPECT_EQ(cancelled.exit_code, CAPSTAN_EXIT_FAILED);
    EXPECT_EQ(cancelled.err, "interrupted\n");
}

TEST_F(CommandModule, SaysWhatItDoesNotKnow) {
    EXPECT_EQ(run("other").rc, CAPSTAN_E_NOT_FOUND);
    host_.fail_call(1, CAPSTAN_E_UNAVAIL);
    CommandInput input;
    input.args = {"x"};
    EXPECT_EQ(run("echo", input).exit_code, CAPSTAN_EXIT_FAILED);
}

using CommandManifest = AbiTest;

TEST_F(CommandManifest, WithoutCodeIsRefused) {
    EXPECT_NE(refusal(test_plugin("commandless"))
                  .find("its manifest names commands in \"cli\", its code has no capstan.cli/1"),
              std::string::npos);
}

TEST_F(CommandManifest, IsShownByInspect) {
    const std::string text = to_text(inspect(test_plugin("commands")));
    EXPECT_NE(text.find("commands:     echo, variable, count, code, endless\n"), std::string::npos)
        << text;
}

// ---- the C++ face

constexpr const char* kParts = "controller c\ncommand hello\ncommand throw\n";
bool g_adds_hello = true;

class Idle final : public Controller {
public:
    Outcome reconcile(Call&, const Request&) override { return Outcome::done(); }
};

int hello(CommandCall& command) {
    if (command.args().empty()) {
        command.complain("usage: hello NAME\n");
        return CAPSTAN_EXIT_USAGE;
    }
    const std::string greeting = command.environment("GREETING").value_or("hello");
    const std::string end = command.is_terminal(CAPSTAN_STDOUT) ? "!" : "";
    return command.print(greeting + " " + command.args()[0] + end + "\n") ? CAPSTAN_EXIT_GOOD
                                                                          : CAPSTAN_EXIT_FAILED;
}

Result<void> make_plugin(Setup& setup) {
    if (g_adds_hello) {
        add_command(setup, "hello", &hello);
    }
    add_command(setup, "throw", [](CommandCall&) -> int { throw std::runtime_error("oh"); });
    if (is_for_command(setup)) {
        return ok();
    }
    setup.controller("c", std::make_unique<Idle>());
    return ok();
}

const capstan_plugin* entry(const capstan_host* host) noexcept {
    return detail::plugin_entry(host, &make_plugin, "c.example.com", "1.0.0", kParts);
}

TEST(Command, RunsWithoutAnInstance) {
    FakeHost host;
    CommandInput input;
    input.args = {"you"};
    EXPECT_EQ(run_command(host, &entry, "hello", input).out, "hello you\n");
    input.environment["GREETING"] = "good morning";
    input.terminals = 1U << CAPSTAN_STDOUT;
    EXPECT_EQ(run_command(host, &entry, "hello", input).out, "good morning you!\n");
    const CommandOutput usage = run_command(host, &entry, "hello");
    EXPECT_EQ(usage.exit_code, CAPSTAN_EXIT_USAGE);
    EXPECT_EQ(usage.err, "usage: hello NAME\n");
    const PluginUnderTest instance(host, &entry);
    EXPECT_EQ(instance.create_rc(), CAPSTAN_OK) << "its parts are those of the manifest";
}

TEST(Command, ExceptionEndsAtTheBorder) {
    FakeHost host;
    EXPECT_EQ(run_command(host, &entry, "throw").rc, CAPSTAN_E_PANIC);
}

TEST(Command, LeftOutIsToldAtCreateAndWhenRun) {
    FakeHost host;
    g_adds_hello = false;
    const CommandOutput said = run_command(host, &entry, "hello");
    const PluginUnderTest instance(host, &entry);
    g_adds_hello = true;
    EXPECT_EQ(said.exit_code, CAPSTAN_EXIT_PLUGIN);
    EXPECT_NE(said.err.find("adds no such command"), std::string::npos);
    EXPECT_EQ(instance.create_rc(), CAPSTAN_E_INVALID);
    EXPECT_NE(host.logs().back().fields_json.find("adds no command hello"), std::string::npos);
}

}  // namespace
}  // namespace capstan::plugin
