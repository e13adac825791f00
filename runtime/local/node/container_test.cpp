// Real processes: every test has a limit and ends only what it started.
#include "runtime/local/node/container.hpp"

#include "runtime/local/node/files.hpp"
#include "runtime/local/node/test_loop.hpp"

#include <gtest/gtest.h>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <random>

namespace capstan::local {
namespace {

using namespace std::chrono_literals;
constexpr auto kLimit = 20s;

std::string make_temp_dir() {
    std::string path = "/tmp/capstan-node-test-XXXXXX";
    CAPSTAN_CHECK(::mkdtemp(path.data()) != nullptr, path);
    return path;
}

class ContainerTest : public ::testing::Test {
protected:
    void SetUp() override {
        auto watcher = ProcessWatcher::create(loop);
        ASSERT_TRUE(watcher.has_value());
        watcher_ = std::move(watcher).value();
    }
    void TearDown() override {
        for (const pid_t pid : find_by_environment("CAPSTAN_TEST_DIR=" + dir)) {
            ::kill(pid, SIGKILL);
        }
        watcher_.reset();
        ASSERT_TRUE(remove_tree(dir).has_value());
    }
    SpawnRequest shell(const std::string& script) {
        return {"/bin/sh",
                {"sh", "-c", script},
                {"PATH=/usr/bin:/bin", "CAPSTAN_TEST_DIR=" + dir},
                dir,
                ""};
    }
    std::unique_ptr<Container> make() {
        return std::make_unique<Container>(loop, *watcher_, dir + "/c", [this] { ++changes; });
    }
    bool wait_changes(int count) {
        return loop.run_until([&] { return changes >= count; }, kLimit);
    }
    bool wait_file(const std::string& name) {
        return loop.run_until([&] { return ::access((dir + "/" + name).c_str(), F_OK) == 0; },
                              kLimit);
    }

