// What the client sends again by itself, and what it does not.
#include "runtime/kube/client_fixture.hpp"

#include <gtest/gtest.h>

#include <string>

namespace capstan::kube {
namespace {

struct RetryTest : ClientTest {
    std::string get{std::string("GET ") + kItem};
    std::string apply{std::string("PATCH ") + kItem + "?fieldManager=m"};

    void start_get(MonotonicTime deadline = kNever) {
        GetOptions options;
        options.deadline = deadline;
        call = client.get(kLease, {"x", "a"}, options, note());
    }
    void start_apply() {
        PatchOptions options;
        options.type = PatchType::apply;
        options.field_manager = "m";
        call = client.patch(kLease, {"x", "a"}, "{}", options, note());
    }
    std::size_t count(const std::string& line) const {
        return static_cast<std::size_t>(
            std::count_if(script.seen.begin(), script.seen.end(), [&](const std::string& seen) {
                return seen.starts_with(line);
            }));
    }
    // The transport breaks for the next `times` requests for the object.
    void break_off(int times) {
        http.set_faults([this, times](const net::HttpRequest& request) {
            test::Fault fault;
            fault.lose_response =
                request.target.find("leases/a") != std::string::npos && broken++ < times;
            return fault;
        });
    }
    int broken{0};
};

TEST_F(RetryTest, WaitsAsLongAsABusyServerAsks) {
    script.answers[get] = {{429, "", {{"Retry-After", "3"}}}, {200, kObject, {}}};
    start_get();
    loop.run_for(2300ms);
    EXPECT_EQ(count(get), 1u);
    loop.run_for(1500ms);
    EXPECT_EQ(outcome, "7");
    EXPECT_EQ(observer.retries, (std::vector<std::string>{"GET 429"}));
    ASSERT_EQ(observer.waits.size(), 1u);
    EXPECT_GE(observer.waits[0], 2400ms);
    EXPECT_LE(observer.waits[0], 3600ms);
}

TEST_F(RetryTest, EveryVerbIsSentAgainAndTheClassPauses) {
    script.answers[apply] = {{503, "", {{"Retry-After", "2"}}}, {200, kObject, {}}};
    script.answers[get] = {{200, kObject, {}}};
    start_apply();
    loop.run_for(100ms);
    auto kept = std::move(call);
    auto second = client.remove(kLease, {"x", "a"}, {}, [](const Result<ObjectPtr>&) {});
    start_get();
    loop.run_for(100ms);
    EXPECT_EQ(outcome, "7") << "reads are another class";
    EXPECT_EQ(count("DELETE"), 0u);
    loop.run_for(4s);
    EXPECT_EQ(outcome, "77");
    EXPECT_EQ(count(apply), 2u);
    EXPECT_EQ(count("DELETE"), 1u);
}

// A webhook, a quota or a disruption budget refuses one object for a long time.
TEST_F(RetryTest, WhatOneObjectIsToldHoldsThatObjectOnly) {
    const char* status =
        R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests",)"
        R"("code":429,"message":"tenant quota","details":{"retryAfterSeconds":3600}})";
    const net::Headers headers = {{"Content-Type", "application/json"}, {"Retry-After", "3600"}};
    script.answers[apply] = {{429, status, headers}};
    script.answers[std::string("DELETE ") + kItem] = {{200, "{}", {}}};
    start_apply();
    loop.run_for(10ms);
    EXPECT_EQ(outcome,
              "overloaded|apply leases.coordination.k8s.io x/a: 429 TooManyRequests: "
              "\"tenant quota\"");
    auto other = client.remove(kLease, {"x", "a"}, {}, [](const Result<ObjectPtr>&) {});
    loop.run_for(10ms);
    EXPECT_EQ(count("DELETE"), 1u);
    // When it is for long enough to wait, only this one waits.
    script.seen.clear();
    script.answers[apply] = {
        {429, "{}", {{"Content-Type", "application/json"}, {"Retry-After", "9"}}},
        {200, kObject, {}}};
    start_apply();
    loop.run_for(8900ms);
    other = client.remove(kLease, {"x", "a"}, {}, [](const Result<ObjectPtr>&) {});
    loop.run_for(10ms);
    EXPECT_EQ(count("DELETE"), 1u);
    EXPECT_EQ(count("PATCH"), 1u);
    loop.run_for(200ms);
    EXPECT_EQ(count("PATCH"), 2u);
}

TEST_F(RetryTest, WhatWasNeverSentSaysSo) {
    script.answers[apply] = {{500, "", {}}};
    std::vector<CallHandle> calls;
    for (int i = 0; i < 50; ++i) {
        start_apply();
        calls.push_back(std::move(call));
        loop.run_for(5ms);
    }
    outcome.clear();
    PatchOptions options;
    options.type = PatchType::apply;
    options.field_manager = "m";
    options.deadline = loop.now() + 2s;
    calls.push_back(client.patch(kLease, {"x", "a"}, "{}", options, note()));
    loop.run_for(2500ms);
    EXPECT_NE(outcome.find("timeout|apply leases.coordination.k8s.io x/a: not sent: no turn among "
                           "the other requests before the deadline"),
              std::string::npos)
        << outcome;
}

TEST_F(RetryTest, TheDeadlineEndsItWithWhatTheServerSaid) {
    script.answers[get] = {{429, "", {{"Retry-After", "1"}}}};
    start_get(loop.now() + 10s);
    loop.run_for(1min);
    EXPECT_EQ(outcome, "overloaded|get leases.coordination.k8s.io x/a: 429");
    EXPECT_LE(count(get), 5u);
    EXPECT_GE(count(get), 3u);
    outcome.clear();
    script.answers[get] = {{429, "", {{"Retry-After", "60"}}}};
    loop.run_for(10min);
    script.seen.clear();
    start_get(loop.now() + 10s);
    loop.run_for(100ms);
    EXPECT_EQ(outcome, "overloaded|get leases.coordination.k8s.io x/a: 429") << "known at once";
}

TEST_F(RetryTest, WhatMayBeRepeatedIsSentOnceMoreWhenTheConnectionBreaks) {
    script.answers[get] = {{200, kObject, {}}};
    script.answers[apply] = {{200, kObject, {}}};
    start_get();
    loop.run_for(1s);
    break_off(1);
    start_get();
    loop.run_for(3s);
    EXPECT_EQ(outcome, "77");
    EXPECT_EQ(observer.retries, (std::vector<std::string>{"GET <error>"}));
    broken = 0;
    start_apply();
    loop.run_for(3s);
    EXPECT_EQ(outcome, "777");
    EXPECT_EQ(count(apply), 2u);
}

TEST_F(RetryTest, WhatMayNotIsReported) {
    script.answers[std::string("PATCH ") + kItem] = {{200, kObject, {}}};
    script.answers["POST /apis/coordination.k8s.io/v1/namespaces/x/leases"] = {{201, kObject, {}}};
    script.answers[std::string("DELETE ") + kItem] = {{200, "{}", {}}};
    http.set_faults([](const net::HttpRequest& request) {
        test::Fault fault;
        fault.lose_response = request.method != "GET";
        return fault;
    });
    PatchOptions merge;
    std::vector<CallHandle> calls;
    calls.push_back(client.patch(kLease, {"x", "a"}, "{}", merge, note()));
    calls.push_back(client.create(kLease, "x", "{}", {}, note()));
    calls.push_back(client.remove(kLease, {"x", "a"}, {}, note()));
    loop.run_for(1min);
    EXPECT_EQ(count("PATCH") + count("POST") + count("DELETE"), 3u);
    EXPECT_TRUE(observer.retries.empty());
    DeleteOptions conditional;
    conditional.uid = "u";
    calls.push_back(client.remove(kLease, {"x", "a"}, conditional, note()));
    loop.run_for(1min);
    EXPECT_EQ(count("DELETE"), 3u) << "with a uid it cannot hit another object";
    conditional.uid.clear();
    conditional.resource_version = "7";
    calls.push_back(client.remove(kLease, {"x", "a"}, conditional, note()));
    loop.run_for(1min);
    EXPECT_EQ(count("DELETE"), 5u) << "nor with the version";
}

TEST_F(RetryTest, CountsBytes) {
    script.answers[std::string("PATCH ") + kItem] = {{200, kObject, {}}};
    call = client.patch(kLease, {"x", "a"}, R"({"a":1})", {}, note());
    loop.run_for(1s);
    const std::size_t answer = std::string(kObject).size();
    EXPECT_EQ(observer.sizes.back(), (std::pair<std::size_t, std::size_t>{7, answer}));
}

TEST_F(RetryTest, AWatchWaitsForAPauseOnlySoLong) {
    const std::string target =
        "GET /apis/coordination.k8s.io/v1/namespaces/x/"
        "leases?watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=5";
    script.answers[target] = {{429, "", {{"Retry-After", "30"}}}};
    std::string ends;
    const auto watch = [&] {
        WatchHandler handler;
        handler.on_event = [](const WatchEvent&) {};
        handler.on_end = [&](Result<void> result) {
            ends += std::string(to_string(result.error().code)) + " " +
                    std::to_string(result.error().retry_after.count()) + ";";
        };
        WatchOptions options;
        options.ns = "x";
        options.resource_version = "5";
        call = client.watch(kLease, options, std::move(handler));
    };
    watch();
    loop.run_for(1s);
    EXPECT_EQ(ends, "overloaded 30000;");
    ends.clear();
    watch();
    loop.run_for(11s);
    EXPECT_EQ(ends, "overloaded 30000;") << "asked again after the bounded pause";
    EXPECT_EQ(count(target), 2u);
    ends.clear();
    for (int i = 0; i < 6; ++i) {  // a pause that grew beyond what a watch waits
        watch();
        loop.run_for(11s);
    }
    EXPECT_NE(ends.find("overloaded 1"), std::string::npos) << ends;
    EXPECT_LE(count(target), 5u);
}

struct RenewTest : ClientTest {
    std::string log;
    WatchHandler handler() {
        WatchHandler made;
        made.on_event = [this](const WatchEvent& event) { log += "@" + event.resource_version; };
        made.on_end = [this](const Result<void>& result) { log += result ? " end" : " broken"; };
        return made;
    }
    static std::string event(int version, const std::string& more = "") {
        return R"({"type":")" + std::string(more.empty() ? "ADDED" : "BOOKMARK") +
               R"(","object":{"metadata":{"name":"n","resourceVersion":")" +
               std::to_string(version) + "\"" + more + "}}}\n";
    }
    void send(const std::string& text) {
        script.stream->write(text, [](Result<void>) {});
        loop.run_for(1s);
    }
};

TEST_F(RenewTest, WatchesEndAtAnEventBoundary) {
    const std::string target =
        "GET /apis/coordination.k8s.io/v1/namespaces/x/"
        "leases?watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=5";
    script.answers[target] = {{200, "hold", {}}};
    WatchOptions options;
    options.ns = "x";
    options.resource_version = "5";
    call = client.watch(kLease, options, handler());
    loop.run_for(1s);
    const std::string whole = event(6);
    send(whole.substr(0, 20));
    client.renew_watches();
    loop.run_for(1s);
    EXPECT_EQ(log, "") << "in the middle of an event";
    send(whole.substr(20));
    EXPECT_EQ(log, "@6 end");
    client.renew_watches();
    loop.run_for(10s);
    EXPECT_EQ(log, "@6 end");
}

TEST_F(RenewTest, ButNotBeforeTheInitialEventsAreComplete) {
    const std::string target =
        "GET /apis/coordination.k8s.io/v1/namespaces/x/"
        "leases?watch=true&allowWatchBookmarks=true&timeoutSeconds=300&sendInitialEvents=true&"
        "resourceVersionMatch=NotOlderThan";
    script.answers[target] = {{200, "hold", {}}};
    WatchOptions options;
    options.ns = "x";
    options.send_initial_events = true;
    call = client.watch(kLease, options, handler());
    loop.run_for(1s);
    client.renew_watches();
    send(event(6));
    EXPECT_EQ(log, "@6");
    send(event(7, R"(,"annotations":{"k8s.io/initial-events-end":"true"})"));
    EXPECT_EQ(log, "@6@7 end");
}

}  // namespace
}  // namespace capstan::kube
