#include "runtime/kube/exec_plugin.hpp"

#include "test/fakes/virtual_loop.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

namespace capstan::kube {
namespace {

using namespace std::chrono_literals;

constexpr const char* kV1 = "client.authentication.k8s.io/v1";

std::string credential(const std::string& status) {
    return R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":)" +
           status + "}";
}

struct Running final : net::RunningCommand {
    explicit Running(int& e) : ended(e) {}
    ~Running() override { ++ended; }
    int& ended;
};

struct ExecTest : testing::Test, ExecObserver {
    test::VirtualLoop loop;
    std::deque<Result<net::CommandResult>> answers;
    std::vector<net::Command> started;
    net::CommandDone pending;
    std::vector<std::string> pairs;
    Result<void> pair_result{ok()};
    std::vector<std::string> calls;
    std::optional<WallTime> expiry;
    int ended{0};
    std::unique_ptr<TokenSource> tokens;

    void SetUp() override { make({kV1, {"get-token", "-x"}, {"A=1"}, "install it", {}}); }
    void make(ExecConfig config) {
        tokens = make_exec_tokens(
            loop,
            std::move(config),
            [this](net::Command command, net::CommandDone done) {
                started.push_back(std::move(command));
                pending = std::move(done);
                return std::make_unique<Running>(ended);
            },
            [this](const std::string& certificate, const std::string& key) -> Result<void> {
                pairs.push_back(certificate + "/" + key);
                return pair_result;
            },
            this);
    }
    void exec_called(int code, std::string_view status) override {
        calls.push_back(std::to_string(code) + " " + std::string(status));
    }
    void exec_expires(std::optional<WallTime> when) override { expiry = when; }

    void prints(const std::string& status, int code = 0, const std::string& errors = "") {
        answer(net::CommandResult{code, credential(status), errors});
    }
    void answer(Result<net::CommandResult> result) {
        ASSERT_TRUE(pending) << "nothing runs";
        std::exchange(pending, nullptr)(std::move(result));
        loop.run_ready();
    }
    std::string token() {
        const auto result = tokens->token();
        return result ? result.value() : "error: " + result.error().message;
    }
};

TEST_F(ExecTest, OneRunServesAllWhoWait) {
    int served = 0;
    EXPECT_FALSE(tokens->ready([&] { ++served; }));
    EXPECT_FALSE(tokens->ready([&] { ++served; }));
    ASSERT_EQ(started.size(), 1u);
    EXPECT_EQ(started[0].argv, (std::vector<std::string>{"get-token", "-x"}));
    EXPECT_EQ(started[0].environment[0], "A=1");
    EXPECT_EQ(
        started[0].environment[1],
        R"(KUBERNETES_EXEC_INFO={"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}})");
    prints(R"({"token":"one"})");
    EXPECT_EQ(served, 2);
    EXPECT_EQ(token(), "one");
    EXPECT_EQ(calls, (std::vector<std::string>{"0 no_error"}));
    loop.run_for(48h);
    EXPECT_TRUE(tokens->ready([] {})) << "without an expiry it serves until it is refused";
}

TEST_F(ExecTest, RunsAgainShortlyBeforeTheExpiry) {
    EXPECT_FALSE(tokens->ready([] {}));
    prints(R"({"token":"one","expirationTimestamp":")" + to_rfc3339(loop.wall_now() + 10min) +
           "\"}");
    EXPECT_EQ(expiry, loop.wall_now() + 10min);
    loop.run_for(589s);
    EXPECT_TRUE(tokens->ready([] {}));
    loop.run_for(2s);
    EXPECT_FALSE(tokens->ready([] {}));
    prints(R"({"token":"two"})");
    EXPECT_EQ(token(), "two");
}

TEST_F(ExecTest, ARefusalRunsItOnceAndNotInARow) {
    EXPECT_FALSE(tokens->ready([] {}));
    prints(R"({"token":"one"})");
    EXPECT_FALSE(tokens->refused("one")) << "it is brand new";
    loop.run_for(kExecPauseMin);
    EXPECT_TRUE(tokens->refused("one"));
    EXPECT_FALSE(tokens->ready([] {}));
    EXPECT_EQ(started.size(), 2u);
    prints(R"({"token":"two"})");
    EXPECT_TRUE(tokens->refused("one")) << "another call's old token: the new one may do";
    EXPECT_FALSE(tokens->refused("two"));
    EXPECT_EQ(started.size(), 2u);
}

TEST_F(ExecTest, TakesClientCertificates) {
    EXPECT_FALSE(tokens->ready([] {}));
    prints(R"({"clientCertificateData":"C","clientKeyData":"K"})");
    EXPECT_EQ(pairs, (std::vector<std::string>{"C/K"}));
    EXPECT_EQ(token(), "") << "no header";
    EXPECT_TRUE(tokens->ready([] {}));
}