    testing::RealLoop loop;
    std::string dir{make_temp_dir()};
    std::unique_ptr<ProcessWatcher> watcher_;
    int changes{0};
};

TEST_F(ContainerTest, RecordsExitCodeAndOutput) {
    auto container = make();
    ASSERT_TRUE(container->start(shell("echo out; echo err >&2; exit 7")).has_value());
    ASSERT_TRUE(wait_changes(1));
    ASSERT_TRUE(container->record().ended.has_value());
    EXPECT_EQ(container->record().ended->code, 7);
    EXPECT_EQ(container->record().ended->reason, "Error");
    EXPECT_EQ(read_file(container->log_path(0)).value(), "out\nerr\n");
}

TEST_F(ContainerTest, ProgramSeesOnlyItsStandardDescriptorsAndDefaultSignals) {
    ::signal(SIGUSR1, SIG_IGN);
    auto container = make();
    ASSERT_TRUE(
        container->start(shell("grep SigIgn /proc/$$/status; exec ls /proc/self/fd")).has_value());
    ASSERT_TRUE(wait_changes(1));
    ::signal(SIGUSR1, SIG_DFL);
    // 3 is ls's
    EXPECT_EQ(read_file(container->log_path(0)).value(), "SigIgn:\t0000000000000000\n0\n1\n2\n3\n");
}

TEST_F(ContainerTest, MissingProgramIsAStartErrorAndNothingRuns) {
    auto container = make();
    auto request = shell("true");
    request.path = "/nonexistent/etcd";
    const auto started = container->start(request);
    ASSERT_FALSE(started.has_value());
    EXPECT_EQ(started.error().message, "start /nonexistent/etcd: No such file or directory");
    EXPECT_FALSE(container->running());
    EXPECT_EQ(container->record().ended->reason, "StartError");
}

TEST_F(ContainerTest, UnwritableRecordMeansTheProgramNeverRan) {
    auto container = make();
    // open for writing fails on a directory
    ASSERT_TRUE(make_dirs(dir + "/c/record.json.tmp").has_value());
    const auto started = container->start(shell("touch ran"));
    ASSERT_FALSE(started.has_value());
    EXPECT_NE(started.error().message.find("record.json"), std::string::npos);
    EXPECT_TRUE(find_by_environment("CAPSTAN_TEST_DIR=" + dir).empty());
    EXPECT_NE(::access((dir + "/ran").c_str(), F_OK), 0);
}

TEST_F(ContainerTest, StopAsksFirst) {
    auto container = make();
    ASSERT_TRUE(
        container->start(shell("trap 'exit 0' TERM; touch up; while :; do sleep 0.02; done"))
            .has_value());
    ASSERT_TRUE(wait_file("up"));
    container->stop(30s, "test");
    ASSERT_TRUE(wait_changes(1));
    EXPECT_EQ(container->record().ended->code, 0);
}

TEST_F(ContainerTest, StopKillsAfterTheGraceAndTakesChildrenAlong) {
    auto container = make();
    ASSERT_TRUE(
        container->start(shell("trap '' TERM; sleep 1000 & touch up; wait; wait")).has_value());
    ASSERT_TRUE(wait_file("up"));
    container->stop(0s, "test");
    ASSERT_TRUE(wait_changes(1));
    EXPECT_EQ(container->record().ended->code, 128 + SIGKILL);
    EXPECT_TRUE(loop.run_until(
        [&] { return find_by_environment("CAPSTAN_TEST_DIR=" + dir).empty(); }, kLimit));
}

TEST_F(ContainerTest, SecondNodeAdoptsTheRunningProcess) {
    auto first = make();
    ASSERT_TRUE(first->start(shell("while [ ! -e stop ]; do sleep 0.02; done")).has_value());
    const auto identity = first->record().process;
    first.reset();
    auto second = make();
    ASSERT_TRUE(second->adopt().has_value());
    EXPECT_TRUE(second->running());
    EXPECT_EQ(second->record().process, identity);
    ASSERT_TRUE(write_file(dir + "/stop", "", 0600).has_value());
    ASSERT_TRUE(wait_changes(1));
    EXPECT_FALSE(second->running());
}

TEST_F(ContainerTest, PidOfAnotherProcessIsNotAdopted) {
    auto first = make();
    ASSERT_TRUE(first->start(shell("exec sleep 1000")).has_value());
    auto record = first->record();
    first.reset();
    ++record.process.start_ticks;  // as if the pid had been given away
    ASSERT_TRUE(write_file(dir + "/c/record.json", json::dump(to_json(record)), 0600).has_value());
    auto second = make();
    ASSERT_TRUE(second->adopt().has_value());
    EXPECT_FALSE(second->running());
    ASSERT_TRUE(second->record().ended.has_value());
    EXPECT_EQ(second->record().ended->code, std::nullopt);
    // And it was left alone.
    EXPECT_TRUE(loop.run_until(
        [&] { return find_by_environment("CAPSTAN_TEST_DIR=" + dir).size() == 1; }, kLimit));
}

TEST_F(ContainerTest, DamagedRecordIsAnError) {
    ASSERT_TRUE(make_dirs(dir + "/c").has_value());
    ASSERT_TRUE(write_file(dir + "/c/record.json", "{\"attempt\":", 0600).has_value());
    EXPECT_FALSE(make()->adopt().has_value());
}

// A process that starts or adopts one container, then waits to be killed. Runs in a forked child.
[[noreturn]] void run_node_life(const std::string& dir, const SpawnRequest& request) {
    testing::RealLoop loop;
    auto watcher = ProcessWatcher::create(loop);
    if (!watcher.has_value()) {
        ::_exit(2);
    }
    Container container(loop, *watcher.value(), dir + "/c", [] {});
    if (!container.adopt().has_value()) {
        ::_exit(3);
    }
    if (!container.running() && !container.start(request).has_value()) {
        ::_exit(4);
    }
    loop.run_until([] { return false; }, kLimit);
    ::_exit(5);
}

// The promise of adoption: whenever the node is killed, the next one ends up
// with exactly one process.
TEST_F(ContainerTest, KilledAtRandomMomentsThereIsExactlyOneProcess) {
    const auto seed = std::random_device{}();
    RecordProperty("seed", static_cast<int>(seed));
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> wait_us(0, 6'000);
    const auto request = shell("exec sleep 1000");
    watcher_.reset();  // no thread of ours across fork
    int rounds_with_process = 0;
    for (int round = 0; round < 60; ++round) {
        // Every third life starts from nothing, so the window between fork and record is hit often.
        const bool fresh = round % 3 == 0;
        if (fresh) {
            for (const pid_t pid : find_by_environment("CAPSTAN_TEST_DIR=" + dir)) {
                ::kill(pid, SIGKILL);
            }
        }
        const pid_t node = ::fork();
        ASSERT_GE(node, 0);
        if (node == 0) {
            run_node_life(dir, request);
        }
        const auto moment = loop.now() + std::chrono::microseconds(wait_us(random));
        while (loop.now() < moment) {
            ::sched_yield();  // finer than any timer; at most 6 ms
        }
        ::kill(node, SIGKILL);
        int status = 0;
        ::waitpid(node, &status, 0);
        ASSERT_TRUE(WIFSIGNALED(status)) << "seed " << seed << " exit " << WEXITSTATUS(status);
        const auto running = find_by_environment("CAPSTAN_TEST_DIR=" + dir).size();
        ASSERT_LE(running, 1u) << "seed " << seed << " round " << round;
        rounds_with_process += running == 1 ? 1 : 0;
    }
    SetUp();
    auto last = make();
    ASSERT_TRUE(last->adopt().has_value());
    // What was adopted may be a child whose gate has just closed: it ends by
    // itself and is replaced.
    std::vector<pid_t> running;
    ASSERT_TRUE(loop.run_until(
        [&] {
            if (!last->running()) {
                EXPECT_TRUE(last->start(request).has_value());
            }
            running = find_by_environment("CAPSTAN_TEST_DIR=" + dir);
            return running.size() == 1 && last->running();
        },
        kLimit));
    ASSERT_EQ(running.size(), 1u) << "seed " << seed;
    EXPECT_EQ(running[0], last->record().process.pid) << "seed " << seed;
    RecordProperty("rounds_with_process", rounds_with_process);
}

}  // namespace
}  // namespace capstan::local
