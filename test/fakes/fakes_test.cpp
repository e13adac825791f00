#include "test/fakes/local_transport.hpp"
#include "test/fakes/virtual_loop.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

TEST(VirtualLoop, RunsTimersInOrderAndMovesTimeOnlyWhenAsked) {
    VirtualLoop loop;
    std::string order;
    const auto late = loop.at(2s, [&] { order += 'c'; });
    const auto soon = loop.at(1s, [&] {
        order += 'a';
        loop.post([&] { order += 'b'; });
    });
    loop.run_ready();
    EXPECT_EQ(order, "");
    loop.run_until(1500ms);
    EXPECT_EQ(order, "ab");
    EXPECT_EQ(loop.now(), 1500ms);
    loop.run_for(1s);
    EXPECT_EQ(order, "abc");
}

TEST(VirtualLoop, ForgetsADestroyedTimer) {
    VirtualLoop loop;
    bool ran = false;
    loop.at(1s, [&] { ran = true; }).reset();
    loop.run_for(2s);
    EXPECT_FALSE(ran);
    EXPECT_EQ(loop.next_timer(), kNever);
}

TEST(VirtualLoop, SetsTheWallClockWithoutTouchingMonotonicTime) {
    VirtualLoop loop;
    const WallTime before = loop.wall_now();
    loop.jump_wall(-1h);
    EXPECT_EQ(loop.wall_now(), before - 1h);
    EXPECT_EQ(loop.now(), 0ns);
}

// Echoes unary bodies; a target "/stream" is held open for the test.
struct Echo {
    std::vector<std::shared_ptr<net::ServerExchange>> streams;
    int seen{0};
    int closed{0};

    net::ServerHandler handler() {
        return [this](std::shared_ptr<net::ServerExchange> exchange) {
            ++seen;
            if (exchange->target() == "/stream") {
                exchange->start(200, {});
                exchange->on_closed([this] { ++closed; });
                streams.push_back(std::move(exchange));
            } else if (exchange->target() != "/ignored") {
                exchange->read_all(1024, [exchange](Result<std::string> body) {
                    if (body) {
                        exchange->respond(200, {}, exchange->method() + " " + body.value());
                    }
                });
            }
        };
    }
};

struct Transport : testing::Test {
    VirtualLoop loop;
    Echo echo;
    LocalTransport transport{
        loop, echo.handler(), {.latency = 1ms, .certificate_organizations = {}}};
    std::string outcome;
    std::string data;
    std::string end;
    std::unique_ptr<net::HttpStream> stream;

    auto note() {
        return [this](Result<net::HttpResponse> r) {
            outcome += r ? std::to_string(r.value().status) + " " + r.value().body
                         : std::string(to_string(r.error().code));
        };
    }
    void open(net::StreamOptions options = {}) {
        stream = transport.stream({.target = "/stream"},
                                  options,
                                  {.on_head =
                                       [this](int status, const net::Headers&) {
                                           EXPECT_EQ(status, 200);
                                           stream->read();
                                       },
                                   .on_data =
                                       [this](std::string_view bytes) {
                                           data += std::string(bytes) + "|";
                                           stream->read();
                                       },
                                   .on_end =
                                       [this](Result<void> r) {
                                           end = r ? "ok" : std::string(to_string(r.error().code));
                                       }});
        loop.run_for(10ms);
    }
};

TEST_F(Transport, AnswersAfterTheLatencyOfBothWays) {
    const auto exchange = transport.send({.method = "PUT", .target = "/", .body = "hi"}, note());
    loop.run_for(1ms);
    EXPECT_EQ(outcome, "");
    loop.run_for(1ms);
    EXPECT_EQ(outcome, "200 PUT hi");
}

struct FaultRow {
    const char* name;
    Fault fault;
    const char* outcome;
    int seen;
};

class TransportFaults : public Transport, public testing::WithParamInterface<FaultRow> {};

TEST_P(TransportFaults, ChangesOneExchange) {
    transport.set_faults([](const net::HttpRequest&) { return GetParam().fault; });
    const auto exchange =
        transport.send({.method = "PUT", .target = "/", .body = "hi", .deadline = 1s}, note());
    loop.run_for(5s);
    EXPECT_EQ(outcome.substr(0, 11), GetParam().outcome);
    EXPECT_EQ(echo.seen, GetParam().seen);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    TransportFaults,
    testing::Values(FaultRow{"refused", {.refuse = true}, "unavailable", 0},
                    FaultRow{"status", {.status = 410}, "410 {\"kind\"", 0},
                    FaultRow{"duplicate", {.duplicate = true}, "200 PUT hi", 2},
                    FaultRow{"lost", {.lose_response = true}, "unavailable", 1},
                    FaultRow{"late", {.response_delay = 2s}, "timeout", 1},
                    FaultRow{"pieces", {.chunk_bytes = 1}, "200 PUT hi", 1}),
    [](const auto& row) { return row.param.name; });

