// Verbs beyond the common ones, their limits, and discovery of the aggregated kind.
#include "runtime/kube/client_fixture.hpp"

#include "runtime/kube/discovery.hpp"

#include <gtest/gtest.h>

#include <string>

namespace capstan::kube {
namespace {

using VerbsTest = ClientTest;

TEST_F(VerbsTest, UpdateIsACompareAndSwap) {
    script.answers[std::string("PUT ") + kItem + "?fieldManager=m&fieldValidation=Strict"] = {
        {200, kObject, {}}};
    WriteOptions options;
    options.field_manager = "m";
    options.field_validation = FieldValidation::strict;
    call = client.update(kLease, {"x", "a"}, kObject, options, note());
    loop.run_for(1s);
    EXPECT_EQ(outcome, "7");
    EXPECT_EQ(last(),
              std::string("PUT ") + kItem + "?fieldManager=m&fieldValidation=Strict " +
                  "[application/json] " + kObject);
    outcome.clear();
    call = client.update(kLease, {"x", "a"}, R"({"metadata":{"name":"a"}})", options, note());
    loop.run_for(1s);
    EXPECT_EQ(outcome,
              "invalid|update leases.coordination.k8s.io x/a: an update needs "
              "metadata.resourceVersion");
}

TEST_F(VerbsTest, SubresourcesAreReadAndReplaced) {
    script.answers[std::string("GET ") + kItem + "/scale"] = {
        {200,
         R"({"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"a","namespace":"x","resourceVersion":"3"},"spec":{"replicas":2}})",
         {}}};
    GetOptions get;
    get.subresource = "scale";
    call = client.get(kLease, {"x", "a"}, get, note());
    loop.run_for(1s);
    script.answers[std::string("PUT ") + kItem + "/scale"] = {{200, kObject, {}}};
    WriteOptions put;
    put.subresource = "scale";
    call = client.update(kLease, {"x", "a"}, kObject, put, note());
    loop.run_for(1s);
    EXPECT_EQ(outcome, "37");
}

TEST_F(VerbsTest, StrategicPatchesSayWhatTheyAre) {
    script.answers[std::string("PATCH ") + kItem] = {{200, kObject, {}}};
    PatchOptions options;
    options.type = PatchType::strategic;
    call = client.patch(kLease, {"x", "a"}, "{}", options, note());
    loop.run_for(1s);
    EXPECT_EQ(last(),
              std::string("PATCH ") + kItem + " [application/strategic-merge-patch+json] {}");
}

TEST_F(VerbsTest, FieldManagersHaveALimit) {
    for (const std::string& manager : {std::string(129, 'm'), std::string("a\nb")}) {
        PatchOptions options;
        options.field_manager = manager;
        outcome.clear();
        call = client.patch(kLease, {"x", "a"}, "{}", options, note());
        loop.run_for(1s);
        EXPECT_EQ(outcome,
                  "invalid|patch leases.coordination.k8s.io x/a: a field manager has at most 128 "
                  "printable characters");
    }
}

TEST(ClientHeaders, PathAndHeadersOfTheConnectionAreOnEveryRequest) {
    test::VirtualLoop loop;
    Script script;
    std::vector<std::string> as;
    const auto answer = script.handler();
    test::LocalTransport http{
        loop, [&](const std::shared_ptr<net::ServerExchange>& exchange) {
            as.emplace_back(net::find_header(exchange->headers(), "impersonate-user"));
            answer(exchange);
        }};
    ClientOptions options;
    options.base_path = "/k8s/c-1";
    options.headers = {{"Impersonate-User", "boss"}};
    Client client(loop, http, options);
    const auto call =
        client.raw("GET", "/version", "", kNever, [](const Result<net::HttpResponse>&) {});
    WatchHandler handler;
    handler.on_end = [](const Result<void>&) {};
    const auto watch = client.watch(kLease, {}, std::move(handler));
    loop.run_for(1s);
    ASSERT_EQ(script.seen.size(), 3u);
    for (const std::string& line : script.seen) {
        EXPECT_TRUE(line.starts_with("GET /k8s/c-1/")) << line;
    }
    EXPECT_EQ(as, std::vector<std::string>(3, "boss"));
}

TEST(ClientHeaders, OnlyWhatIsReadAtOnceMayBePacked) {
    test::VirtualLoop loop;
    Script script;
    std::map<std::string, std::string> codings;  // by method and path; of a watch with "?"
    const auto answer = script.handler();
    test::LocalTransport http{loop, [&](const std::shared_ptr<net::ServerExchange>& exchange) {
                                  const std::string target = exchange->target();
                                  const bool watch = target.find("watch=") != target.npos;
                                  codings[exchange->method() + " " +
                                          target.substr(0, target.find('?')) + (watch ? "?" : "")] =
                                      net::find_header(exchange->headers(), "accept-encoding");
                                  answer(exchange);
                              }};
    ClientOptions options;
    options.headers = {{"Accept-Encoding", "gzip"}};
    Client client(loop, http, options);
    const auto quiet = [](const auto&) {};
    WatchOptions by_list;
    by_list.ns = "b";
    by_list.by_list = true;
    WatchHandler handler;
    handler.on_end = quiet;
    std::vector<CallHandle> calls;
    calls.push_back(client.get(kLease, {"x", "a"}, {}, quiet));
    calls.push_back(client.list(kLease, {}, quiet));
    calls.push_back(client.patch(kLease, {"x", "a"}, "{}", {}, quiet));
    calls.push_back(client.watch(kLease, {}, handler));
    calls.push_back(client.watch(kLease, by_list, handler));
    loop.run_for(1s);
    const std::string leases = "/apis/coordination.k8s.io/v1/leases";
    const std::string below = "/apis/coordination.k8s.io/v1/namespaces/";
    const std::map<std::string, std::string> expected = {{"GET " + below + "x/leases/a", "gzip"},
                                                         {"GET " + leases, "gzip"},
                                                         {"GET " + below + "b/leases", "gzip"},
                                                         {"GET " + leases + "?", ""},
                                                         {"PATCH " + below + "x/leases/a", ""}};
    std::erase_if(codings, [&](const auto& seen) { return !expected.contains(seen.first); });
    EXPECT_EQ(codings, expected);
}