TEST_F(ExecTest, TellsTheClusterWhenAsked) {
    ExecConfig config{kV1, {"p"}, {}, "", json::Value{{"server", "https://a"}}};
    make(std::move(config));
    EXPECT_FALSE(tokens->ready([] {}));
    EXPECT_NE(started[0].environment[0].find(R"("cluster":{"server":"https://a"})"),
              std::string::npos);
}

TEST_F(ExecTest, AFailureIsSaidAndTriedAgainLater) {
    int told = 0;
    EXPECT_FALSE(tokens->ready([&] { ++told; }));
    EXPECT_EQ(tokens->token().error().code, Code::timeout) << "it has not answered yet";
    answer(net::CommandResult{3, "", "asking the door\nno session\n \n"});
    EXPECT_EQ(told, 1);
    EXPECT_EQ(token(), "error: credential plugin get-token: exit code 3: \"no session\"");
    EXPECT_EQ(tokens->trouble(), tokens->token().error().message);
    EXPECT_TRUE(tokens->ready([] {})) << "not at once again";
    EXPECT_EQ(started.size(), 1u);
    loop.run_for(kExecPauseMin);
    EXPECT_FALSE(tokens->ready([] {}));
    answer(fail(Code::not_found, "No such file or directory"));
    EXPECT_EQ(token(), "error: credential plugin get-token: No such file or directory; install it");
    EXPECT_EQ(calls,
              (std::vector<std::string>{"3 plugin_execution_error", "-1 plugin_not_found_error"}));
    EXPECT_EQ(tokens->token().error().code, Code::unavailable);
    loop.run_for(kExecPauseMin);
    EXPECT_FALSE(tokens->ready([] {}));
    answer(net::CommandResult{1, "", ""});
    EXPECT_EQ(token(),
              "error: credential plugin get-token: exit code 1: it says nothing on stderr");
    loop.run_for(kExecPauseMin);
    EXPECT_FALSE(tokens->ready([] {}));
    prints(R"({"token":"one"})");
    EXPECT_EQ(tokens->trouble(), "");
}

TEST_F(ExecTest, ClosingEndsTheProgramAndTellsNobody) {
    bool told = false;
    EXPECT_FALSE(tokens->ready([&told] { told = true; }));
    EXPECT_EQ(ended, 0);
    tokens->close();
    EXPECT_EQ(ended, 1);
    loop.run_ready();
    EXPECT_FALSE(told);
}

TEST_F(ExecTest, AnOldTokenOutlivesAFailure) {
    EXPECT_FALSE(tokens->ready([] {}));
    prints(R"({"token":"one","expirationTimestamp":")" + to_rfc3339(loop.wall_now() + 1min) +
           "\"}");
    loop.run_for(55s);
    EXPECT_FALSE(tokens->ready([] {}));
    answer(fail(Code::timeout, "no end within 60 s"));
    EXPECT_EQ(token(), "one");
}

struct OutputRow {
    const char* name;
    std::string output;
    const char* text;
};

class ExecOutput : public testing::TestWithParam<OutputRow> {};

TEST_P(ExecOutput, IsRefusedWithTheReason) {
    const auto parsed = parse_credential(GetParam().output, kV1);
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, Code::invalid);
    EXPECT_NE(parsed.error().message.find(GetParam().text), std::string::npos)
        << parsed.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    ExecOutput,
    testing::Values(
        OutputRow{"no_json", "token", "its output is no JSON"},
        OutputRow{"other_kind", "{}", "its output is no ExecCredential of client.auth"},
        OutputRow{
            "other_version",
            R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"t"}})",
            "no ExecCredential of client.authentication.k8s.io/v1"},
        OutputRow{"nothing", credential("{}"), "neither a token nor a client certificate"},
        OutputRow{"half_pair",
                  credential(R"({"clientKeyData":"K"})"),
                  "clientCertificateData and clientKeyData are needed together"},
        OutputRow{"writes_headers",
                  credential(R"({"token":"a\r\nX: y"})"),
                  "status.token cannot be a header"},
        OutputRow{"no_time",
                  credential(R"({"token":"t","expirationTimestamp":"soon"})"),
                  "status.expirationTimestamp is no time"}),
    [](const auto& row) { return row.param.name; });

struct ConfigRow {
    const char* name;
    const char* text;
    Code code;
    const char* message;
};

class ExecConfigRefused : public testing::TestWithParam<ConfigRow> {};

TEST_P(ExecConfigRefused, WithTheFieldNamed) {
    const json::Value exec = json::parse(GetParam().text).value();
    const auto parsed = parse_exec(json::View(exec), "/d");
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, GetParam().code);
    EXPECT_NE(parsed.error().message.find(GetParam().message), std::string::npos)
        << parsed.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    ExecConfigRefused,
    testing::Values(
        ConfigRow{"version",
                  R"({"apiVersion":"client.authentication.k8s.io/v1alpha1","command":"x"})",
                  Code::invalid,
                  "exec.apiVersion is \"client.authentication.k8s.io/v1alpha1\""},
        ConfigRow{"command",
                  R"({"apiVersion":"client.authentication.k8s.io/v1beta1"})",
                  Code::invalid,
                  "exec.command is missing"},
        ConfigRow{"mode",
                  R"({"apiVersion":"client.authentication.k8s.io/v1","command":"x"})",
                  Code::invalid,
                  "exec.interactiveMode must be"},
        ConfigRow{
            "terminal",
            R"({"apiVersion":"client.authentication.k8s.io/v1","command":"x","interactiveMode":"Always"})",
            Code::unsupported,
            "there is no terminal"},
        ConfigRow{
            "variable",
            R"({"apiVersion":"client.authentication.k8s.io/v1beta1","command":"x","env":[{"value":"v"}]})",
            Code::invalid,
            "exec.env needs"}),
    [](const auto& row) { return row.param.name; });

TEST(ExecConfigText, PathsStartAtTheKubeconfig) {
    const json::Value exec = json::parse(R"({"apiVersion":"client.authentication.k8s.io/v1",
        "command":"./bin/x","args":["a","b c"],"env":[{"name":"N","value":"v"}],
        "interactiveMode":"IfAvailable","installHint":"h"})")
                                 .value();
    const auto parsed = parse_exec(json::View(exec), "/d");
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed.value().argv, (std::vector<std::string>{"/d/./bin/x", "a", "b c"}));
    EXPECT_EQ(parsed.value().environment, (std::vector<std::string>{"N=v"}));
}

}  // namespace
}  // namespace capstan::kube
