#include "runtime/net/http_client.hpp"

#include "runtime/net/test_peers.hpp"

#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <vector>

namespace capstan::net {
namespace {

using namespace std::chrono_literals;
using testing::kLimit;
using testing::RawConnection;
using testing::RawServer;

constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

class HttpClientTest : public ::testing::Test {
protected:
    void connect(const std::string& endpoint) {
        HttpClientOptions options;
        options.endpoint = endpoint;
        connect(options);
    }
    void connect(const HttpClientOptions& options) {
        client = make_http_client(*loop, options).value();
    }

    Result<HttpResponse> send(HttpRequest request) {
        std::optional<Result<HttpResponse>> answer;
        const auto exchange = client->send(
            std::move(request), [&](Result<HttpResponse> r) { answer.emplace(std::move(r)); });
        EXPECT_FALSE(answer) << "no callback inside send()";
        if (!loop->run_until([&] { return answer.has_value(); }, kLimit)) {
            return fail(Code::internal, "the test hangs");
        }
        return std::move(*answer);
    }
    Result<HttpResponse> get(const std::string& target) {
        HttpRequest request;
        request.target = target;
        return send(std::move(request));
    }
    // Lets everything that is ready happen.
    void settle(std::chrono::milliseconds time = 20ms) {
        loop->run_until([] { return false; }, time);
    }

    struct Stream {
        std::unique_ptr<HttpStream> handle;
        int status{0};
        std::string data;
        std::optional<Result<void>> end;
        int pieces{0};
        bool reading{true};
    };
    void open(Stream& stream, HttpRequest request, StreamOptions options = {}) {
        StreamHandler handler;
        handler.on_head = [&stream](int status, const Headers&) {
            stream.status = status;
            if (stream.reading) {
                stream.handle->read();
            }
        };
        handler.on_data = [&stream](std::string_view bytes) {
            stream.data += bytes;
            ++stream.pieces;
            EXPECT_LE(bytes.size(), 64u * 1024);
            if (stream.reading) {
                stream.handle->read();
            }
        };
        handler.on_end = [&stream](Result<void> result) { stream.end.emplace(std::move(result)); };
        stream.handle = client->stream(std::move(request), options, std::move(handler));
    }

    const std::unique_ptr<IoLoop> loop{make_loop()};
    std::unique_ptr<HttpClient> client;
};

TEST_F(HttpClientTest, SendsWhatItWasTold) {
    std::string seen;
    RawServer server([&](RawConnection& c, int) {
        seen = c.read_until("body!");
        c.send(kOk);
    });
    connect(server.endpoint());
    HttpRequest request;
    request.method = "POST";
    request.target = "/a?b=c";
    request.headers = {{"Accept", "application/json"}, {"Host", "evil"}, {"X", "a\r\nY: b"}};
    request.body = "body!";
    const auto answer = send(std::move(request));
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer.value().status, 200);
    EXPECT_EQ(answer.value().body, "hi");
    EXPECT_EQ(seen,
              "POST /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(server.port()) +
                  "\r\nAccept: application/json\r\nX: a  Y: b\r\nContent-Length: 5\r\n\r\nbody!");
}

TEST_F(HttpClientTest, SurvivesOneByteChunks) {
    RawServer server([&](RawConnection& c, int) {
        c.read_request();
        c.send_byte_by_byte(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nA: "
            "b\r\n\r\n1\r\nx\r\n2\r\nyz\r\n0\r\n\r\n");
        c.read_rest();
    });
    connect(server.endpoint());
    const auto answer = get("/");
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer.value().status, 201);
    EXPECT_EQ(answer.value().body, "xyz");
    EXPECT_EQ(find_header(answer.value().headers, "a"), "b");
    client.reset();
}

TEST_F(HttpClientTest, TakesLargeBodiesAndRefusesTooLargeOnes) {
    const std::string body(10u * 1024 * 1024, 'x');
    RawServer server([&](RawConnection& c, int) {
        c.read_request();
        c.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) +
               "\r\nConnection: close\r\n\r\n" + body);
    });
    connect(server.endpoint());
    EXPECT_EQ(get("/").value().body, body);
    HttpRequest request;
    request.target = "/";
    request.body_bytes_max = 1024;
    EXPECT_EQ(send(std::move(request)).error().code, Code::too_large);
}

