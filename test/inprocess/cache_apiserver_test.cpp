// Client and cache against the embedded API server's core, in virtual time, with faults on the
// wire.
#include "runtime/cache/cache.hpp"
#include "runtime/local/apiserver/api_server.hpp"
#include "runtime/local/apiserver/authenticator.hpp"
#include "runtime/local/apiserver/http_binding.hpp"
#include "test/fakes/local_transport.hpp"
#include "test/fakes/virtual_loop.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

const GroupVersionKind kConfigMap{"", "v1", "ConfigMap"};

struct World : testing::Test {
    VirtualLoop loop;
    std::unique_ptr<local::ApiServer> server{local::ApiServer::create(loop, {}).value()};
    local::Authenticator authenticator;
    local::HttpBinding api{loop, *server, authenticator};
    LocalTransportOptions as_admin{.latency = 1ms,
                                   .certificate_common_name = "admin",
                                   .certificate_organizations = {"system:masters"}};
    LocalTransport http{loop, api.handler(), as_admin};
    LocalTransport side{loop, api.handler(), as_admin};  // another client, without faults
    kube::Client client{loop, http, {.host = "local"}};
    kube::Client other{loop, side, {.host = "local"}};
    std::mt19937_64 random{7};
    cache::Cache cache{
        loop, client, {.random = [this] { return static_cast<double>(random() % 1000) / 1000; }}};

    static std::string body(const std::string& name, const std::string& value) {
        return json::dump(
            {{"apiVersion", "v1"},
             {"kind", "ConfigMap"},
             {"metadata", {{"name", name}, {"namespace", "default"}, {"labels", {{"v", value}}}}},
             {"data", {{"v", value}}}});
    }
    // Runs a call to its end.
    Result<cache::ObjectPtr> wait(
        const std::function<kube::CallHandle(kube::Client::ObjectDone)>& start) {
        std::optional<Result<cache::ObjectPtr>> outcome;
        const auto call = start([&](Result<cache::ObjectPtr> r) { outcome.emplace(std::move(r)); });
        loop.run_until([&] { return outcome.has_value(); }, loop.now() + 1min);
        return outcome ? std::move(*outcome)
                       : Result<cache::ObjectPtr>(fail(Code::timeout, "no answer"));
    }
    Result<cache::ObjectPtr> create(const std::string& name, const std::string& value = "1") {
        return wait([&](auto done) {
            return other.create(kConfigMap, "default", body(name, value), {}, std::move(done));
        });
    }
    Result<cache::ObjectPtr> apply(const std::string& name, const std::string& value) {
        return wait([&](auto done) {
            return other.patch(
                kConfigMap,
                {"default", name},
                body(name, value),
                {.type = kube::PatchType::apply, .field_manager = "t", .force = true},
                std::move(done));
        });
    }
    Result<cache::ObjectPtr> remove(const std::string& name, kube::DeleteOptions options = {}) {
        return wait([&](auto done) {
            return other.remove(kConfigMap, {"default", name}, std::move(options), std::move(done));
        });
    }
    Result<cache::ObjectPtr> get(const std::string& name) {
        return wait([&](auto done) {
            return other.get(kConfigMap, {"default", name}, {}, std::move(done));
        });
    }
};

TEST_F(World, MapsTheAnswersOfEachVerb) {
    const auto made = create("a");
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(create("a").error().code, Code::exists);
    EXPECT_EQ(get("none").error().code, Code::not_found);
    const auto applied = apply("a", "2");
    ASSERT_TRUE(applied) << applied.error().message;
    EXPECT_EQ(applied.value()->string_field("/data/v"), "2");
    EXPECT_EQ(remove("a", {.uid = "another"}).error().code, Code::conflict);
    EXPECT_EQ(remove("a", {.resource_version = std::string(made.value()->resource_version())})
                  .error()
                  .code,
              Code::conflict);
    const auto removed = remove("a", {.uid = std::string(made.value()->uid())});
    ASSERT_TRUE(removed) << removed.error().message;
    EXPECT_EQ(removed.value(), nullptr);
    EXPECT_EQ(remove("a").error().code, Code::not_found);
    const auto stale = wait([&](auto done) {
        return other.patch(kConfigMap, {"default", "a"}, R"({"data":{}})", {}, std::move(done));
    });
    EXPECT_EQ(stale.error().code, Code::not_found);
    const auto unknown = wait([&](auto done) {
        return other.get({"", "v1", "Nope"}, {"default", "a"}, {}, std::move(done));
    });
    EXPECT_EQ(unknown.error().code, Code::not_found);
}

