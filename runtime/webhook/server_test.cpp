// The webhook server over real TLS on loopback: every way a review can end.
#include "runtime/webhook/server.hpp"

#include "runtime/net/http_client.hpp"
#include "runtime/net/http_server.hpp"
#include "runtime/net/io_loop.hpp"
#include "runtime/net/pki.hpp"
#include "runtime/webhook/admission_review.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace capstan::webhook {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds kLimit{10};  // of anything that could hang
constexpr std::string_view kGood =
    R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1",)"
    R"("request":{"uid":"u","operation":"CREATE","object":{}}})";

class WebhookServer : public ::testing::Test {
protected:
    using Answer = std::optional<Result<net::HttpResponse>>;

    WebhookServer() {
        const auto now = std::chrono::time_point_cast<std::chrono::nanoseconds>(loop->wall_now());
        const net::Validity validity{now - 1h, now + 24h};
        ca = net::make_ca("ca", validity).value();
        const net::KeyPair pair =
            net::issue_certificate(
                ca, {.common_name = "w", .ip_addresses = {"127.0.0.1"}, .server = true}, validity)
                .value();
        options.certificate_pem = pair.certificate_pem;
        options.key_pem = pair.key_pem;
    }
    void serve() {
        std::vector<Endpoint> endpoints;
        endpoints.push_back(
            {"/check", [this](kube::AdmissionQuestion question, kube::AdmissionDone done) {
                 handler(std::move(question), std::move(done));
             }});
        webhooks.emplace(*loop, metrics, std::move(endpoints));
        server = net::make_http_server(*loop, options, webhooks->handler()).value();
        net::HttpClientOptions client_options;
        client_options.endpoint = "https://127.0.0.1:" + std::to_string(server->port());
        client_options.tls.ca_pem = ca.certificate_pem;
        client = net::make_http_client(*loop, client_options).value();
    }
    static net::HttpRequest request(std::string body) {
        net::HttpRequest made;
        made.method = "POST";
        made.target = "/check?timeout=10s";
        made.headers = {{"Content-Type", "application/json"}};
        made.body = std::move(body);
        return made;
    }
    std::unique_ptr<net::HttpExchange> start(net::HttpRequest made, Answer& answer) {
        return client->send(std::move(made), [&answer](Result<net::HttpResponse> r) {
            answer.emplace(std::move(r));
        });
    }
    Result<net::HttpResponse> send(net::HttpRequest made) {
        Answer answer;
        const auto exchange = start(std::move(made), answer);
        if (!loop->run_until([&] { return answer.has_value(); }, kLimit)) {
            return fail(Code::internal, "the test hangs");
        }
        return std::move(*answer);
    }
    bool shows(const std::string& line) const {
        return metrics.render().find(line + "\n") != std::string::npos;
    }
    bool counted(int status, int times) const {
        return shows("controller_runtime_webhook_requests_total{webhook=\"/check\",code=\"" +
                     std::to_string(status) + "\"} " + std::to_string(times));
    }
    bool idle() const {
        return shows("controller_runtime_webhook_requests_in_flight{webhook=\"/check\"} 0");
    }

    const std::unique_ptr<net::IoLoop> loop{net::make_loop()};
    obs::Metrics metrics;
    net::KeyPair ca;
    net::HttpServerOptions options;
    std::function<void(kube::AdmissionQuestion, kube::AdmissionDone)> handler =
        [](const kube::AdmissionQuestion&, const kube::AdmissionDone& done) {
            done(kube::AdmissionAnswer{.allowed = true});
        };
    std::optional<Server> webhooks;
    std::unique_ptr<net::HttpServer> server;
    std::unique_ptr<net::HttpClient> client;
};

TEST_F(WebhookServer, AsksTheHandlerAndAnswers) {
    std::string asked;
    MonotonicTime deadline{};
    handler = [&](const kube::AdmissionQuestion& question, const kube::AdmissionDone& done) {
        asked = json::dump(question.request);
        deadline = question.deadline;
        done(kube::AdmissionAnswer{.message = "not today"});
    };
    serve();
    EXPECT_TRUE(counted(200, 0) && counted(500, 0)) << "both are there from the start";
    const MonotonicTime before = loop->now();
    const auto answer = send(request(std::string(kGood)));
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer.value().status, 200);
    EXPECT_EQ(net::find_header(answer.value().headers, "content-type"), "application/json");
    EXPECT_NE(answer.value().body.find(R"("uid":"u","allowed":false)"), std::string::npos);
    EXPECT_NE(answer.value().body.find("not today"), std::string::npos);
    EXPECT_EQ(asked, R"({"uid":"u","operation":"CREATE","object":{}})");
    EXPECT_GE(deadline, before + 9s);
    EXPECT_LE(deadline, before + 10s);
    EXPECT_TRUE(counted(200, 1) && idle()) << metrics.render();
    EXPECT_TRUE(shows("controller_runtime_webhook_latency_seconds_count{webhook=\"/check\"} 1"));
}