TEST_F(HttpClientTest, ReusesConnections) {
    RawServer server([](RawConnection& c, int) {
        while (!c.read_request().empty()) {
            if (!c.send(kOk)) {
                return;
            }
        }
    });
    connect(server.endpoint());
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(get("/"));
    }
    EXPECT_EQ(server.accepted(), 1);
    client.reset();
}

TEST_F(HttpClientTest, RetriesWhatOnlyReadsOnStaleConnections) {
    // The first connection answers once, then swallows the next request and closes: what a
    // restarted peer looks like.
    RawServer server([](RawConnection& c, int number) {
        c.read_request();
        c.send(kOk);
        if (number == 0) {
            c.read_request();
            c.reset();
            return;
        }
        c.read_rest();
    });
    connect(server.endpoint());
    EXPECT_TRUE(get("/1"));
    EXPECT_TRUE(get("/2"));
    EXPECT_EQ(server.accepted(), 2);
    client.reset();
}

TEST_F(HttpClientTest, NeverRetriesOnceTheAnswerBegan) {
    RawServer server([](RawConnection& c, int) {
        c.read_request();
        c.send(kOk);
        c.read_request();
        c.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhal");
        c.close();
    });
    connect(server.endpoint());
    EXPECT_TRUE(get("/1"));
    const auto answer = get("/2");
    EXPECT_EQ(answer.error().code, Code::unavailable);
    EXPECT_NE(answer.error().message.find("in the middle of the answer"), std::string::npos)
        << answer.error().message;
    EXPECT_EQ(server.accepted(), 1);
}

TEST_F(HttpClientTest, DropsIdleConnectionsThatEnd) {
    RawServer server([](RawConnection& c, int) {
        c.read_request();
        c.send(kOk);
    });
    connect(server.endpoint());
    EXPECT_TRUE(get("/1"));
    settle();
    HttpRequest request;
    request.method = "POST";  // would fail on the dead connection
    request.target = "/2";
    EXPECT_TRUE(send(std::move(request)));
    EXPECT_EQ(server.accepted(), 2);
}

TEST_F(HttpClientTest, SaysWhyItCannotConnect) {
    std::uint16_t port = 0;
    {
        port = RawServer([](RawConnection&, int) {}).port();
    }
    connect("http://127.0.0.1:" + std::to_string(port));
    const auto answer = get("/x?secret=1");
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::unavailable);
    EXPECT_EQ(answer.error().message,
              "GET http://127.0.0.1:" + std::to_string(port) + "/x: connect: Connection refused");
}

TEST_F(HttpClientTest, SpeaksOverUnixSockets) {
    const std::string path =
        ::testing::TempDir() + "capstan-net-" + std::to_string(::getpid()) + ".sock";
    ::unlink(path.c_str());
    std::string seen;
    RawServer server(
        [&](RawConnection& c, int) {
            seen = c.read_request();
            c.send(kOk);
        },
        path);
    connect("unix://" + path);
    EXPECT_TRUE(get("/"));
    EXPECT_NE(seen.find("Host: localhost\r\n"), std::string::npos);
    ::unlink(path.c_str());
    connect("unix:///nonexistent/x.sock");
    EXPECT_NE(get("/").error().message.find("No such file or directory"), std::string::npos);
}

struct BadAnswerRow {
    const char* name;
    const char* answer;
    Code code;
    const char* text;
};

class BadAnswer : public HttpClientTest, public ::testing::WithParamInterface<BadAnswerRow> {};

