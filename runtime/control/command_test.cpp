// One run of a command on the real loop and a thread of its own.
#include "runtime/control/command.hpp"

#include "runtime/control/host_tables.hpp"
#include "runtime/net/io_loop.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <functional>
#include <optional>

namespace capstan::control {
namespace {

constexpr std::chrono::seconds kTestMax{30};

class NoServer final : public net::HttpClient {
public:
    std::unique_ptr<net::HttpExchange> send(
        net::HttpRequest, std::function<void(Result<net::HttpResponse>)> done) override {
        waiting.push_back(std::move(done));
        return nullptr;
    }
    std::unique_ptr<net::HttpStream> stream(net::HttpRequest,
                                            net::StreamOptions,
                                            net::StreamHandler) override {
        return nullptr;
    }
    std::vector<std::function<void(Result<net::HttpResponse>)>> waiting;
};

// What the command under test does; the C table has no context.
std::function<std::int32_t(capstan_call*, const capstan_command&)> g_body;
capstan_rc run_body(const capstan_host*,
                    capstan_call* call,
                    const capstan_command* command,
                    std::int32_t* exit_code) noexcept {
    *exit_code = g_body(call, *command);
    return CAPSTAN_OK;
}

class Command : public testing::Test {
protected:
    Command() {
        ::signal(SIGPIPE, SIG_IGN);
        manifest_.id = "c.example.com";
        EXPECT_EQ(::pipe(in_), 0);
        EXPECT_EQ(::pipe(out_), 0);
        EXPECT_EQ(::pipe(err_), 0);
        host_ = std::make_unique<CommandHost>(Parts{*loop_,
                                                    *threads_,
                                                    client_,
                                                    cache_,
                                                    {},
                                                    metrics_,
                                                    health_,
                                                    {},
                                                    [] { return std::uint64_t{4}; },
                                                    [this](const std::string& name) {
                                                        return name == "SET" ? std::optional(value_)
                                                                             : std::nullopt;
                                                    },
                                                    nullptr},
                                              manifest_);
    }
    ~Command() override {
        for (const int fd : {in_[0], in_[1], out_[0], out_[1], err_[0], err_[1]}) {
            if (fd >= 0) {
                ::close(fd);
            }
        }
        g_body = nullptr;
    }
    CommandEnd run(std::function<std::int32_t(capstan_call*, const capstan_command&)> body,
                   std::vector<std::string> args = {}) {
        start(std::move(body), std::move(args));
        return wait();
    }
    void start(std::function<std::int32_t(capstan_call*, const capstan_command&)> body,
               std::vector<std::string> args = {}) {
        g_body = std::move(body);
        const auto started = host_->start(kTable,
                                          {"c", std::move(args), in_[0], out_[1], err_[1]},
                                          [this](CommandEnd end) { end_ = end; });
        EXPECT_TRUE(started);
    }
    CommandEnd wait() {
        EXPECT_TRUE(loop_->run_until([this] { return end_.has_value(); }, kTestMax));
        return end_.value_or(CommandEnd{});
    }
    static std::string read_from(int fd) {
        char buffer[256];
        const ssize_t n = ::read(fd, buffer, sizeof buffer);
        return {buffer, static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
    }
    static void close_end(int& fd) {
        ::close(fd);
        fd = -1;
    }

    static constexpr capstan_plugin_cli kTable{{sizeof(capstan_plugin_cli), CAPSTAN_ABI},
                                               &run_body};
    std::string value_{"v"};
    plugin::Manifest manifest_;
    const std::unique_ptr<net::IoLoop> loop_{net::make_loop()};
    const std::unique_ptr<Threads> threads_{make_threads()};
    obs::Metrics metrics_;
    obs::Health health_;
    NoServer no_server_;
    kube::Client client_{*loop_, no_server_, {}};
    cache::Cache cache_{*loop_, client_, {{}, [] { return 0.5; }}};
    std::unique_ptr<CommandHost> host_;
    std::optional<CommandEnd> end_;
    int in_[2]{-1, -1}, out_[2]{-1, -1}, err_[2]{-1, -1};
};

TEST_F(Command, HasArgumentsEnvironmentAndStreams) {
    const CommandEnd end = run(
        [this](capstan_call* call, const capstan_command& command) {
            EXPECT_FALSE(loop_->is_loop_thread());
            EXPECT_EQ(command.arg_count, 2u);
            EXPECT_EQ(command.terminals, 0u);
            capstan_str first{}, second{};
            EXPECT_EQ(kCliTable.environment(call, str("SET"), &first), CAPSTAN_OK);
            value_ = "w";
            EXPECT_EQ(kCliTable.environment(call, str("SET"), &second), CAPSTAN_OK);
            EXPECT_EQ(view(first), "v") << "it stays until run returns";
            EXPECT_EQ(view(second), "w");
            EXPECT_EQ(kCliTable.environment(call, str("OTHER"), &first), CAPSTAN_E_NOT_FOUND);
            EXPECT_EQ(kCliTable.write(call, CAPSTAN_STDOUT, command.args[1]), CAPSTAN_OK);
            EXPECT_EQ(kCliTable.write(call, CAPSTAN_STDERR, str("err")), CAPSTAN_OK);
            EXPECT_EQ(kCliTable.write(call, CAPSTAN_STDIN, str("x")), CAPSTAN_E_INVALID);
            return 6;
        },
        {"a", "b c"});
    EXPECT_EQ(end.rc, CAPSTAN_OK);
    EXPECT_EQ(end.exit_code, 6);
    EXPECT_EQ(end.write_error, 0);
    EXPECT_EQ(read_from(out_[0]), "b c");
    EXPECT_EQ(read_from(err_[0]), "err");
}

TEST_F(Command, ACancelEndsAWaitForInputAndLeavesOutput) {
    ASSERT_EQ(::write(in_[1], "ab", 2), 2);
    start([this](capstan_call* call, const capstan_command&) {
        char buffer[8];
        std::uint64_t n = 0;
        EXPECT_EQ(kCliTable.read(call, buffer, sizeof buffer, &n), CAPSTAN_OK);
        EXPECT_EQ(n, 2u);
        loop_->post([this] { host_->cancel(); });
        EXPECT_EQ(kCliTable.read(call, buffer, sizeof buffer, &n), CAPSTAN_E_CANCELLED);
        EXPECT_EQ(kCallTable.cancelled(call), 1);
        EXPECT_EQ(kCliTable.write(call, CAPSTAN_STDERR, str("told")), CAPSTAN_OK);
        return 1;
    });
    EXPECT_EQ(wait().exit_code, 1);
    EXPECT_EQ(read_from(err_[0]), "told");
}

TEST_F(Command, TheEndOfInputIsNoError) {
    close_end(in_[1]);
    const CommandEnd end = run([](capstan_call* call, const capstan_command&) {
        char byte = 0;
        std::uint64_t n = 9;
        EXPECT_EQ(kCliTable.read(call, &byte, 1, &n), CAPSTAN_OK);
        return static_cast<std::int32_t>(n);
    });
    EXPECT_EQ(end.exit_code, 0);
}

TEST_F(Command, AReaderThatLeftIsTold) {
    close_end(out_[0]);
    const CommandEnd end = run([](capstan_call* call, const capstan_command&) {
        EXPECT_EQ(kCliTable.write(call, CAPSTAN_STDOUT, str("x")), CAPSTAN_E_UNAVAIL);
        return 1;
    });
    EXPECT_EQ(end.write_error, EPIPE);
}

TEST_F(Command, AnExitCodeHasARange) {
    EXPECT_EQ(run([](capstan_call*, const capstan_command&) { return 126; }).rc,
              CAPSTAN_E_INTERNAL);
}

TEST_F(Command, ItsHandleIsStaleAfterwards) {
    capstan_call* kept = nullptr;
    run([&kept](capstan_call* call, const capstan_command&) {
        kept = call;
        return 0;
    });
    EXPECT_EQ(kCliTable.write(kept, CAPSTAN_STDOUT, str("x")), CAPSTAN_E_FENCED);
}

}  // namespace
}  // namespace capstan::control