struct EndRow {
    const char* name;
    Code code;
    int status;
    const char* text;
};
std::ostream& operator<<(std::ostream& out, const EndRow& row) {
    return out << row.name;
}
class FailedHandler : public WebhookServer, public ::testing::WithParamInterface<EndRow> {};

TEST_P(FailedHandler, IsAnsweredAllTheSame) {
    handler = [](const kube::AdmissionQuestion&, const kube::AdmissionDone& done) {
        done(fail(GetParam().code, "said so"));
    };
    serve();
    const auto answer = send(request(std::string(kGood)));
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer.value().status, GetParam().status);
    EXPECT_NE(answer.value().body.find(GetParam().text), std::string::npos) << answer.value().body;
    EXPECT_TRUE(counted(GetParam().status, 1) && idle()) << metrics.render();
}

INSTANTIATE_TEST_SUITE_P(Rules,
                         FailedHandler,
                         ::testing::Values(EndRow{"panic",
                                                  Code::internal,
                                                  200,
                                                  R"("allowed":false,"status":{"status":"Failure",)"
                                                  R"("message":"said so","code":500)"},
                                           EndRow{"error", Code::invalid, 200, R"("code":500)"},
                                           EndRow{"late", Code::timeout, 504, "said so"},
                                           EndRow{"too_many", Code::overloaded, 503, "said so"},
                                           EndRow{
                                               "not_running", Code::unavailable, 503, "said so"}),
                         [](const auto& row) { return row.param.name; });

TEST_F(WebhookServer, RefusesWhatIsNoReview) {
    bool asked = false;
    handler = [&](const kube::AdmissionQuestion&, const kube::AdmissionDone&) { asked = true; };
    serve();
    for (const char* type : {"application/json; charset=utf-8", "text/plain", ""}) {
        net::HttpRequest made = request(std::string(kGood));
        made.headers = {{"Content-Type", type}};
        const auto answer = send(std::move(made));
        ASSERT_TRUE(answer) << answer.error().message;
        EXPECT_EQ(answer.value().status, 400) << type;
        EXPECT_NE(answer.value().body.find(R"("code":400)"), std::string::npos);
    }
    const auto malformed = send(request("{"));
    ASSERT_TRUE(malformed);
    EXPECT_EQ(malformed.value().status, 400);
    EXPECT_NE(malformed.value().body.find(R"("uid":"","allowed":false)"), std::string::npos);
    net::HttpRequest other = request(std::string(kGood));
    other.target = "/other";
    EXPECT_EQ(send(std::move(other)).value().status, 404);
    net::HttpRequest got = request("");
    got.method = "GET";
    EXPECT_EQ(send(std::move(got)).value().status, 405);
    EXPECT_FALSE(asked);
    EXPECT_TRUE(counted(400, 4) && idle()) << metrics.render();
}

TEST_F(WebhookServer, TakesSevenMebibytesAndNoByteMore) {
    serve();
    std::string body(kGood);
    const std::string_view end = "}}}";
    body.resize(body.size() - end.size());
    body += R"("x":")";
    body.append(kReviewBytesMax - body.size() - end.size() - 1, 'x');
    body += "\"" + std::string(end);
    ASSERT_EQ(body.size(), kReviewBytesMax);
    const auto most = send(request(body));
    ASSERT_TRUE(most) << most.error().message;
    EXPECT_EQ(most.value().status, 200) << most.value().body;
    const auto over = send(request(body + " "));
    ASSERT_TRUE(over) << over.error().message;
    EXPECT_EQ(over.value().status, 413);
    EXPECT_TRUE(counted(200, 1) && counted(413, 1) && idle()) << metrics.render();
}

TEST_F(WebhookServer, AnswersInTimeWhenTheHandlerDoesNot) {
    kube::AdmissionDone kept;
    handler = [&](const kube::AdmissionQuestion&, kube::AdmissionDone done) {
        kept = std::move(done);
    };
    serve();
    net::HttpRequest made = request(std::string(kGood));
    made.target = "/check?timeout=100ms";
    const auto answer = send(std::move(made));
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer.value().status, 504);
    kept(kube::AdmissionAnswer{.allowed = true});  // late, and of no consequence
    EXPECT_TRUE(counted(504, 1) && counted(200, 0) && idle()) << metrics.render();
    handler = [](const kube::AdmissionQuestion&, const kube::AdmissionDone&) {};
    net::HttpRequest dropped = request(std::string(kGood));
    dropped.target = "/check?timeout=50ms";
    EXPECT_EQ(send(std::move(dropped)).value().status, 504) << "the handler let go of it";
}

