// A plugin's routes behind a real server on loopback: capstan.http-server/1, both sides.
#include "capstan/plugin.hpp"
#include "runtime/net/http_client.hpp"
#include "runtime/net/http_server.hpp"
#include "test/live/live_world.hpp"

#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

json::Value route(const char* name, const char* path, const char* speed) {
    return {{"name", name}, {"path", path}, {"class", speed}};
}

// A door that plugin threads wait at until the test opens it.
class Door {
public:
    explicit Door(LiveWorld& world) : world_(world) {}
    void pass() {
        std::unique_lock lock(mutex_);
        ++waiting_;
        world_.wake();
        EXPECT_TRUE(changed_.wait_for(lock, kLiveLimit, [this] { return open_; }));
    }
    void open() {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    int waiting() {
        const std::lock_guard lock(mutex_);
        return waiting_;
    }

private:
    LiveWorld& world_;
    std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    bool open_{false};
    int waiting_{0};
};

class LiveRoutes : public ::testing::Test {
protected:
    using Handler = std::function<void(capstan_call*, capstan_exchange*)>;
    using Answer = std::optional<Result<net::HttpResponse>>;

    LiveRoutes() {
        json::Value posted = route("posted", "/posted", "quick");
        posted.set("methods", json::list({"POST"}));
        world.manifest.set("routes",
                           json::list({route("quick", "/quick", "quick"),
                                       route("slow", "/slow", "long"),
                                       std::move(posted)}));
        world.handle = [this](capstan_call* call, std::string_view name, capstan_exchange* x) {
            handlers.at(std::string(name))(call, x);
        };
    }
    void boot() {
        world.boot();
        server = net::make_http_server(*world.loop, {}, world.runtime->routes()).value();
        net::HttpClientOptions options;
        options.endpoint = "http://127.0.0.1:" + std::to_string(server->port());
        client = net::make_http_client(*world.loop, options).value();
    }
    std::unique_ptr<net::HttpExchange> start(net::HttpRequest request, Answer& answer) {
        return client->send(std::move(request), [&answer](Result<net::HttpResponse> r) {
            answer.emplace(std::move(r));
        });
    }
    net::HttpResponse ask(net::HttpRequest request) {
        Answer answer;
        const auto exchange = start(std::move(request), answer);
        if (!world.until([&] { return answer.has_value(); })) {
            return {0, {}, "the test hangs"};
        }
        return *answer ? std::move(*answer).value()
                       : net::HttpResponse{0, {}, answer->error().message};
    }
    net::HttpResponse get(const std::string& target) {
        net::HttpRequest request;
        request.target = target;
        return ask(std::move(request));
    }