TEST_F(World, PagesAListAtOneVersion) {
    for (int i = 0; i < 7; ++i) {
        ASSERT_TRUE(create("c" + std::to_string(i)));
    }
    std::set<std::string> names;
    std::string token;
    std::string version;
    do {
        std::optional<Result<kube::ListPage>> page;
        const auto call = other.list(
            kConfigMap,
            {.ns = "default", .label_selector = "v=1", .limit = 3, .continue_token = token},
            [&](Result<kube::ListPage> r) { page.emplace(std::move(r)); });
        loop.run_for(1s);
        ASSERT_TRUE(page && *page) << (page ? page->error().message : "");
        for (const auto& object : page->value().items) {
            EXPECT_EQ(object->kind(), "ConfigMap");
            EXPECT_TRUE(names.insert(std::string(object->name())).second);
        }
        EXPECT_TRUE(version.empty() || version == page->value().resource_version);
        version = page->value().resource_version;
        token = page->value().continue_token;
    } while (!token.empty());
    EXPECT_EQ(names.size(), 7u);
}

TEST_F(World, SurvivesCompactionWithoutLosingADelete) {
    ASSERT_TRUE(create("keep"));
    ASSERT_TRUE(create("gone"));
    std::string log;
    auto handle = cache.watch({.spec = {.gvk = kConfigMap, .ns = "default", .label_selector = "v"},
                               .on_event = [&](const cache::Event& e) {
                                   const auto& any = e.new_object ? e.new_object : e.old_object;
                                   log += std::string(e.new_object ? "+" : "-") +
                                          std::string(any->name()) +
                                          (e.final_state_unknown ? "?" : "") + " ";
                               }});
    loop.run_for(1s);
    EXPECT_EQ(log, "+gone +keep ");
    http.set_partitioned(true);
    http.cut_all();
    ASSERT_TRUE(remove("gone"));
    ASSERT_TRUE(create("born"));
    server->compact_history();
    http.set_partitioned(false);
    loop.run_for(1min);
    EXPECT_EQ(log, "+gone +keep -gone? +born ");
}

TEST_F(World, StaysLiveThroughServerSideTimeoutsAndHealsWithAKind) {
    auto handle = cache.watch({.spec = {.gvk = kConfigMap, .ns = "default"}});
    auto missing = cache.watch({.spec = {.gvk = {"example.com", "v1", "Thing"}, .ns = "default"}});
    loop.run_for(1h);
    EXPECT_EQ(handle.value()->state().state, cache::SyncState::live)
        << handle.value()->state().reason;
    EXPECT_EQ(missing.value()->state().state, cache::SyncState::degraded);
    EXPECT_LT(http.requests(), 400u);
    ASSERT_TRUE(create("a"));
    loop.run_for(1s);
    EXPECT_TRUE(cache.get(kConfigMap, {"default", "a"}));
}

// The same set of objects on both sides after any mix of writes, cuts, refusals and compactions.
TEST_F(World, ConvergesUnderFaults) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        random.seed(seed);
        cache.prefer_whole_lists(seed % 2 == 0);
        http.set_faults([this](const net::HttpRequest&) {
            Fault fault;
            switch (random() % 9) {
                case 0: fault.refuse = true; break;
                case 1: fault.status = 429, fault.retry_after = 1s; break;
                case 2: fault.cut_after_bytes = random() % 3000; break;
                case 3: fault.chunk_bytes = 1 + random() % 7; break;
                case 4: fault.status = 410; break;
                case 5: fault.response_delay = 300ms; break;
                default: break;
            }
            return fault;
        });
        std::map<std::string, std::string> folded;
        auto handle = cache.watch(
            {.spec = {.gvk = kConfigMap, .ns = "default", .label_selector = "v"},
             .on_event = [&](const cache::Event& e) {
                 const auto& any = e.new_object ? e.new_object : e.old_object;
                 const std::string name(any->name());
                 if (e.new_object) {
                     EXPECT_EQ(folded.contains(name), e.type == cache::EventType::update);
                     folded[name] = e.new_object->resource_version();
                 } else {
                     // Or it was ours, and gone before the watch showed it.
                     EXPECT_TRUE(folded.erase(name) == 1 || e.final_state_unknown);
                 }
             }});
        std::map<std::string, std::string> truth;
        for (int i = 0; i < 150; ++i) {
            const std::string name = "n" + std::to_string(random() % 6);
            if (truth.contains(name) && random() % 3 == 0) {
                ASSERT_TRUE(remove(name));
                truth.erase(name);
            } else if (const auto written = apply(name, std::to_string(i))) {
                truth[name] = written.value()->resource_version();
                cache.note_write(kConfigMap, written.value());
                if (const auto read = cache.get(kConfigMap, {"default", name})) {
                    EXPECT_GE(std::stoull(std::string(read.value()->resource_version())),
                              std::stoull(truth[name]));
                }
            } else {
                FAIL() << written.error().message;
            }
            if (random() % 30 == 0) {
                server->compact_history();
            }
            if (random() % 20 == 0) {
                http.cut_all();
            }
            loop.run_for(std::chrono::milliseconds(random() % 500));
        }
        http.set_faults({});
        http.cut_all();
        loop.run_for(3min);
        EXPECT_EQ(folded, truth);
        EXPECT_EQ(handle.value()->store()->size(), truth.size());
        handle.value().reset();
        for (const auto& [name, version] : truth) {
            ASSERT_TRUE(remove(name));
        }
    }
}

}  // namespace
}  // namespace capstan::test