TEST_F(WebhookServer, EndsASlowSender) {
    serve();
    std::optional<int> status;
    bool over = false;
    net::StreamHandler events;
    events.on_head = [&](int s, const net::Headers&) { status = s; };
    events.on_end = [&](const Result<void>&) { over = true; };
    net::HttpRequest made = request("");
    made.target = "/check?timeout=100ms";
    net::StreamOptions streaming;
    streaming.body_follows = true;
    streaming.body_bytes = 100;
    const auto stream = client->stream(std::move(made), streaming, std::move(events));
    stream->write("{\"kind\":", false, [](const Result<void>&) {});  // and then nothing
    ASSERT_TRUE(loop->run_until([&] { return status.has_value() || over; }, kLimit));
    EXPECT_EQ(status.value_or(0), 504);
    EXPECT_TRUE(idle()) << metrics.render();
}

TEST_F(WebhookServer, HoldsSoManyAndNoMore) {
    std::vector<kube::AdmissionDone> waiting;
    handler = [&](const kube::AdmissionQuestion&, kube::AdmissionDone done) {
        waiting.push_back(std::move(done));
    };
    serve();
    std::vector<Answer> answers(kReviewsInFlightMax);
    std::vector<std::unique_ptr<net::HttpExchange>> exchanges;
    for (Answer& answer : answers) {
        exchanges.push_back(start(request(std::string(kGood)), answer));
    }
    ASSERT_TRUE(loop->run_until([&] { return waiting.size() == kReviewsInFlightMax; }, kLimit));
    net::HttpClientOptions another;
    another.endpoint = "https://127.0.0.1:" + std::to_string(server->port());
    another.tls.ca_pem = ca.certificate_pem;
    const auto first = std::move(client);  // its pool is full
    client = net::make_http_client(*loop, another).value();
    const auto refused = send(request(std::string(kGood)));
    ASSERT_TRUE(refused) << refused.error().message;
    EXPECT_EQ(refused.value().status, 503);
    EXPECT_EQ(net::find_header(refused.value().headers, "retry-after"), "1");
    for (const kube::AdmissionDone& done : waiting) {
        done(kube::AdmissionAnswer{.allowed = true});
    }
    ASSERT_TRUE(loop->run_until(
        [&] {
            return std::all_of(
                answers.begin(), answers.end(), [](const Answer& a) { return a.has_value(); });
        },
        kLimit));
    EXPECT_TRUE(idle()) << metrics.render();
}

TEST_F(WebhookServer, ForgetsAPeerThatLeft) {
    bool asked = false;
    kube::AdmissionDone kept;
    handler = [&](const kube::AdmissionQuestion&, kube::AdmissionDone done) {
        asked = true;
        kept = std::move(done);
    };
    serve();
    Answer answer;
    auto exchange = start(request(std::string(kGood)), answer);
    ASSERT_TRUE(loop->run_until([&] { return asked; }, kLimit));
    exchange.reset();
    client.reset();
    ASSERT_TRUE(loop->run_until([&] { return idle(); }, kLimit));
    kept(kube::AdmissionAnswer{.allowed = true});
    EXPECT_TRUE(counted(200, 0));
}

TEST_F(WebhookServer, AsksForTheCallersCertificate) {
    options.client_ca_pem = ca.certificate_pem;
    options.client_auth = net::ClientAuth::require;
    serve();
    EXPECT_FALSE(send(request(std::string(kGood))));
    const auto now = std::chrono::time_point_cast<std::chrono::nanoseconds>(loop->wall_now());
    const net::KeyPair pair =
        net::issue_certificate(
            ca, {.common_name = "api-server", .client = true}, {now - 1h, now + 1h})
            .value();
    net::HttpClientOptions with_pair;
    with_pair.endpoint = "https://127.0.0.1:" + std::to_string(server->port());
    with_pair.tls = {ca.certificate_pem, pair.certificate_pem, pair.key_pem, "", false};
    client = net::make_http_client(*loop, with_pair).value();
    const auto answer = send(request(std::string(kGood)));
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer.value().status, 200);
}

}  // namespace
}  // namespace capstan::webhook