TEST_P(BadAnswer, IsAnError) {
    RawServer server([&](RawConnection& c, int) {
        c.read_request();
        c.send(GetParam().answer);
    });
    connect(server.endpoint());
    const auto answer = get("/");
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, GetParam().code);
    EXPECT_NE(answer.error().message.find(GetParam().text), std::string::npos)
        << answer.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    All,
    BadAnswer,
    ::testing::Values(
        BadAnswerRow{"nothing", "", Code::unavailable, "before the answer"},
        BadAnswerRow{
            "garbage", "\x15\x03\x01 garbage\r\n\r\n", Code::unavailable, "malformed answer"},
        BadAnswerRow{
            "half_head", "HTTP/1.1 200 OK\r\nA: b", Code::unavailable, "in the head of the answer"},
        BadAnswerRow{"half_body",
                     "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
                     Code::unavailable,
                     "in the middle of the answer"},
        BadAnswerRow{"bad_chunk",
                     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
                     Code::unavailable,
                     "malformed answer"}),
    [](const auto& row_info) { return row_info.param.name; });

TEST_F(HttpClientTest, StopsAtAHeaderBomb) {
    RawServer server([](RawConnection& c, int) {
        c.read_request();
        c.send("HTTP/1.1 200 OK\r\n");
        const std::string line = "X: " + std::string(1000, 'a') + "\r\n";
        while (c.send(line)) {
        }
    });
    connect(server.endpoint());
    EXPECT_EQ(get("/").error().code, Code::too_large);
}

TEST_F(HttpClientTest, ReadsBodiesThatEndWithTheConnection) {
    RawServer server([](RawConnection& c, int) {
        c.read_request();
        c.send("HTTP/1.1 200 OK\r\n\r\nall of it");
        c.finish();
        c.read_rest();
    });
    connect(server.endpoint());
    EXPECT_EQ(get("/").value().body, "all of it");
}

TEST_F(HttpClientTest, EndsAtTheDeadline) {
    RawServer server([](RawConnection& c, int) { c.read_rest(); });
    connect(server.endpoint());
    HttpRequest request;
    request.target = "/";
    request.deadline = loop->now() + 20ms;
    EXPECT_EQ(send(std::move(request)).error().code, Code::timeout);
    client.reset();
}

// What a leader gave up at its fence must not arrive minutes later from the kernel's buffer.
TEST_F(HttpClientTest, AWriteGivenUpIsNotDeliveredLater) {
    constexpr std::size_t kBytes = 32u << 20;  // more than both kernels' buffers take
    std::promise<void> given_up;
    std::atomic<std::size_t> received{0};
    {
        RawServer server([&](RawConnection& c, int) {
            given_up.get_future().wait_for(kLimit);
            received = c.read_rest().size();
        });
        connect(server.endpoint());
        HttpRequest request;
        request.method = "PUT";
        request.target = "/";
        request.body.assign(kBytes, 'x');
        request.deadline = loop->now() + 50ms;
        EXPECT_EQ(send(std::move(request)).error().code, Code::timeout);
        given_up.set_value();
    }
    EXPECT_LT(received, kBytes);
}

TEST_F(HttpClientTest, StaysSilentAfterCancel) {
    RawServer server([](RawConnection& c, int) {
        c.read_request();
        c.read_rest();
    });
    connect(server.endpoint());
    int calls = 0;
    const auto count = [&](Result<HttpResponse>) { ++calls; };
    HttpRequest request;
    request.target = "/";
    client->send(request, count).reset();  // before anything happened
    auto connecting = client->send(request, count);
    // one turn: the connect is under way
    loop->run_until([n = 0]() mutable { return ++n > 1; }, kLimit);
    connecting.reset();
    auto reading = client->send(request, count);
    settle();
    reading.reset();
    auto last = client->send(request, count);
    client.reset();
    settle();
    EXPECT_EQ(calls, 0);
    last.reset();
}

TEST_F(HttpClientTest, MayBeDestroyedInItsOwnCallback) {
    RawServer server([](RawConnection& c, int) {
        c.read_request();
        c.send(kOk);
    });
    connect(server.endpoint());
    bool called = false;
    std::unique_ptr<HttpExchange> exchange;
    exchange = client->send({}, [&](Result<HttpResponse>) {
        called = true;
        exchange.reset();
        client.reset();
    });
    EXPECT_TRUE(loop->run_until([&] { return called; }, kLimit));
    settle();
}

