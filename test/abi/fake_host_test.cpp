// What the fake host promises to the tests of plugins.
#include "capstan/testing/fake_host.hpp"
#include "capstan/plugin.hpp"

#include <gtest/gtest.h>

namespace capstan::testing {
namespace {

std::string hex(std::string_view bytes) {
    std::string text;
    for (const char c : bytes) {
        constexpr char kDigits[] = "0123456789abcdef";
        text += kDigits[static_cast<unsigned char>(c) >> 4U];
        text += kDigits[static_cast<unsigned char>(c) & 15U];
    }
    return text;
}

TEST(FakeHost, DigestsAreThePublishedOnes) {
    FakeHost fake;
    const HostTables host(fake.host());
    EXPECT_EQ(hex(host.digest(CAPSTAN_DIGEST_SHA256, "abc").value()),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(hex(host.digest(CAPSTAN_DIGEST_MD5, "message digest").value()),
              "f96b697d7cb7938d525a2f31aaf161d0");
    EXPECT_EQ(hex(host.digest(CAPSTAN_DIGEST_HMAC_SHA256, "what do ya want for nothing?", "Jefe")
                      .value()),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    EXPECT_EQ(hex(host.digest(CAPSTAN_DIGEST_CRC32C, "123456789").value()), "e3069283");
    EXPECT_EQ(hex(host.digest(CAPSTAN_DIGEST_SHA256, std::string(119, 'a')).value()),
              "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb");
}

json::Value config_map(std::string_view text) {
    return {{"apiVersion", "v1"},
            {"kind", "ConfigMap"},
            {"metadata", {{"namespace", "n"}, {"name", "a"}}},
            {"data", {{"text", text}}}};
}

// Runs one function as a reconcile.
std::function<Outcome(Call&)> g_body;
class BodyController final : public Controller {
    Outcome reconcile(Call& call, const Request&) override { return g_body(call); }
};
Result<void> make_body(Setup& setup) {
    setup.controller("body", std::make_unique<BodyController>());
    return ok();
}
const capstan_plugin* body_entry(const capstan_host* host) noexcept {
    return detail::plugin_entry(host, &make_body, "body.capstan.dev", "0.1.0");
}
Reconciled run(FakeHost& host, std::function<Outcome(Call&)> body) {
    g_body = std::move(body);
    PluginUnderTest plugin(host, &body_entry);
    return plugin.reconcile("body", "v1/ConfigMap", {"n", "a"});
}

TEST(FakeHost, KeepsVersionsGenerationsAndPreconditions) {
    FakeHost host;
    const json::Value first = host.put(config_map("one"));
    EXPECT_EQ(json::View(first)["metadata"]["uid"].string_or(""), "uid-1");
    run(host, [](Call& call) {
        json::Value stale = config_map("two");
        stale["metadata"].set("resourceVersion", "999");
        const auto refused = call.client().apply("v1/ConfigMap", stale);
        EXPECT_EQ(refused.error().code, Code::conflict);
        EXPECT_TRUE(call.client().apply("v1/ConfigMap", config_map("two")));
        EXPECT_EQ(call.client().create("v1/ConfigMap", config_map("x")).error().code, Code::exists);
        return Outcome::done();
    });
    const json::Value second = *host.find("v1/ConfigMap", {"n", "a"});
    EXPECT_EQ(json::View(second)["data"]["text"].string_or(""), "two");
    EXPECT_NE(json::View(second)["metadata"]["resourceVersion"].string_or(""),
              json::View(first)["metadata"]["resourceVersion"].string_or(""));
}

TEST(FakeHost, AppliedFieldsThatAreDroppedGoAway) {
    FakeHost host;
    run(host, [](Call& call) {
        json::Value wide = config_map("x");
        wide["data"].set("more", "y");
        EXPECT_TRUE(call.client().apply("v1/ConfigMap", wide));
        EXPECT_TRUE(call.client().apply("v1/ConfigMap", config_map("x")));
        return Outcome::done();
    });
    EXPECT_EQ(host.find("v1/ConfigMap", {"n", "a"})->pointer("/data/more"), nullptr);
}

TEST(FakeHost, RemovesOnlyWhatWasReadLiveAndWaitsForFinalizers) {
    FakeHost host;
    json::Value kept = config_map("x");
    kept["metadata"].set("finalizers", json::list({"a.dev/f"}));
    host.put(std::move(kept));
    run(host, [](Call& call) {
        const Object cached = call.cache().get("ConfigMap", {"n", "a"}).value();
        EXPECT_EQ(call.client().remove(cached).error().code, Code::invalid);
        const Object live = call.client().get("v1/ConfigMap", {"n", "a"}).value();
        EXPECT_TRUE(call.client().remove(live));
        const json::Value now = call.cache().get_value("ConfigMap", {"n", "a"}).value();
        EXPECT_TRUE(json::View(now)["metadata"]["deletionTimestamp"].present());
        const json::Value drop = json::list({{{"op", "remove"}, {"path", "/metadata/finalizers"}}});
        EXPECT_TRUE(call.client().patch_json("v1/ConfigMap", {"n", "a"}, drop));
        return Outcome::done();
    });
    EXPECT_FALSE(host.find("v1/ConfigMap", {"n", "a"}));
}

TEST(FakeHost, TimeMovesOnlyByWaiting) {
    FakeHost host;
    const Reconciled done = run(host, [&host](Call& call) {
        Token token(call.host());
        host.at(call.now() + std::chrono::seconds(3), [&token] { token.notify(); });
        EXPECT_TRUE(call.wait(token, call.now() + std::chrono::seconds(10)));
        EXPECT_EQ(call.wait(token, call.now() + std::chrono::seconds(2)).error().code,
                  Code::timeout);
        return Outcome::after(std::chrono::seconds(7));
    });
    EXPECT_EQ(host.now(), std::chrono::seconds(1'000'005));
    EXPECT_EQ(done.retry, CAPSTAN_RETRY_AFTER);
    EXPECT_EQ(done.after, std::chrono::seconds(7));
}

TEST(FakeHost, ServesHttpGatesQueueAndEvents) {
    FakeHost host;
    host.set_gate("New", true);
    host.on_http([](const json::Value& request, std::string_view body) {
        HttpReply reply;
        reply.status = json::View(request)["method"].string_or("") == "POST" ? 201 : 404;
        reply.body = "got " + std::string(body);
        return reply;
    });
    run(host, [](Call& call) {
        EXPECT_TRUE(call.enabled("New"));
        HttpRequest request;
        request.method = "POST";
        request.url = "http://127.0.0.1:1/x";
        request.body = "hello";
        const HttpResponse response = call.http().send(request).value();
        EXPECT_EQ(response.status, 201);
        EXPECT_EQ(response.body, "got hello");
        EXPECT_TRUE(call.enqueue("body", {"n", "b"}, std::chrono::seconds(4)));
        call.event({"", "v1", "ConfigMap"}, {"n", "a"}, "", "Normal", "Greeted", "said hello");
        return Outcome::done();
    });
    ASSERT_EQ(host.woken().size(), 1U);
    EXPECT_EQ(host.woken().front().key.name, "b");
    ASSERT_EQ(host.events().size(), 1U);
    EXPECT_EQ(host.events().front().reason, "Greeted");
}

TEST(FakeHost, FaultsHitTheCallAskedFor) {
    FakeHost host;
    host.put(config_map("x"));
    host.fail_call(2, CAPSTAN_E_UNAVAIL);
    run(host, [](Call& call) {
        EXPECT_TRUE(call.cache().get_value("ConfigMap", {"n", "a"}));
        EXPECT_EQ(call.cache().get_value("ConfigMap", {"n", "a"}).error().code, Code::unavailable);
        EXPECT_TRUE(call.cache().get_value("ConfigMap", {"n", "a"}));
        return Outcome::done();
    });
    EXPECT_EQ(host.calls().size(), 3U);
}

}  // namespace
}  // namespace capstan::testing