    LiveWorld world;
    std::map<std::string, Handler> handlers;  // by route; set before boot
    std::unique_ptr<net::HttpClient> client;
    std::unique_ptr<net::HttpServer> server;
};

TEST_F(LiveRoutes, PluginReadsTheRequestAndAnswersInPieces) {
    std::string seen, body;
    handlers["posted"] = [&](capstan_call*, capstan_exchange* x) {
        const capstan_ext_http_server& table = *world.http_server;
        seen = std::string(view_of(table.request_json(x)));
        char buffer[4];
        std::uint64_t n = 0;
        while (table.read(x, buffer, sizeof buffer, &n) == CAPSTAN_OK && n > 0) {
            body.append(buffer, n);
        }
        EXPECT_EQ(table.respond(x, 202, to_str(R"({"x-plugin":"live"})")), CAPSTAN_OK);
        EXPECT_EQ(table.write(x, to_str("one ")), CAPSTAN_OK);
        EXPECT_EQ(table.write(x, to_str("")), CAPSTAN_OK);
        EXPECT_EQ(table.write(x, to_str("two")), CAPSTAN_OK);
        EXPECT_EQ(table.end(x), CAPSTAN_OK);
    };
    const StopFirst end(world);
    boot();
    net::HttpRequest request;
    request.method = "POST";
    request.target = "/posted?a=b";
    request.headers = {{"X-Ask", "Why"}};
    request.body = "0123456789";
    const auto answer = ask(std::move(request));
    EXPECT_EQ(answer.status, 202);
    EXPECT_EQ(answer.body, "one two");
    EXPECT_EQ(net::find_header(answer.headers, "X-Plugin"), "live");
    EXPECT_EQ(body, "0123456789");
    const auto tree = json::parse(seen);
    ASSERT_TRUE(tree) << seen;
    const json::View view(tree.value());
    EXPECT_EQ(view["method"].string_or(""), "POST");
    EXPECT_EQ(view["target"].string_or(""), "/posted?a=b");
    EXPECT_EQ(view["path"].string_or(""), "/posted");
    EXPECT_EQ(view["query"].string_or(""), "a=b");
    EXPECT_EQ(view["headers"]["x-ask"].string_or(""), "Why");
    EXPECT_EQ(view["commonName"].string_or("?"), "");
    EXPECT_FALSE(view["tls"].bool_or(true) || view["certificate"].bool_or(true));
}

TEST_F(LiveRoutes, UnansweredIsA500AndAnUnendedAnswerIsEnded) {
    handlers["quick"] = [](capstan_call*, capstan_exchange*) {};
    handlers["slow"] = [&](capstan_call*, capstan_exchange* x) {
        EXPECT_EQ(world.http_server->respond(x, 200, to_str("")), CAPSTAN_OK);
        EXPECT_EQ(world.http_server->write(x, to_str("all")), CAPSTAN_OK);
    };
    const StopFirst end(world);
    boot();
    const auto nothing = get("/quick");
    EXPECT_EQ(nothing.status, 500);
    EXPECT_EQ(nothing.body, "the plugin gave no answer\n");
    const auto unended = get("/slow");
    EXPECT_EQ(unended.status, 200);
    EXPECT_EQ(unended.body, "all");
}

TEST_F(LiveRoutes, UnknownPathsAndMethods) {
    const StopFirst end(world);
    boot();
    EXPECT_EQ(get("/quick/below").status, 404);
    EXPECT_EQ(get("/").status, 404);
    EXPECT_EQ(get("/posted").status, 405);
}

TEST_F(LiveRoutes, MisuseOfAnExchangeIsRefused) {
    std::vector<capstan_rc> codes;
    capstan_exchange* kept = nullptr;
    handlers["quick"] = [&](capstan_call*, capstan_exchange* x) {
        const capstan_ext_http_server& table = *world.http_server;
        if (kept == nullptr) {
            kept = x;
            char buffer[1];
            std::uint64_t n = 0;
            codes.push_back(table.read(x, buffer, 0, &n));
            codes.push_back(table.write(x, to_str("early")));
            codes.push_back(table.end(x));
            codes.push_back(table.respond(x, 99, to_str("")));
            codes.push_back(table.respond(x, 200, to_str(R"({"a":"b\r\nc: d"})")));
            codes.push_back(table.respond(x, 200, to_str(R"({"a:":"b"})")));
            codes.push_back(table.respond(x, 200, to_str("no JSON")));
            EXPECT_EQ(table.respond(x, 200, to_str("{}")), CAPSTAN_OK);
            codes.push_back(table.respond(x, 200, to_str("{}")));
            EXPECT_EQ(table.end(x), CAPSTAN_OK);
            codes.push_back(table.write(x, to_str("late")));
            codes.push_back(table.end(x));
        } else {
            EXPECT_EQ(table.respond(kept, 200, to_str("{}")), CAPSTAN_E_FENCED);
            EXPECT_EQ(table.end(kept), CAPSTAN_E_FENCED);
            EXPECT_EQ(table.request_json(kept).len, 0u);
            EXPECT_EQ(table.respond(x, 204, to_str("{}")), CAPSTAN_OK);
        }
    };
    const StopFirst end(world);
    boot();
    EXPECT_EQ(get("/quick").status, 200);
    // The answer may be here before the handler has returned.
    ASSERT_TRUE(world.until([&] { return world.http_server->request_json(kept).len == 0; }));
    EXPECT_EQ(codes, std::vector<capstan_rc>(10, CAPSTAN_E_INVALID));
    EXPECT_EQ(get("/quick").status, 204);
}

TEST_F(LiveRoutes, LongRoutesAreFourAtATimeAndDoNotHoldUpQuickOnes) {
    Door door(world);
    handlers["slow"] = [&](capstan_call*, capstan_exchange* x) {
        door.pass();
        EXPECT_EQ(world.http_server->respond(x, 200, to_str("")), CAPSTAN_OK);
    };
    handlers["quick"] = [&](capstan_call*, capstan_exchange* x) {
        EXPECT_EQ(world.http_server->respond(x, 204, to_str("")), CAPSTAN_OK);
    };
    const StopFirst end(world);
    boot();
    net::HttpRequest request;
    request.target = "/slow";
    std::array<Answer, control::kLongThreadsMax> answers;
    std::vector<std::unique_ptr<net::HttpExchange>> exchanges;
    for (Answer& answer : answers) {
        exchanges.push_back(start(request, answer));
    }
    ASSERT_TRUE(world.until([&] { return door.waiting() == 4; }));
    const auto fifth = get("/slow");
    EXPECT_EQ(fifth.status, 503);
    EXPECT_EQ(net::find_header(fifth.headers, "Retry-After"), "1");
    EXPECT_EQ(get("/quick").status, 204);
    door.open();
    for (Answer& answer : answers) {
        ASSERT_TRUE(world.until([&] { return answer.has_value(); }));
        EXPECT_EQ(answer->value().status, 200);
    }
    int again = 503;  // until the threads that answered are back
    for (int i = 0; i < 1000 && again == 503; ++i) {
        again = get("/slow").status;
    }
    EXPECT_EQ(again, 200) << "there is room again";
}

TEST_F(LiveRoutes, ManyQuickOnesAtOnceAreAllAnswered) {
    std::mutex mutex;  // guards both
    int inside = 0;
    int most = 0;
    handlers["quick"] = [&](capstan_call*, capstan_exchange* x) {
        {
            const std::lock_guard lock(mutex);
            most = std::max(most, ++inside);
        }
        EXPECT_EQ(world.http_server->respond(x, 200, to_str("")), CAPSTAN_OK);
        EXPECT_EQ(world.http_server->write(x, to_str("x")), CAPSTAN_OK);
        const std::lock_guard lock(mutex);
        --inside;
    };
    const StopFirst end(world);
    boot();
    net::HttpRequest request;
    request.target = "/quick";
    std::array<Answer, 48> answers;
    std::vector<std::unique_ptr<net::HttpExchange>> exchanges;
    for (Answer& answer : answers) {
        exchanges.push_back(start(request, answer));
    }
    for (Answer& answer : answers) {
        ASSERT_TRUE(world.until([&] { return answer.has_value(); }));
        ASSERT_TRUE(answer->has_value()) << answer->error().message;
        EXPECT_EQ(answer->value().status, 200);
        EXPECT_EQ(answer->value().body, "x");
    }
    EXPECT_LE(most, static_cast<int>(control::kQuickThreads));
}

TEST_F(LiveRoutes, PeerThatGoesAwayIsAnErrorOfTheWrite) {
    Door door(world);
    std::optional<capstan_rc> failed;
    std::mutex mutex;  // guards failed
    handlers["slow"] = [&](capstan_call*, capstan_exchange* x) {
        EXPECT_EQ(world.http_server->respond(x, 200, to_str("")), CAPSTAN_OK);
        door.pass();
        const std::string piece(256 * 1024, 'x');
        capstan_rc rc = CAPSTAN_OK;
        while (rc == CAPSTAN_OK) {
            rc = world.http_server->write(x, to_str(piece));
        }
        {
            const std::lock_guard lock(mutex);
            failed = rc;
        }
        world.wake();
    };
    const StopFirst end(world);
    boot();
    net::HttpRequest request;
    request.target = "/slow";
    Answer answer;
    auto exchange = start(request, answer);
    ASSERT_TRUE(world.until([&] { return door.waiting() == 1; }));
    exchange.reset();
    door.open();
    ASSERT_TRUE(world.until([&] {
        const std::lock_guard lock(mutex);
        return failed.has_value();
    }));
    EXPECT_EQ(failed, CAPSTAN_E_UNAVAIL);
    EXPECT_FALSE(answer.has_value());
}

// The client reads nothing: the write waits for room until the call's deadline, one second for a
// quick route; then the connection goes.
TEST_F(LiveRoutes, WriteThatNobodyReadsEndsAtTheDeadline) {
    std::optional<capstan_rc> first, next;
    std::mutex mutex;  // guards both
    handlers["quick"] = [&](capstan_call*, capstan_exchange* x) {
        {
            const std::lock_guard lock(mutex);
            if (first) {
                EXPECT_EQ(world.http_server->respond(x, 204, to_str("")), CAPSTAN_OK);
                return;
            }
        }
        EXPECT_EQ(world.http_server->respond(x, 200, to_str("")), CAPSTAN_OK);
        const std::string much(16u * 1024 * 1024, 'x');
        const capstan_rc one = world.http_server->write(x, to_str(much));
        const capstan_rc two = world.http_server->write(x, to_str("x"));
        {
            const std::lock_guard lock(mutex);
            first = one;
            next = two;
        }
        world.wake();
    };
    const StopFirst end(world);
    boot();
    net::HttpRequest request;
    request.target = "/quick";
    net::StreamHandler handler;
    std::optional<int> status;
    handler.on_head = [&](int s, const net::Headers&) { status = s; };
    handler.on_end = [](const Result<void>&) {};
    auto stream = client->stream(std::move(request), {}, std::move(handler));
    ASSERT_TRUE(world.until([&] {
        const std::lock_guard lock(mutex);
        return first.has_value();
    }));
    EXPECT_EQ(status, 200);
    EXPECT_EQ(first, CAPSTAN_E_DEADLINE);
    EXPECT_EQ(next, CAPSTAN_E_DEADLINE);
    stream.reset();
    EXPECT_EQ(get("/quick").status, 204);
}

TEST_F(LiveRoutes, StoppingPluginAnswers503) {
    Door door(world);
    handlers["slow"] = [&](capstan_call*, capstan_exchange*) { door.pass(); };
    const StopFirst end(world);
    boot();
    net::HttpRequest request;
    request.target = "/slow";
    Answer running;
    const auto exchange = start(request, running);
    ASSERT_TRUE(world.until([&] { return door.waiting() == 1; }));
    bool stopped = false;
    world.runtime->stop(20s, [&](const control::StopReport& report) {
        stopped = true;
        EXPECT_TRUE(report.clean());
    });
    door.open();
    ASSERT_TRUE(world.until([&] { return stopped && running.has_value(); }));
    EXPECT_EQ(running->value().status, 500);
    const auto late = get("/quick");
    EXPECT_EQ(late.status, 503);
    EXPECT_EQ(net::find_header(late.headers, "Retry-After"), "1");
}

}  // namespace
}  // namespace capstan::test
