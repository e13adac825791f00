#include "runtime/kube/client_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace capstan::kube {
namespace {

TEST_F(ClientTest, GetsAnObjectAfterOneDiscovery) {
    script.answers[std::string("GET ") + kItem] = {{200, kObject, {}}};
    call = client.get(kLease, {"x", "a"}, {}, note());
    EXPECT_EQ(outcome, "");
    loop.run_for(1s);
    call = client.get(kLease, {"x", "a"}, {}, note());
    loop.run_for(1s);
    EXPECT_EQ(outcome, "77");
    EXPECT_EQ(script.seen.size(), 3u);
    EXPECT_EQ(observer.lines.back(), "GET 200 h:1 2000000");
    EXPECT_EQ(script.tokens.back(), "Bearer one");
}

TEST_F(ClientTest, BuildsTheRequestOfEachWrite) {
    script.answers
        ["POST /apis/coordination.k8s.io/v1/namespaces/x/leases?fieldManager=m&dryRun=All"] = {
        {201, kObject, {}}};
    call = client.create(kLease, "x", "{}", {.field_manager = "m", .dry_run = true}, note());
    loop.run_for(1s);
    EXPECT_EQ(last(),
              "POST /apis/coordination.k8s.io/v1/namespaces/x/leases?fieldManager=m&dryRun=All "
              "[application/json] {}");
    script.answers[std::string("PATCH ") + kItem + "/status?fieldManager=m%201&force=true"] = {
        {200, kObject, {}}};
    call = client.patch(
        kLease,
        {"x", "a"},
        "{}",
        {.type = PatchType::apply, .subresource = "status", .field_manager = "m 1", .force = true},
        note());
    loop.run_for(1s);
    EXPECT_EQ(last(),
              std::string("PATCH ") + kItem +
                  "/status?fieldManager=m%201&force=true [application/apply-patch+yaml] {}");
    script.answers[std::string("PATCH ") + kItem] = {{200, kObject, {}}};
    call = client.patch(kLease, {"x", "a"}, "[]", {.type = PatchType::json}, note());
    loop.run_for(1s);
    EXPECT_EQ(last(), std::string("PATCH ") + kItem + " [application/json-patch+json] []");
    script.answers[std::string("DELETE ") + kItem] = {
        {200, R"({"kind":"Status","status":"Success"})", {}}};
    call =
        client.remove(kLease,
                      {"x", "a"},
                      {.uid = "u", .resource_version = "7", .propagation = Propagation::foreground},
                      note());
    loop.run_for(1s);
    EXPECT_EQ(
        last(),
        std::string("DELETE ") + kItem +
            R"( [application/json] {"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u","resourceVersion":"7"},"propagationPolicy":"Foreground"})");
    EXPECT_EQ(outcome, "777gone");
}

TEST_F(ClientTest, TellsAnObjectThatStaysFromOneThatIsGone) {
    const std::string deleting =
        R"({"kind":"Lease","metadata":{"name":"a","resourceVersion":"8","deletionTimestamp":"2026-01-01T00:00:00Z")";
    script.answers[std::string("DELETE ") + kItem] = {
        {200, deleting + R"(,"finalizers":["f"]}})", {}},
        {200, deleting + "}}", {}},
        {200, kObject, {}}};
    for (int i = 0; i < 3; ++i) {
        call = client.remove(kLease, {"x", "a"}, {}, note());
        loop.run_for(1s);
    }
    EXPECT_EQ(outcome, "8gonegone");
}

struct NameRow {
    const char* ns;
    const char* name;
};

TEST_F(ClientTest, SendsNothingForNamesThatAreNoPathSegment) {
    for (const NameRow& row : {NameRow{"x", ""},
                               {"x", ".."},
                               {"x", "a/b"},
                               {"x", "a%2f"},
                               {"..", "a"},
                               {"", "a"},
                               {"x", "a?b"},
                               {"x", "a b"}}) {
        outcome.clear();
        call = client.remove(kLease, {row.ns, row.name}, {}, note());
        loop.run_for(1s);
        EXPECT_EQ(outcome.substr(0, 15), "invalid|delete ")
            << row.ns << "/" << row.name << ": " << outcome;
    }
    call = client.get(kNode, {"x", "n"}, {}, note());
    loop.run_for(1s);
    EXPECT_EQ(script.seen.size(), 2u);  // discovery only
}

TEST_F(ClientTest, NamesVerbResourceAndKeyInErrors) {
    script.answers[std::string("GET ") + kItem] = {
        {403,
         R"({"kind":"Status","reason":"Forbidden","message":"leases \"a\" is forbidden","details":{"name":"a"}})",
         {}}};
    call = client.get(kLease, {"x", "a"}, {}, note());
    loop.run_for(1s);
    EXPECT_EQ(outcome,
              "forbidden|get leases.coordination.k8s.io x/a: 403 Forbidden: \"leases \"a\" is "
              "forbidden\"");
}