TEST_F(Transport, MakesA500OfAnExchangeDroppedUnanswered) {
    const auto exchange = transport.send({.target = "/ignored"}, note());
    loop.run_for(1s);
    EXPECT_EQ(outcome, "500 not answered");
}

TEST_F(Transport, CallsNobodyAfterTheHandleIsGone) {
    transport.send({.target = "/"}, note()).reset();
    loop.run_for(1s);
    EXPECT_EQ(outcome, "");
}

TEST_F(Transport, StreamsInPiecesAndEnds) {
    transport.set_faults([](const net::HttpRequest&) { return Fault{.chunk_bytes = 2}; });
    open();
    echo.streams[0]->write("abcde", [](Result<void>) {});
    loop.run_for(10ms);
    echo.streams[0]->end();
    loop.run_for(10ms);
    EXPECT_EQ(data, "ab|cd|e|");
    EXPECT_EQ(end, "ok");
}

TEST_F(Transport, CutsAStreamAfterSoManyBytes) {
    transport.set_faults([](const net::HttpRequest&) { return Fault{.cut_after_bytes = 3}; });
    open();
    echo.streams[0]->write("abcde", [](Result<void>) {});
    loop.run_for(10ms);
    EXPECT_EQ(data, "abc|");
    EXPECT_EQ(end, "unavailable");
    EXPECT_EQ(echo.closed, 1);
}

TEST_F(Transport, HoldsBackWhatArrivesDuringAPartition) {
    open();
    transport.set_partitioned(true);
    echo.streams[0]->write("x", [](Result<void>) {});
    loop.run_for(1min);
    EXPECT_EQ(data, "");
    const auto refused = transport.send({.target = "/"}, note());
    loop.run_for(1s);
    EXPECT_EQ(outcome, "unavailable");
    transport.set_partitioned(false);
    loop.run_for(1s);
    EXPECT_EQ(data, "x|");
}

TEST_F(Transport, EndsASilentStreamAtItsIdleLimit) {
    open({.idle_max = 30s});
    loop.run_for(31s);
    EXPECT_EQ(end, "timeout");
}

// A server usually keeps its exchange in what on_closed() was given; when transport and loop end
// before anything is told, nothing of it may stay.
TEST(TransportEnd, LetsGoOfExchangesThatOwnThemselves) {
    std::vector<std::weak_ptr<net::ServerExchange>> seen;
    int closed = 0;
    const auto keep = [&](std::shared_ptr<net::ServerExchange> exchange) {
        seen.push_back(exchange);
        if (exchange->method() == "PUT") {
            exchange->read_all(10, [exchange](const Result<std::string>&) {});
        } else {
            exchange->start(200, {});
            exchange->write("x", [exchange](const Result<void>&) {});
        }
        exchange->on_closed([&closed, exchange] { ++closed; });
    };
    VirtualLoop loop;
    std::optional<LocalTransport> transport;
    transport.emplace(
        loop, keep, LocalTransportOptions{.latency = 1ms, .certificate_organizations = {}});
    transport->set_faults([](const net::HttpRequest& request) {
        return Fault{.duplicate = request.target == "/twice"};
    });
    const auto open = [&](std::string method, std::string target, bool body) {
        return transport->stream(
            {.method = std::move(method), .target = std::move(target)}, {.body_follows = body}, {});
    };
    const auto watch = open("GET", "/", false);
    const auto twice = open("GET", "/twice", false);
    const auto endless = open("PUT", "/", true);
    auto dropped = open("GET", "/", false);
    loop.run_for(10ms);
    ASSERT_EQ(seen.size(), 5u);
    transport->cut_all();
    dropped.reset();  // its server has not been told yet
    transport->set_partitioned(true);
    transport.reset();
    EXPECT_EQ(closed, 0);
    loop.run_ready();
    EXPECT_EQ(closed, 5) << "as long as the loop runs, servers are told";
    for (const auto& exchange : seen) {
        EXPECT_TRUE(exchange.expired());
    }
    transport.emplace(loop, keep, LocalTransportOptions{});
    const auto last = open("GET", "/", false);
    loop.run_ready();
    transport.reset();
    // The rest is the leak checker's: the loop ends with the news still on its way.
}

TEST_F(Transport, HoldsBackAWriterWhenNobodyReads) {
    stream = transport.stream({.target = "/stream"}, {}, {});
    loop.run_for(10ms);
    int flushed = 0;
    for (int i = 0; i < 10; ++i) {
        echo.streams[0]->write(std::string(100'000, 'x'),
                               [&](Result<void> r) { flushed += r ? 1 : 0; });
    }
    loop.run_for(1s);
    EXPECT_EQ(flushed, 2);  // 256 KiB of window
    EXPECT_EQ(transport.cut_all(), 1u);
    loop.run_for(1s);
    EXPECT_EQ(flushed, 2);
    EXPECT_EQ(transport.open_streams(), 0u);
}

}  // namespace
}  // namespace capstan::test