TEST_F(HttpClientTest, QueuesAboveTheConnectionLimit) {
    RawServer server([](RawConnection& c, int) {
        while (!c.read_request().empty()) {
            c.send(kOk);
        }
    });
    HttpClientOptions options;
    options.endpoint = server.endpoint();
    options.connections_max = 1;
    connect(options);
    int done = 0;
    std::vector<std::unique_ptr<HttpExchange>> exchanges;
    for (int i = 0; i < 5; ++i) {
        exchanges.push_back(
            client->send({.target = "/"}, [&](Result<HttpResponse> r) { done += r ? 1 : 100; }));
    }
    exchanges[2].reset();  // gives its place up
    EXPECT_TRUE(loop->run_until([&] { return done == 4; }, kLimit)) << done;
    EXPECT_EQ(server.accepted(), 1);
    client.reset();
}

TEST_F(HttpClientTest, StreamsOnDemand) {
    std::atomic<std::size_t> sent{0};
    std::atomic<bool> over{false};
    RawServer server([&](RawConnection& c, int) {
        c.read_request();
        c.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        const std::string piece = "1000\r\n" + std::string(4096, 'x') + "\r\n";
        while (sent < 4096u * 8192 && c.send(piece)) {
            sent += 4096;
        }
        c.send("0\r\n\r\n");
        over = true;
        c.read_rest();
    });
    connect(server.endpoint());
    Stream stream;
    stream.reading = false;
    open(stream, {.target = "/"});
    ASSERT_TRUE(loop->run_until([&] { return stream.status == 200; }, kLimit));
    settle(100ms);
    EXPECT_EQ(stream.pieces, 0) << "nothing without a read()";
    EXPECT_FALSE(over) << "32 MiB do not fit into the kernel's buffers: the peer is held back";
    stream.handle->read();
    ASSERT_TRUE(loop->run_until([&] { return stream.pieces == 1; }, kLimit));
    settle();
    EXPECT_EQ(stream.pieces, 1) << "one read, one piece";
    stream.reading = true;
    stream.handle->read();
    ASSERT_TRUE(loop->run_until([&] { return stream.end.has_value(); }, kLimit));
    EXPECT_TRUE(*stream.end);
    EXPECT_EQ(stream.data.size(), 4096u * 8192);
    client.reset();
}

TEST_F(HttpClientTest, StreamEndsWithAnErrorWhenThePeerVanishes) {
    RawServer server([](RawConnection& c, int) {
        c.read_request();
        c.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
    });
    connect(server.endpoint());
    Stream stream;
    open(stream, {.target = "/"});
    ASSERT_TRUE(loop->run_until([&] { return stream.end.has_value(); }, kLimit));
    EXPECT_EQ(stream.data, "x");
    EXPECT_EQ(stream.end->error().code, Code::unavailable);
}

TEST_F(HttpClientTest, StreamEndsWhenNothingArrivesForTooLong) {
    RawServer server([](RawConnection& c, int) {
        c.read_request();
        c.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
        c.read_rest();
    });
    connect(server.endpoint());
    Stream stream;
    open(stream, {.target = "/"}, {.idle_max = 30ms});
    ASSERT_TRUE(loop->run_until([&] { return stream.end.has_value(); }, kLimit));
    EXPECT_EQ(stream.data, "x");
    EXPECT_EQ(stream.end->error().code, Code::timeout);
    client.reset();
}

TEST_F(HttpClientTest, StreamDeadlineCoversTheHeadOnly) {
    std::atomic<bool> release{false};
    RawServer server([&](RawConnection& c, int) {
        c.read_request();
        c.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while (!release) {
            std::this_thread::yield();
        }
        c.send("1\r\nx\r\n0\r\n\r\n");
        c.read_rest();
    });
    connect(server.endpoint());
    Stream stream;
    open(stream, {.target = "/", .deadline = loop->now() + 500ms});
    ASSERT_TRUE(loop->run_until([&] { return stream.status == 200; }, kLimit));
    settle(600ms);
    release = true;
    ASSERT_TRUE(loop->run_until([&] { return stream.end.has_value(); }, kLimit));
    EXPECT_TRUE(*stream.end);
    client.reset();
}