TEST_F(ClientTest, AsksAgainForAMissingKindOnlyAfterAWhile) {
    const GroupVersionKind other{"coordination.k8s.io", "v1", "Other"};
    call = client.get(other, {"x", "a"}, {}, note());
    loop.run_for(1s);
    call = client.get(other, {"x", "a"}, {}, note());
    loop.run_for(1s);
    EXPECT_EQ(script.seen.size(), 1u);
    EXPECT_EQ(outcome.substr(0, outcome.find("not_found", 5)),
              "not_found|get Other x/a: kind Other is not served in coordination.k8s.io/v1");
    loop.run_for(5s);
    call = client.get(other, {"x", "a"}, {}, note());
    loop.run_for(1s);
    EXPECT_EQ(script.seen.size(), 2u);
}

TEST_F(ClientTest, ForgetsAKindWhoseUrlIsGone) {
    call = client.get(kLease, {"x", "a"}, {}, note());  // plain 404: the kind
    loop.run_for(1s);
    script.answers[std::string("GET ") + kItem] = {
        {404, R"({"kind":"Status","reason":"NotFound","details":{"name":"a"}})", {}}};
    for (int i = 0; i < 3; ++i) {  // the object
        call = client.get(kLease, {"x", "a"}, {}, note());
        loop.run_for(1s);
    }
    EXPECT_EQ(
        std::count(script.seen.begin(), script.seen.end(), "GET /apis/coordination.k8s.io/v1"), 2);
}

TEST_F(ClientTest, SharesOneDiscoveryAmongCalls) {
    script.answers[std::string("GET ") + kItem] = {{200, kObject, {}}};
    std::vector<CallHandle> calls;
    int done = 0;
    for (int i = 0; i < 10; ++i) {
        calls.push_back(
            client.get(kLease, {"x", "a"}, {}, [&](Result<ObjectPtr> r) { done += r ? 1 : 0; }));
    }
    loop.run_for(1s);
    EXPECT_EQ(done, 10);
    EXPECT_EQ(script.seen.size(), 11u);
}

TEST_F(ClientTest, SendsAgainOnceWithARenewedToken) {
    script.answers[std::string("GET ") + kItem] = {
        {401, "", {}}, {200, kObject, {}}, {401, "", {}}};
    tokens.next = "two";
    call = client.get(kLease, {"x", "a"}, {}, note());
    loop.run_for(1s);
    EXPECT_EQ(outcome, "7");
    EXPECT_EQ(script.tokens.back(), "Bearer two");
    const std::size_t before = script.seen.size();
    call = client.get(kLease, {"x", "a"}, {}, note());  // the token cannot be renewed
    loop.run_for(1s);
    EXPECT_EQ(script.seen.size(), before + 1);
}

TEST_F(ClientTest, KeepsDeadlinesAlsoDuringDiscovery) {
    http.set_faults([](const net::HttpRequest&) { return test::Fault{.response_delay = 10s}; });
    call = client.get(kLease, {"x", "a"}, {.deadline = 5s}, [this](Result<ObjectPtr> r) {
        outcome = std::string(to_string(r.error().code)) + "|" + r.error().message;
    });
    loop.run_for(2h);
    EXPECT_EQ(script.seen.size(), 1u);  // what discovery brings is too late
    EXPECT_EQ(outcome,
              "timeout|get Lease x/a: not sent: no discovery of the kind before the deadline");
}

TEST_F(ClientTest, CallsNobodyAfterTheHandleIsGone) {
    script.answers[std::string("GET ") + kItem] = {{200, kObject, {}}};
    for (const auto when : {0ms, 1ms, 1ms, 3ms}) {  // an answer takes 2 ms
        call = client.get(kLease, {"x", "a"}, {}, note());
        loop.run_for(when);
        call.reset();
        loop.run_for(1s);
    }
    EXPECT_EQ(outcome, "7");  // only the last had its answer in time
}

