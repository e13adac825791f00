#include "runtime/net/command.hpp"

#include "runtime/net/test_peers.hpp"

#include <gtest/gtest.h>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
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

// A program in another process that runs a command until it is killed.
[[noreturn]] void run_in_child(const std::string& script) {
    const auto loop = make_loop();
    const auto running =
        run_command(*loop, {{"sh", "-c", script}, {}, 60s}, [](const Result<CommandResult>&) {});
    loop->run_until([] { return false; }, 60s);
    ::_exit(0);
}

// What comes out of `fd` until a line or the end; "the test hangs" when nothing does.
std::string line_of(int fd) {
    std::string text;
    for (char c = 0; c != '\n';) {
        pollfd entry{fd, POLLIN, 0};
        if (::poll(&entry, 1, static_cast<int>(std::chrono::milliseconds(kLimit).count())) != 1) {
            return "the test hangs";
        }
        if (::read(fd, &c, 1) != 1) {
            break;
        }
        text += c;
    }
    return text;
}

TEST(Command, AKilledParentTakesTheChildWithIt) {
    int alive[2] = {-1, -1};  // written to by parent and child, so that it ends with both of them
    ASSERT_EQ(::pipe(alive), 0);
    const std::string script = "echo $$ >&" + std::to_string(alive[1]) + "; exec sleep 60";
    const pid_t parent = ::fork();
    if (parent == 0) {
        run_in_child(script);
    }
    ::close(alive[1]);
    const std::string child = line_of(alive[0]);
    EXPECT_EQ(::kill(std::atoi(child.c_str()), 0), 0) << child;
    ::kill(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
    EXPECT_EQ(line_of(alive[0]), "") << "it lives on";
    ::close(alive[0]);
}

TEST(Command, ProgramsAreFoundInThePath) {
    const auto loop = make_loop();
    const auto code = [&](const std::string& program) {
        std::optional<Result<CommandResult>> result;
        const auto running = run_command(
            *loop, {{program}, {}, 10s}, [&](Result<CommandResult> r) { result = std::move(r); });
        EXPECT_TRUE(loop->run_until([&] { return result.has_value(); }, kLimit));
        return *result ? Code::internal : result->error().code;
    };
    const char* const before = ::getenv("PATH");
    const std::string path = before == nullptr ? "" : before;
    ::setenv("PATH", ("/nowhere:/etc:" + path).c_str(), 1);
    EXPECT_EQ(code("true"), Code::internal) << "no error";
    EXPECT_EQ(code("passwd-is-not-there"), Code::not_found);
    EXPECT_EQ(code("hostname-is-not-there/x"), Code::not_found);
    ::setenv("PATH", "/etc", 1);
    EXPECT_EQ(code("passwd"), Code::unavailable) << "it is there but no program";
    ::setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace capstan::net
