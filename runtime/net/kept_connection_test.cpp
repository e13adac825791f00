// Requests that change something, on connections kept from the request before.
#include "runtime/net/http_client.hpp"
#include "runtime/net/test_peers.hpp"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <string>

namespace capstan::net {
namespace {

using testing::kLimit;
using testing::RawConnection;
using testing::RawServer;

constexpr const char* kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

class Write : public ::testing::TestWithParam<const char*> {
protected:
    void connect(const RawServer& server) {
        HttpClientOptions options;
        options.endpoint = server.endpoint();
        client = make_http_client(*loop, options).value();
    }
    Result<HttpResponse> send(const std::string& method) {
        std::optional<Result<HttpResponse>> answer;
        HttpRequest request;
        request.method = method;
        request.target = "/";
        const auto exchange = client->send(
            std::move(request), [&](Result<HttpResponse> r) { answer.emplace(std::move(r)); });
        if (!loop->run_until([&] { return answer.has_value(); }, kLimit)) {
            return fail(Code::internal, "the test hangs");
        }
        return std::move(*answer);
    }

    const std::unique_ptr<IoLoop> loop{make_loop()};
    std::unique_ptr<HttpClient> client;
};

TEST_P(Write, IsNeverSentTwice) {
    RawServer server([](RawConnection& c, int) {
        c.read_request();
        c.send(kOk);
        c.read_request();
        c.reset();
    });
    connect(server);
    EXPECT_TRUE(send("GET"));
    EXPECT_EQ(send(GetParam()).error().code, Code::unavailable);
    EXPECT_EQ(server.accepted(), 1);
}

// The server closes while this process is busy: the loop has not heard of it when the next
// request comes.
TEST_P(Write, IsNotWrittenOnAConnectionThatIsClosed) {
    std::promise<void> answered;
    std::promise<void> closed;
    RawServer server([&](RawConnection& c, int number) {
        c.read_request();
        c.send(kOk);
        if (number == 0) {
            answered.get_future().wait_for(kLimit);
            c.close();
            closed.set_value();
        }
    });
    connect(server);
    EXPECT_TRUE(send("GET"));
    std::optional<Result<HttpResponse>> answer;
    std::unique_ptr<HttpExchange> exchange;
    loop->post([&] {
        answered.set_value();
        closed.get_future().wait_for(kLimit);
        HttpRequest request;
        request.method = GetParam();
        request.target = "/2";
        exchange = client->send(std::move(request),
                                [&](Result<HttpResponse> r) { answer.emplace(std::move(r)); });
    });
    ASSERT_TRUE(loop->run_until([&] { return answer.has_value(); }, kLimit));
    EXPECT_TRUE(*answer) << answer->error().message;
    EXPECT_EQ(server.accepted(), 2);
}

INSTANTIATE_TEST_SUITE_P(Methods, Write, ::testing::Values("POST", "PUT", "PATCH", "DELETE"));

}  // namespace
}  // namespace capstan::net