TEST_F(ClientTest, ListsPagesWithAndWithoutKinds) {
    const std::string list = "/apis/coordination.k8s.io/v1/namespaces/x/leases";
    std::string items;
    for (int i = 0; i < 100; ++i) {
        items += std::string(i > 0 ? " ,\n" : "") + R"({"metadata": {"name":"n)" +
                 std::to_string(i) + R"(","resourceVersion":"1"}, "spec":{"a":[1,{"b":"]}"}]}})";
    }
    script.answers["GET " + list + "?limit=500&labelSelector=a%3Db"] = {
        {200,
         R"({"kind":"LeaseList", "metadata": {"resourceVersion":"9","continue":"tok en"}, "items": [)" +
             items + "]}\n",
         {}}};
    call = client.list(kLease, {.ns = "x", .label_selector = "a=b"}, note_list());
    loop.run_for(1s);
    EXPECT_EQ(outcome, "100 items at 9 then 'tok en'");
    script.answers["GET " + list + "?limit=500&labelSelector=a%3Db&continue=tok%20en"] = {
        {200, R"({"metadata":{"resourceVersion":"9"},"items":null})", {}}};
    call = client.list(kLease,
                       {.ns = "x",
                        .label_selector = "a=b",
                        .match = ListMatch::not_older_than,
                        .resource_version = "5",
                        .continue_token = "tok en"},
                       note_list());
    loop.run_for(1s);
    EXPECT_EQ(outcome, "0 items at 9 then ''");
    script.answers["GET " + list + "?resourceVersion=5&resourceVersionMatch=NotOlderThan"] = {
        {200, "[1]", {}}};
    call = client.list(
        kLease,
        {.ns = "x", .match = ListMatch::not_older_than, .resource_version = "5", .limit = 0},
        note_list());
    loop.run_for(1s);
    EXPECT_EQ(outcome,
              "unavailable|list leases.coordination.k8s.io in x: answer of the server is no list");
}

TEST_F(ClientTest, TellsEachWarningOnce) {
    script.answers[std::string("GET ") + kItem] = {
        {200, kObject, {{"Warning", "299 - \"old field\""}}}};
    for (int i = 0; i < 2; ++i) {
        call = client.get(kLease, {"x", "a"}, {}, note());
        loop.run_for(1s);
    }
    const std::string line = std::string("GET ") + kItem + ": old field";
    EXPECT_EQ(std::count(observer.lines.begin(), observer.lines.end(), line), 1);
}

struct WatchTest : ClientTest {
    std::string log;
    std::string target =
        "GET /apis/coordination.k8s.io/v1/namespaces/x/"
        "leases?watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=5";

    WatchHandler handler() {
        return {.on_open = [this] { log += "open "; },
                .on_bytes = {},
                .on_event =
                    [this](WatchEvent event) {
                        log += event.object ? std::string(event.object->name())
                               : event.type == WatchEvent::Type::bookmark ? "mark"
                                                                          : "bad";
                        log += "@" + event.resource_version + " ";
                    },
                .on_end =
                    [this](Result<void> r) {
                        log += r ? "end"
                                 : std::string(to_string(r.error().code)) + "|" + r.error().message;
                    }};
    }
    void open() {
        script.answers[target] = {{200, "hold", {}}};
        call = client.watch(kLease, {.ns = "x", .resource_version = "5"}, handler());
        loop.run_for(1s);
    }
    static std::string event(const char* type, const std::string& name, int rv) {
        return std::string(R"({"type":")") + type + R"(","object":{"metadata":{"name":")" + name +
               R"(","resourceVersion":")" + std::to_string(rv) + "\"}}}\n";
    }
    void send(const std::string& text) {
        script.stream->write(text, [](Result<void>) {});
        loop.run_for(1s);
    }
};

TEST_F(WatchTest, DeliversEventsFromOneByteChunks) {
    http.set_faults([](const net::HttpRequest&) { return test::Fault{.chunk_bytes = 1}; });
    open();
    send(event("ADDED", "a", 6) + event("BOOKMARK", "", 7) + R"({"type":"X","object":{}})" + "\n" +
         event("DELETED", "a", 8));
    script.stream->end();
    loop.run_for(1s);
    EXPECT_EQ(log, "open a@6 mark@7 bad@ a@8 end");
}

// The first state as one list, decoded while it comes.
TEST_F(WatchTest, TakesItsInitialEventsFromAList) {
    const std::string list = "GET /apis/coordination.k8s.io/v1/namespaces/x/leases";
    const std::string items =
        R"("items":[{"metadata":{"name":"a","resourceVersion":"6"}}, {"metadata":{}},)"
        R"({"metadata":{"name":"b","resourceVersion":"3"},"spec":{"t":"]}"}}])";
    const std::string end = R"("metadata":{"resourceVersion":"9"})";
    const struct {
        const char* version;
        std::string answer;
        std::string expected;
    } rows[] = {
        {"", "{" + items + "," + end + "}", "open a@6 bad@ b@3 mark@9 end"},
        {"5",
         "{" + end + ",\"kind\":\"LeaseList\"," + items + "}\n",
         "open a@6 bad@ b@3 mark@9 end"},
        {"", R"({"items":null,"metadata":{"resourceVersion":"9"}})", "open mark@9 end"},
        {"",
         R"({"items":[],"metadata":{"resourceVersion":"9","continue":"x"}})",
         "open invalid|list"},
        {"",
         R"({"items":[{"metadata":{"name":"a","resourceVersion":"6"}},)",
         "open a@6 unavailable|"},
        {"", R"({"items":[1]})", "open invalid|"},
    };
    for (const auto& row : rows) {
        SCOPED_TRACE(row.answer);
        log.clear();
        const std::string query =
            *row.version == '\0' ? "" : "?resourceVersion=5&resourceVersionMatch=NotOlderThan";
        script.answers[list + query] = {{200, row.answer, {}}};
        http.set_faults([](const net::HttpRequest&) { return test::Fault{.chunk_bytes = 1}; });
        call = client.watch(kLease,
                            {.ns = "x",
                             .resource_version = row.version,
                             .send_initial_events = true,
                             .by_list = true},
                            handler());
        loop.run_for(1s);
        EXPECT_EQ(log.substr(0, row.expected.size()), row.expected) << log;
    }
}

