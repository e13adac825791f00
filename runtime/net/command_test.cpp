#include "runtime/net/command.hpp"

#include "runtime/net/test_peers.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace capstan::net {
namespace {

using namespace std::chrono_literals;
using testing::kLimit;

struct CommandTest : ::testing::Test {
    std::unique_ptr<IoLoop> loop{make_loop()};

    Result<CommandResult> run(Command command) {
        std::optional<Result<CommandResult>> result;
        const auto running = run_command(
            *loop, std::move(command), [&](Result<CommandResult> r) { result = std::move(r); });
        EXPECT_FALSE(result) << "never inside the call";
        return loop->run_until([&] { return result.has_value(); }, kLimit)
                   ? std::move(*result)
                   : fail(Code::internal, "the test hangs");
    }
    Result<CommandResult> shell(const std::string& script) {
        return run({{"sh", "-c", script}, {"CAPSTAN_TEST=a b"}, 10s});
    }
};

TEST_F(CommandTest, GivesOutputErrorsAndCode) {
    const auto result = shell("echo \"$CAPSTAN_TEST\"; echo oops >&2; cat; exit 3");
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result.value().code, 3);
    EXPECT_EQ(result.value().output, "a b\n");
    EXPECT_EQ(result.value().errors, "oops\n");
    EXPECT_EQ(shell("kill -9 $$").value().code, 137);
}

TEST_F(CommandTest, SaysWhyItCannotStart) {
    EXPECT_EQ(run({{"/nowhere/plugin"}, {}, 10s}).error().code, Code::not_found);
    EXPECT_EQ(run({{"/etc/passwd"}, {}, 10s}).error().code, Code::unavailable);
}

TEST_F(CommandTest, EndsWhatTakesTooLong) {
    const auto result = run({{"sh", "-c", "sleep 60 & sleep 60"}, {}, 50ms});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::timeout);
}

TEST_F(CommandTest, LimitsOutputAndKeepsTheEndOfErrors) {
    EXPECT_EQ(shell("head -c 3000000 /dev/zero").error().code, Code::too_large);
    const auto loud = shell("head -c 3000000 /dev/zero >&2; echo end >&2");
    ASSERT_TRUE(loud) << loud.error().message;
    EXPECT_TRUE(loud.value().errors.ends_with("end\n"));
    EXPECT_LE(loud.value().errors.size(), 2 * kCommandErrorsBytesKept + 64 * 1024);
}

TEST_F(CommandTest, DoesNotWaitForGrandchildrenThatHoldTheOutput) {
    const auto result = shell("sleep 60 & echo done");
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result.value().output, "done\n");
}

TEST_F(CommandTest, DroppingTheHandleKills) {
    bool called = false;
    auto running = run_command(
        *loop, {{"sleep", "60"}, {}, 60s}, [&](const Result<CommandResult>&) { called = true; });
    bool later = false;
    loop->post([&] { later = true; });
    ASSERT_TRUE(loop->run_until([&] { return later; }, kLimit));
    running.reset();
    EXPECT_FALSE(called);
}

}  // namespace
}  // namespace capstan::net