TEST_F(HttpClientTest, StreamsTheRequestBodyUnderBackpressure) {
    std::string seen;
    std::atomic<bool> release{false};
    RawServer server([&](RawConnection& c, int) {
        c.read_request();
        while (!release) {
            std::this_thread::yield();
        }
        seen = c.read_until("0\r\n\r\n");
        c.send(kOk);
        c.read_rest();
    });
    connect(server.endpoint());
    Stream stream;
    open(stream, {.method = "POST", .target = "/"}, {.body_follows = true});
    int written = 0;
    const std::string piece(256 * 1024, 'p');
    std::function<void(Result<void>)> more = [&](Result<void> result) {
        ASSERT_TRUE(result);
        if (++written < 64) {
            stream.handle->write(piece, written == 63, more);
        }
    };
    stream.handle->write("first", false, more);
    settle(100ms);
    EXPECT_LT(written, 64)
        << "16 MiB do not fit into the kernel's buffers: the writer is held back";
    release = true;
    ASSERT_TRUE(loop->run_until([&] { return stream.end.has_value(); }, kLimit));
    EXPECT_TRUE(*stream.end);
    EXPECT_EQ(stream.data, "hi");
    EXPECT_EQ(written, 64);
    client.reset();
}

TEST_F(HttpClientTest, TakesAnAnswerThatComesBeforeTheBodyEnds) {
    RawServer server([](RawConnection& c, int) {
        c.read_request();
        c.send(
            "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
        c.finish();
        c.read_rest();
    });
    connect(server.endpoint());
    HttpRequest request;
    request.method = "POST";
    request.target = "/";
    request.body = std::string(32u * 1024 * 1024, 'x');
    const auto answer = send(std::move(request));
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer.value().status, 413);
    client.reset();
}

// Of a piece nobody reads any more, and of a next one.
TEST_F(HttpClientTest, TellsTheWriterThatTheAnswerIsComplete) {
    std::promise<void> over;
    RawServer server([ended = over.get_future().share()](RawConnection& c, int) {
        c.read_request();
        c.send(kOk);
        ended.wait_for(kLimit);
    });
    connect(server.endpoint());
    Stream stream;
    open(stream, {.method = "POST", .target = "/"}, {.body_follows = true});
    std::vector<Code> wrote;
    const auto done = [&](const Result<void>& result) {
        wrote.push_back(result ? Code::internal : result.error().code);
    };
    stream.handle->write(std::string(16u << 20, 'p'), false, done);
    ASSERT_TRUE(loop->run_until([&] { return stream.end.has_value(); }, kLimit));
    ASSERT_EQ(wrote, std::vector<Code>{Code::unavailable});
    stream.handle->write("more", true, done);
    ASSERT_TRUE(loop->run_until([&] { return wrote.size() == 2; }, kLimit));
    EXPECT_EQ(wrote.back(), Code::unavailable);
    over.set_value();
}

TEST_F(HttpClientTest, SaysNothingMoreToAWriterThatLetsGo) {
    RawServer server([](RawConnection& c, int) { c.read_request(); });
    connect(server.endpoint());
    Stream stream;
    open(stream, {.method = "POST", .target = "/"}, {.body_follows = true});
    stream.handle->write(
        std::string(16u << 20, 'p'), false, [&](const auto&) { stream.handle.reset(); });
    ASSERT_TRUE(loop->run_until([&] { return stream.handle == nullptr; }, kLimit));
    settle();
    EXPECT_FALSE(stream.end);
}

TEST(HttpClient, RefusesBadOptions) {
    const auto loop = make_loop();
    EXPECT_EQ(make_http_client(*loop, {.endpoint = "nonsense"}).error().code, Code::invalid);
    EXPECT_EQ(
        make_http_client(*loop, {.endpoint = "https://a", .tls = {.ca_pem = "x"}}).error().code,
        Code::invalid);
    EXPECT_EQ(make_http_client(*loop, {.endpoint = "https://a", .tls = {.certificate_pem = "x"}})
                  .error()
                  .code,
              Code::invalid);
}

}  // namespace
}  // namespace capstan::net