// Who keeps metadata only asks for no more, and gets objects of the kind all the same.
TEST_F(WatchTest, AsksForMetadataOnly) {
    const Projection only_metadata{true, true, {"/metadata"}};
    const std::string item =
        R"({"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","resourceVersion":"6"}})";
    script.answers[target] = {{200, "hold", {}}};
    call = client.watch(
        kLease, {.ns = "x", .resource_version = "5", .projection = only_metadata}, handler());
    loop.run_for(1s);
    send(R"({"type":"ADDED","object":)" + item + "}\n");
    EXPECT_EQ(log, "open a@6 ");
    EXPECT_EQ(script.accepts.back(),
              "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
    call.reset();
    const std::string list =
        "GET /apis/coordination.k8s.io/v1/namespaces/x/leases?resourceVersion=0";
    script.answers[list] = {
        {200,
         R"({"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"9"},"items":[)" +
             item + "]}",
         {}}};
    std::string kinds;
    call =
        client.list(kLease,
                    {.ns = "x", .match = ListMatch::any, .limit = 0, .projection = only_metadata},
                    [&](Result<ListPage> page) {
                        for (const ObjectPtr& object : page.value().items) {
                            kinds += object->kind();
                        }
                    });
    loop.run_for(1s);
    EXPECT_EQ(kinds, "Lease");
    EXPECT_EQ(script.accepts.back(),
              "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json");
}

TEST_F(WatchTest, TakesATenMebibyteEvent) {
    open();
    send(R"({"type":"ADDED","object":{"metadata":{"name":"big","resourceVersion":"6"},"data":")" +
         std::string(10u << 20, 'x') + "\"}}\n");
    EXPECT_EQ(log, "open big@6 ");
}

TEST_F(WatchTest, TellsACutInTheMiddleOfAnEventFromACleanEnd) {
    open();
    send(event("ADDED", "a", 6) + event("ADDED", "b", 7).substr(0, 30));
    script.stream->end();
    loop.run_for(1s);
    EXPECT_EQ(log,
              "open a@6 unavailable|watch leases.coordination.k8s.io in x: stream cut in the "
              "middle of an event");
}

TEST_F(WatchTest, TakesALastEventWithoutLineEnd) {
    open();
    std::string last = event("ADDED", "a", 6);
    last.pop_back();
    send(last);
    script.stream->end();
    loop.run_for(1s);
    EXPECT_EQ(log, "open a@6 end");
}

TEST_F(WatchTest, EndsWithTheErrorOfHeadOrStream) {
    open();
    send(
        event("ADDED", "a", 6) +
        R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}})" +
        "\n" + event("ADDED", "b", 7));
    EXPECT_EQ(log, "open a@6 expired|watch leases.coordination.k8s.io in x: 410 Expired: \"old\"");
    log.clear();
    script.answers[target] = {{410, R"({"kind":"Status","code":410,"reason":"Gone"})", {}}};
    call = client.watch(kLease, {.ns = "x", .resource_version = "5"}, handler());
    loop.run_for(1s);
    EXPECT_EQ(log, "expired|watch leases.coordination.k8s.io in x: 410 Gone");
}

TEST_F(WatchTest, MayBeDroppedInsideItsOwnCallback) {
    script.answers[target] = {{200, "hold", {}}};
    WatchHandler dropping = handler();
    dropping.on_event = [this](WatchEvent event) {
        log += std::string(event.object->name());
        call.reset();
    };
    call = client.watch(kLease, {.ns = "x", .resource_version = "5"}, std::move(dropping));
    loop.run_for(1s);
    send(event("ADDED", "a", 6) + event("ADDED", "b", 7));
    EXPECT_EQ(log, "open a");
    EXPECT_EQ(http.open_streams(), 0u);
}

TEST_F(WatchTest, OpensAgainWithARenewedToken) {
    script.answers[target] = {{401, "no", {}}, {200, "hold", {}}};
    tokens.next = "two";
    call = client.watch(kLease, {.ns = "x", .resource_version = "5"}, handler());
    loop.run_for(1s);
    EXPECT_EQ(log, "open ");
}

}  // namespace
}  // namespace capstan::kube
