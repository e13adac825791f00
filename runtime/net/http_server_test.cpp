#include "runtime/net/http_server.hpp"

#include "runtime/net/http_client.hpp"
#include "runtime/net/test_peers.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace capstan::net {
namespace {

using namespace std::chrono_literals;
using testing::kLimit;
using testing::RawClient;

using Exchange = std::shared_ptr<ServerExchange>;

class HttpServerTest : public ::testing::Test {
protected:
    void serve(ServerHandler handler, HttpServerOptions options = {}) {
        server = make_http_server(*loop, std::move(options), std::move(handler)).value();
    }
    void serve_hello(HttpServerOptions options = {}) {
        serve(
            [](const Exchange& e) {
                e->respond(200, {{"A", "b"}}, "hello " + e->target());
            },
            std::move(options));
    }
    void settle(std::chrono::milliseconds time = 20ms) {
        loop->run_until([] { return false; }, time);
    }

    const std::unique_ptr<IoLoop> loop{make_loop()};
    std::unique_ptr<HttpServer> server;
};

TEST_F(HttpServerTest, AnswersAndKeepsTheConnection) {
    serve_hello();
    RawClient client(*loop, server->port());
    client.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_TRUE(client.expect("hello /1"));
    EXPECT_EQ(client.received, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\nA: b\r\n\r\nhello /1");
    client.send("GET /2 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    ASSERT_TRUE(client.expect_end());
    EXPECT_NE(client.received.find("Connection: close\r\n\r\nhello /2"), std::string::npos)
        << client.received;
}

// A client of a Unix socket; `path` shorter than an address.
int connect_to_path(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0)
        << std::strerror(errno);
    return fd;
}

TEST_F(HttpServerTest, ListensOnAUnixSocketOfItsUser) {
    const std::string parent = ::testing::TempDir() + "d" + std::to_string(::getpid());
    const std::string longer = parent + "/" + std::string(150, 'd');
    ::mkdir(parent.c_str(), 0700);
    ::mkdir(longer.c_str(), 0700);
    HttpServerOptions options;
    options.address = "unix:" + longer + "/s.sock";
    const auto answer = [](const Exchange& e) { e->respond(200, {}, "from " + e->remote()); };
    serve(answer, options);
    server.reset();
    serve(answer, options);  // in the place of the one that is left there
    EXPECT_EQ(server->port(), 0);
    struct stat found {};
    ASSERT_EQ(::stat((longer + "/s.sock").c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600u);
    const std::string link = parent + "/l";
    ASSERT_EQ(::symlink(longer.c_str(), link.c_str()), 0);
    const int fd = connect_to_path(link + "/s.sock");
    const std::string_view request = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    EXPECT_EQ(::send(fd, request.data(), request.size(), 0), std::ssize(request));
    std::string received;
    EXPECT_TRUE(loop->run_until(
        [&] {
            char buffer[512];
            const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
            received.append(buffer, got > 0 ? static_cast<std::size_t>(got) : 0);
            return received.ends_with("from unix");
        },
        kLimit))
        << received;
    ::close(fd);
    server.reset();
    std::filesystem::remove_all(parent);
}

TEST_F(HttpServerTest, LeavesAFileThatIsNoSocketAlone) {
    const std::string path = ::testing::TempDir() + "file" + std::to_string(::getpid());
    ::close(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    HttpServerOptions options;
    options.address = "unix:" + path;
    const auto refused = make_http_server(*loop, options, [](const Exchange&) {});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("listen on " + path + ": Address already in use"),
              std::string::npos)
        << refused.error().message;
    ::unlink(path.c_str());
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
    std::vector<Exchange> held;
    serve([&](const Exchange& e) { held.push_back(e); });
    RawClient client(*loop, server->port());
    client.send(
        "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nPOST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: "
        "2\r\n\r\nhiGET /3 HTTP/1.1\r\nHost: h\r\n\r\n");
    for (std::size_t i = 0; i < 3; ++i) {
        ASSERT_TRUE(loop->run_until([&] { return held.size() == i + 1; }, kLimit));
        settle(5ms);
        EXPECT_EQ(held.size(), i + 1) << "one at a time";
        held[i]->respond(200, {}, held[i]->target());
    }
    ASSERT_TRUE(client.expect("/3"));
    EXPECT_LT(client.received.find("/1"), client.received.find("/2"));
    EXPECT_LT(client.received.find("/2"), client.received.find("/3"));
}

TEST_F(HttpServerTest, ReadsRequestsByteByByte) {
    std::string body;
    serve([&](const Exchange& e) {
        e->read_all(100, [&body, e](Result<std::string> result) {
            body = result.value();
            e->respond(200, {}, "got it");
        });
    });
    RawClient client(*loop, server->port());
    client.start_reading();
    for (const char c : std::string_view("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
                                         "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")) {
        client.send(std::string_view(&c, 1));
        loop->run_until([n = 0]() mutable { return ++n > 2; }, 1ms);
    }
    ASSERT_TRUE(client.expect("got it"));
    EXPECT_EQ(body, "abcde");
}

TEST_F(HttpServerTest, ReadsBodiesPieceByPiece) {
    std::vector<std::string> pieces;
    std::function<void(const Exchange&)> more = [&](const Exchange& e) {
        e->read(4, [&, e](Result<std::string> result) {
            pieces.push_back(result.value());
            if (pieces.back().empty()) {
                return e->respond(200, {}, "done");
            }
            more(e);
        });
    };
    serve([&](const Exchange& e) { more(e); });
    RawClient client(*loop, server->port());
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n0123456789");
    ASSERT_TRUE(client.expect("done"));
    EXPECT_EQ(pieces, (std::vector<std::string>{"0123", "4567", "89", ""}));
}

TEST_F(HttpServerTest, RefusesBodiesAboveTheLimit) {
    std::optional<Code> code;
    serve([&](const Exchange& e) {
        e->read_all(4, [&code, e](Result<std::string> r) { code = r.error().code; });
    });
    for (const char* request :
         {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nabc",
          "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n"}) {
        code.reset();
        RawClient client(*loop, server->port());
        client.send(request);
        client.finish();
        ASSERT_TRUE(client.expect_end());
        EXPECT_EQ(client.received.substr(0, 12), "HTTP/1.1 413") << client.received;
        EXPECT_EQ(code, Code::too_large);
    }
}

TEST_F(HttpServerTest, SendsContinueWhenTheBodyIsWanted) {
    serve([](const Exchange& e) {
        e->read_all(100, [e](Result<std::string> r) { e->respond(200, {}, "got " + r.value()); });
    });
    RawClient client(*loop, server->port());
    client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    ASSERT_TRUE(client.expect("HTTP/1.1 100 Continue\r\n\r\n"));
    client.send("ok");
    ASSERT_TRUE(client.expect("got ok"));
}

struct BadRequestRow {
    const char* name;
    std::string text;
    const char* answer;
};

class BadRequest : public HttpServerTest, public ::testing::WithParamInterface<BadRequestRow> {};

TEST_P(BadRequest, IsRefused) {
    serve_hello();
    RawClient client(*loop, server->port());
    client.send(GetParam().text);
    ASSERT_TRUE(client.expect_end());
    EXPECT_EQ(client.received.substr(0, 12), GetParam().answer) << client.received;
}

INSTANTIATE_TEST_SUITE_P(
    All,
    BadRequest,
    ::testing::Values(
        BadRequestRow{"tls_hello", "\x16\x03\x01\x02\x05\x01\x02\x03\r\n\r\n", "HTTP/1.1 400"},
        BadRequestRow{"no_host", "GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400"},
        BadRequestRow{"absolute", "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 400"},
        BadRequestRow{"two_lengths",
                      "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                      "HTTP/1.1 400"},
        BadRequestRow{"header_bomb",
                      "GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(70'000, 'a'),
                      "HTTP/1.1 431"},
        BadRequestRow{"http2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 400"}),
    [](const auto& row_info) { return row_info.param.name; });

TEST_F(HttpServerTest, ClosesOnSlowHeads) {
    serve_hello({.head_timeout = 20ms});
    RawClient client(*loop, server->port());
    client.send("GET / HT");
    EXPECT_TRUE(client.expect_end());
    EXPECT_EQ(client.received, "");
}

TEST_F(HttpServerTest, ClosesIdleConnections) {
    serve_hello({.idle_timeout = 20ms});
    RawClient client(*loop, server->port());
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_TRUE(client.expect("hello"));
    EXPECT_TRUE(client.expect_end());
}

TEST_F(HttpServerTest, FailsReadsOfSlowBodies) {
    std::optional<Code> code;
    serve(
        [&](const Exchange& e) {
            e->read_all(100, [&code, e](Result<std::string> r) { code = r.error().code; });
        },
        {.idle_timeout = 20ms});
    RawClient client(*loop, server->port());
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nab");
    EXPECT_TRUE(client.expect_end());
    EXPECT_EQ(code, Code::timeout);
}

TEST_F(HttpServerTest, AnswersHalfClosedPeers) {
    Exchange held;
    serve([&](const Exchange& e) { held = e; });
    RawClient client(*loop, server->port());
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    client.finish();
    ASSERT_TRUE(loop->run_until([&] { return held != nullptr; }, kLimit));
    settle();
    held->respond(200, {}, "still here");
    ASSERT_TRUE(client.expect("still here"));
    EXPECT_TRUE(client.expect_end());
}

TEST_F(HttpServerTest, StreamsChunks) {
    Exchange held;
    int flushed = 0;
    serve([&](const Exchange& e) {
        held = e;
        e->start(200, {{"Content-Type", "text/plain"}});
        e->write("one", [&](Result<void> r) { flushed += r ? 1 : 100; });
    });
    RawClient client(*loop, server->port());
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_TRUE(client.expect("3\r\none\r\n"));
    EXPECT_TRUE(loop->run_until([&] { return flushed == 1; }, kLimit));
    held->write("two", nullptr);
    held->write("", [&](Result<void> r) { flushed += r ? 1 : 100; });
    held->end();
    ASSERT_TRUE(client.expect("3\r\ntwo\r\n0\r\n\r\n"));
    EXPECT_TRUE(loop->run_until([&] { return flushed == 2; }, kLimit));
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    client.received.clear();
    EXPECT_TRUE(client.expect("one")) << "the connection goes on";
}

TEST_F(HttpServerTest, TellsTheHandlerWhenThePeerLeaves) {
    Exchange held;
    int closed = 0;
    serve([&](const Exchange& e) {
        held = e;
        e->on_closed([&] { ++closed; });
        e->start(200, {});
    });
    {
        RawClient client(*loop, server->port());
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        ASSERT_TRUE(client.expect("200 OK"));
    }
    EXPECT_TRUE(loop->run_until([&] { return closed == 1; }, kLimit));
    bool failed = false;
    std::function<void(Result<void>)> again = [&](Result<void> r) {
        failed = !r;
        // the first write after the peer's FIN may still pass
        if (!failed) {
            held->write("x", again);
        }
    };
    held->write("x", again);
    EXPECT_TRUE(loop->run_until([&] { return failed; }, kLimit));
    held->end();
}

TEST_F(HttpServerTest, HoldsBackWritersOfSlowReaders) {
    Exchange held;
    int written = 0;
    const std::string piece(1024 * 1024, 'x');
    std::function<void(Result<void>)> more = [&](Result<void> r) {
        ASSERT_TRUE(r);
        if (++written < 32) {
            return held->write(piece, more);
        }
        held->end();
    };
    serve([&](const Exchange& e) {
        held = e;
        e->start(200, {});
        e->write(piece, more);
    });
    RawClient client(*loop, server->port(), 16 * 1024);
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    settle(100ms);
    EXPECT_LT(written, 32) << "32 MiB do not fit into the kernel's buffers";
    ASSERT_TRUE(client.expect("\r\n0\r\n\r\n"));
    EXPECT_EQ(written, 32);
}

TEST_F(HttpServerTest, DropsPeersThatNeverRead) {
    Exchange held;
    int closed = 0;
    std::vector<Code> failed;  // who waits for a write is told, whichever is under way
    const std::string piece(8u * 1024 * 1024, 'x');
    const auto done = [&](const Result<void>& r) {
        failed.push_back(r ? Code::internal : r.error().code);
    };
    serve(
        [&](const Exchange& e) {
            held = e;
            e->on_closed([&] { ++closed; });
            e->start(200, {});
            e->write(piece, done);
            e->write(piece, done);
        },
        {.idle_timeout = 30ms});
    RawClient client(*loop, server->port(), 16 * 1024);
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_TRUE(loop->run_until([&] { return closed == 1; }, kLimit));
    EXPECT_EQ(failed, (std::vector<Code>{Code::timeout, Code::timeout}));
}

TEST_F(HttpServerTest, AnswersFiveHundredWhenTheHandlerLetsGo) {
    serve([](const Exchange&) {});
    RawClient client(*loop, server->port());
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_TRUE(client.expect("HTTP/1.1 500"));
}

TEST_F(HttpServerTest, CutsStreamsThatAreGivenUp) {
    serve([](const Exchange& e) {
        e->start(200, {});
        e->write("part", nullptr);
    });
    RawClient client(*loop, server->port());
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_TRUE(client.expect_end());
    EXPECT_EQ(client.received.find("0\r\n\r\n"), std::string::npos)
        << "an incomplete answer must not look complete";
}

TEST_F(HttpServerTest, AnswersHeadAndOldClients) {
    serve([](const Exchange& e) {
        if (e->target() == "/stream") {
            e->start(200, {});
            e->write("body", nullptr);
            e->end();
        } else {
            e->respond(200, {}, "body");
        }
    });
    RawClient head(*loop, server->port());
    head.send("HEAD / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    ASSERT_TRUE(head.expect_end());
    EXPECT_NE(head.received.find("Content-Length: 4"), std::string::npos);
    EXPECT_EQ(head.received.find("body"), std::string::npos);
    RawClient old(*loop, server->port());
    old.send("GET /stream HTTP/1.0\r\n\r\n");
    ASSERT_TRUE(old.expect_end());
    EXPECT_EQ(old.received, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody");
}

TEST_F(HttpServerTest, LimitsConnections) {
    Exchange held;
    serve(
        [&](const Exchange& e) {
            if (e->target() == "/slow") {
                held = e;
            } else {
                e->respond(200, {}, "quick");
            }
        },
        {.connections_max = 1});
    RawClient first(*loop, server->port());
    first.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_TRUE(loop->run_until([&] { return held != nullptr; }, kLimit));
    RawClient second(*loop, server->port());
    second.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    second.start_reading();
    settle();
    EXPECT_EQ(second.received, "") << "waits in the kernel's queue";
    held->respond(200, {}, "slow");
    EXPECT_TRUE(second.expect("quick"));
    EXPECT_TRUE(first.expect("slow"));
    EXPECT_TRUE(first.expect_end()) << "kept for nothing while another needs its place";
}

// A probe gets through although others keep all the connections they may have.
TEST_F(HttpServerTest, TheConnectionIdleLongestMakesRoom) {
    serve_hello({.connections_max = 3});
    std::vector<std::string> told;
    std::vector<std::unique_ptr<RawClient>> idle;
    for (int i = 0; i < 3; ++i) {
        idle.push_back(std::make_unique<RawClient>(*loop, server->port()));
        idle.back()->send("GET /kept HTTP/1.1\r\nHost: h\r\n\r\n");
        ASSERT_TRUE(idle.back()->expect("/kept"));
        settle(2ms);
    }
    on_no_room(*server, [&](const std::string& why) { told.push_back(why); });
    idle[0]->send("GET /again HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_TRUE(idle[0]->expect("/again"));
    RawClient probe(*loop, server->port());
    probe.send("GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_TRUE(probe.expect("/healthz"));
    EXPECT_TRUE(idle[1]->expect_end());
    settle();
    EXPECT_FALSE(idle[0]->ended);
    EXPECT_FALSE(idle[2]->ended);
    EXPECT_EQ(told, std::vector<std::string>{});
}

TEST_F(HttpServerTest, TellsThatConnectionsWaitForItsLimit) {
    serve_hello({.connections_max = 1});
    std::vector<std::string> told;
    on_no_room(*server, [&](const std::string& why) { told.push_back(why); });
    RawClient client(*loop, server->port());
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_TRUE(client.expect("hello"));
    EXPECT_EQ(told, (std::vector<std::string>{"it has 1 connections, its limit"}));
}

// No new descriptor for as long as it lives.
struct NoDescriptors {
    NoDescriptors() {
        const int first_free = ::dup(0);
        ::close(first_free);
        EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
        rlimit none = before;
        none.rlim_cur = static_cast<rlim_t>(first_free);
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    }
    ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before); }
    NoDescriptors(const NoDescriptors&) = delete;
    NoDescriptors& operator=(const NoDescriptors&) = delete;
    rlimit before{};
};

TEST_F(HttpServerTest, WithoutDescriptorsConnectionsWaitAndItIsSaidOnce) {
    serve_hello();
    std::vector<std::string> told;
    on_no_room(*server, [&](const std::string& why) { told.push_back(why); });
    RawClient client(*loop, server->port());
    {
        const NoDescriptors none;
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        EXPECT_TRUE(loop->run_until([&] { return !told.empty(); }, kLimit));
        settle(250ms);  // two more tries
        EXPECT_EQ(told, (std::vector<std::string>{"accept: Too many open files"}));
    }
    EXPECT_TRUE(client.expect("hello"));
}

TEST_F(HttpServerTest, StopsGently) {
    Exchange held;
    serve([&](const Exchange& e) {
        if (e->target() == "/slow") {
            held = e;
        } else {
            e->respond(200, {}, "quick");
        }
    });
    RawClient idle(*loop, server->port());
    idle.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_TRUE(idle.expect("quick"));
    RawClient busy(*loop, server->port());
    busy.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_TRUE(loop->run_until([&] { return held != nullptr; }, kLimit));
    server->stop_accepting();
    EXPECT_TRUE(idle.expect_end());
    held->respond(200, {}, "late but whole");
    ASSERT_TRUE(busy.expect_end());
    EXPECT_NE(busy.received.find("Connection: close\r\n\r\nlate but whole"), std::string::npos)
        << busy.received;
}

TEST_F(HttpServerTest, HandlersMayOutliveTheServer) {
    Exchange held;
    int calls = 0;
    serve([&](const Exchange& e) {
        held = e;
        e->on_closed([&] { ++calls; });
        e->read(10, [&, e](Result<std::string>) { ++calls; });
    });
    RawClient client(*loop, server->port());
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
    ASSERT_TRUE(loop->run_until([&] { return held != nullptr; }, kLimit));
    settle();
    server.reset();
    settle();
    EXPECT_EQ(calls, 0);
    held->respond(200, {}, "to nobody");
    EXPECT_TRUE(client.expect_end());
}

TEST_F(HttpServerTest, NamesThePortThatIsTaken) {
    serve_hello();
    const auto second = make_http_server(*loop, {.port = server->port()}, [](const Exchange&) {});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::unavailable);
    const std::string port = std::to_string(server->port());
    EXPECT_NE(
        second.error().message.find("listen on 127.0.0.1:" + port + ": Address already in use"),
        std::string::npos);
    EXPECT_NE(second.error().message.find("choose another port"), std::string::npos);
    EXPECT_NE(make_http_server(*loop, {.address = "203.0.113.1"}, nullptr)
                  .error()
                  .message.find("no such address"),
              std::string::npos);
    EXPECT_EQ(make_http_server(*loop, {.address = "localhost"}, nullptr).error().code,
              Code::invalid);
}

}  // namespace
}  // namespace capstan::net