constexpr const char* kAggregated =
    R"({"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[
    {"metadata":{"name":"coordination.k8s.io"},"versions":[
      {"version":"v1","freshness":"Current","resources":[
        {"resource":"leases","responseKind":{"group":"","version":"","kind":"Lease"},"scope":"Namespaced",
         "verbs":["get","watch"],"subresources":[{"subresource":"status"}]},
        {"resource":"../bad","responseKind":{"kind":"Bad"},"scope":"Cluster"}]}]},
    {"metadata":{"name":"x.dev"},"versions":[
      {"version":"v1","freshness":"Stale"},
      {"version":"v2","resources":[{"resource":"things","responseKind":{"kind":"Thing"},"scope":"Cluster"}]}]}]})";

struct DiscoveryTest : ClientTest {
    void SetUp() override {
        script.answers["GET /apis"] = {
            {200,
             kAggregated,
             {{"Content-Type",
               "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}}}};
    }
    std::string resolve(const GroupVersionKind& gvk) {
        std::string text;
        client.resources().resolve(gvk, [&](const Result<Resource>& found) {
            text = found ? found.value().plural + (found.value().namespaced ? "" : " cluster") +
                               (found.value().subresources.empty()
                                    ? ""
                                    : "/" + found.value().subresources[0])
                         : found.error().message;
        });
        loop.run_for(100ms);
        return text;
    }
    std::size_t asked() const { return script.seen.size(); }
};

TEST_F(DiscoveryTest, OneDocumentServesAllWhoWaitForIt) {
    std::vector<std::string> found;
    for (const GroupVersionKind& gvk : {kLease,
                                        GroupVersionKind{"x.dev", "v2", "Thing"},
                                        GroupVersionKind{"y.dev", "v1", "No"}}) {
        client.resources().resolve(gvk, [&](const Result<Resource>& result) {
            found.push_back(result ? result.value().group_resource() : result.error().message);
        });
    }
    loop.run_for(1s);
    EXPECT_EQ(
        found,
        (std::vector<std::string>{
            "leases.coordination.k8s.io", "things.x.dev", "kind No is not served in y.dev/v1"}));
    EXPECT_EQ(asked(), 1u);
    EXPECT_EQ(resolve(kLease), "leases/status");
    EXPECT_EQ(asked(), 1u);
}

TEST_F(DiscoveryTest, WhatIsStaleOrComesLaterIsAskedForAlone) {
    script.answers["GET /apis/x.dev/v1"] = {{503, "", {}}};
    EXPECT_EQ(resolve({"x.dev", "v1", "Thing"}), "discovery of x.dev/v1: 503");
    script.answers["GET /apis/x.dev/v2"] = {
        {200, R"({"resources":[{"name":"things","kind":"Thing","namespaced":false}]})", {}}};
    EXPECT_EQ(resolve({"x.dev", "v2", "Thing"}), "things cluster");
    EXPECT_EQ(asked(), 3u);
}

TEST_F(DiscoveryTest, AServerThatIsAwayIsAskedForTheDocumentAgain) {
    script.answers["GET /apis"].push_front({503, "", {}});
    EXPECT_EQ(resolve(kLease), "discovery of coordination.k8s.io/v1: 503");
    EXPECT_EQ(resolve(kLease), "leases/status");
    EXPECT_EQ(asked(), 2u);
}

TEST_F(DiscoveryTest, AKindThatStaysAwayIsAskedForLessOften) {
    const GroupVersionKind none{"y.dev", "v1", "No"};
    for (int second = 0; second < 120; ++second) {
        EXPECT_EQ(resolve(none), "kind No is not served in y.dev/v1");
        loop.run_for(900ms);
    }
    EXPECT_LE(asked(), 7u) << "5, 10, 20 and then 30 s";
    client.resources().forget(none);
    const std::size_t before = asked();
    resolve(none);
    EXPECT_EQ(asked(), before + 1);
}

TEST_F(DiscoveryTest, AnswersOfOtherKindsAreNotTaken) {
    script.answers["GET /apis"] = {
        {200, R"({"kind":"APIGroupList","groups":[]})", {{"Content-Type", "application/json"}}}};
    EXPECT_EQ(resolve(kLease), "leases/status");
    EXPECT_EQ(asked(), 2u);
}

}  // namespace
}  // namespace capstan::kube
