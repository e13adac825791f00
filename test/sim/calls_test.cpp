// What a plugin may do with a call beyond returning from it: answer later, list the live world,
// and have more keys than the queue has room.
#include "test/sim/demo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

// A plugin of raw tables whose reconcile answers CAPSTAN_PENDING; what follows is done by a
// service, that is by another thread. One at a time.
class Async : public ::testing::Test {
protected:
    struct Answer {
        std::chrono::nanoseconds after{0};  // since the reconcile returned
        capstan_rc rc{CAPSTAN_OK};
        std::int32_t retry{CAPSTAN_RETRY_NONE};
        std::chrono::nanoseconds delay{0};
    };

    Async() {
        self = this;
        plugin.id = "async.example.io";
        const json::Value watch = {{"gvk", "v1/ConfigMap"}, {"role", "for"}, {"predicate", true}};
        const json::Value controller = {{"name", "main"},
                                        {"async", true},
                                        {"deadline", "5s"},
                                        {"watches", json::list({watch})}};
        const json::Value extra = {{"controllers", json::list({controller})},
                                   {"services", json::list({{{"name", "answers"}}})}};
        plugin.manifest_json = manifest_json(plugin.id, extra);
        plugin.controllers["main"] = [](Call&, const Request&) { return Outcome::done(); };
        plugin.services["answers"] = [this](Call& call) { return answer(call); };
        // The C++ face for all but reconcile.
        plugin.wrap = [](capstan_plugin table) {
            table.reconcile = &Async::reconcile;
            return table;
        };
        world.add(plugin);
        world.boot();
    }
    ~Async() override {
        if (world.runtime != nullptr) {
            world.shut_down();
        }
    }
    static capstan_rc reconcile(capstan_ctl*,
                                capstan_call* call,
                                const capstan_request* request) noexcept {
        self->starts.push_back(self->world.loop.now());
        EXPECT_EQ(view_of(request->name), "key");
        if (self->answers.empty()) {
            return CAPSTAN_OK;
        }
        for (const Answer& answer : std::exchange(self->answers, {})) {
            self->due.emplace_back(call, self->world.loop.now() + answer.after, answer);
        }
        self->work->notify();  // the service runs, see run()
        return CAPSTAN_PENDING;
    }
    Result<void> answer(Call& call) {
        Token token(call.host());
        work = &token;
        while (!call.cancelled()) {
            if (due.empty()) {
                static_cast<void>(call.wait(token, kNever));
                continue;
            }
            const auto [handle, when, answer] = due.front();
            due.erase(due.begin());
            static_cast<void>(call.sleep_until(when));
            const capstan_result result{{sizeof(capstan_result), CAPSTAN_ABI},
                                        answer.rc,
                                        answer.retry,
                                        static_cast<std::uint64_t>(answer.delay.count()),
                                        to_str("said later")};
            call.host().call->reconcile_done(handle, &result);
            cancelled_then.push_back(call.host().call->cancelled(handle));
        }
        work = nullptr;
        return ok();
    }
    void run(std::vector<Answer> wanted, std::chrono::nanoseconds time) {
        world.run_until(
            [&] { return world.runtime->phase(plugin.id) == control::PluginPhase::running; });
        ASSERT_TRUE(world.run_until([&] { return work != nullptr; }));
        answers = std::move(wanted);
        world.put_config_map("key", "1");
        world.run_for(time);
    }
    std::string metric(const std::string& name) {
        return world.metric(name + "{controller=\"async/main\"}");
    }

    static inline Async* self = nullptr;
    World world;
    TestPlugin plugin;
    Token* work{nullptr};         // wakes the service
    std::vector<Answer> answers;  // of the next run
    std::vector<std::tuple<capstan_call*, MonotonicTime, Answer>> due;
    std::vector<MonotonicTime> starts;
    std::vector<std::int32_t> cancelled_then;  // after each answer
};

TEST_F(Async, ResultComesLaterAndIsObeyed) {
    run({{.after = 2s, .retry = CAPSTAN_RETRY_AFTER, .delay = 10s}}, 8s);
    ASSERT_EQ(starts.size(), 1u) << "in flight for 2 s, then waiting for 10 s";
    EXPECT_EQ(world.runtime->look(plugin.id, "main", {"ns", "key"}).state, "delayed");
    world.run_for(30s);
    ASSERT_EQ(starts.size(), 2u);
    EXPECT_GE(starts[1] - starts[0], 12s);
    EXPECT_LT(starts[1] - starts[0], 13s);
    EXPECT_EQ(cancelled_then, (std::vector<std::int32_t>{0}));
}

TEST_F(Async, OfTwoResultsTheFirstHolds) {
    run({{.rc = CAPSTAN_E_INVALID, .retry = CAPSTAN_RETRY_PARKED}, {.rc = CAPSTAN_OK}}, 10s);
    EXPECT_EQ(starts.size(), 1u);
    EXPECT_EQ(world.runtime->look(plugin.id, "main", {"ns", "key"}).state, "parked");
    EXPECT_EQ(cancelled_then.size(), 2u);
}

TEST_F(Async, ResultBetweenDeadlineAndFenceCounts) {
    run({{.after = 7s}}, 60s);
    EXPECT_EQ(starts.size(), 1u) << "late, but not given up: no second run";
    EXPECT_EQ(cancelled_then, (std::vector<std::int32_t>{1}));
    EXPECT_TRUE(world.log.contains({"passed its deadline", "key"}));
    EXPECT_EQ(metric("capstan_stuck_workers_total"), "0");
}

TEST_F(Async, FailureAtTheDeadlineIsATimeout) {
    run({{.after = 6s, .rc = CAPSTAN_E_UNAVAIL, .retry = CAPSTAN_RETRY_BACKOFF}}, 60s);
    EXPECT_EQ(starts.size(), 2u);
    EXPECT_EQ(metric("controller_runtime_reconcile_timeouts_total"), "1");
}

// The worker does not wait beyond the fence: its key runs again, the old result is nobody's.
TEST_F(Async, ResultAfterTheFenceIsNotUsed) {
    run({{.after = 16s, .rc = CAPSTAN_E_INVALID, .retry = CAPSTAN_RETRY_PARKED}}, 60s);
    EXPECT_TRUE(world.log.contains({"its result is not used", "key"}));
    ASSERT_EQ(starts.size(), 2u);
    EXPECT_GE(starts[1] - starts[0], 15s);
    EXPECT_LT(starts[1] - starts[0], 16s);
    EXPECT_EQ(world.runtime->look(plugin.id, "main", {"ns", "key"}).state, "") << "it was done";
    EXPECT_EQ(cancelled_then, (std::vector<std::int32_t>{1}));
}

TEST_F(Async, ResultThatNeverComesEndsAtTheFence) {
    run({{.after = 24h}}, 60s);
    EXPECT_EQ(starts.size(), 2u);
    EXPECT_TRUE(world.shut_down()) << "nothing waits for it";
}

// ---- the queue

struct OverflowRow {
    const char* name;
    std::size_t room;
    int keys;
    int workers;
};
class Overflow : public ::testing::TestWithParam<OverflowRow> {};

TEST_P(Overflow, LosesNoKey) {
    const OverflowRow& row = GetParam();
    WorldOptions options;
    options.queue_keys_max = row.room;
    World world(options);
    std::map<std::string, int> runs;
    TestPlugin plugin;
    const json::Value watch = {{"gvk", "v1/ConfigMap"}, {"role", "for"}, {"predicate", true}};
    const json::Value controller = {
        {"name", "main"}, {"maxConcurrent", row.workers}, {"watches", json::list({watch})}};
    plugin.manifest_json = manifest_json(plugin.id, {{"controllers", json::list({controller})}});
    plugin.controllers["main"] = [&](Call& call, const Request& request) {
        ++runs[request.key.name];
        static_cast<void>(call.sleep_until(call.now() + 100ms));
        return Outcome::done();
    };
    const ShutDownFirst end(world);
    const auto name = [](int i) { return "key-" + std::to_string(100 + i); };
    world.add(plugin);
    for (int i = 0; i < row.keys; ++i) {
        world.put_config_map(name(i), "1");
    }
    world.boot();
    ASSERT_TRUE(world.settle(5s));
    EXPECT_EQ(runs.size(), static_cast<std::size_t>(row.keys)) << testing::PrintToString(runs);
    EXPECT_TRUE(world.log.contains({"queue is full"}));
    // The same while it runs: every key changes at once, in the other direction.
    runs.clear();
    for (int i = row.keys; i-- > 0;) {
        world.put_config_map(name(i), "2");
    }
    ASSERT_TRUE(world.settle(5s));
    EXPECT_EQ(runs.size(), static_cast<std::size_t>(row.keys)) << testing::PrintToString(runs);
    // A key that found no room and has left the cache meanwhile.
    runs.clear();
    for (int i = row.keys; i-- > 0;) {
        ASSERT_EQ(world.remove("/api/v1/namespaces/ns/configmaps/" + name(i)), 200);
    }
    ASSERT_TRUE(world.settle(5s));
    EXPECT_EQ(runs.size(), static_cast<std::size_t>(row.keys)) << testing::PrintToString(runs);
    // It comes to rest: nothing goes round for ever.
    runs.clear();
    world.run_for(10min);
    EXPECT_TRUE(runs.empty()) << testing::PrintToString(runs);
}

INSTANTIATE_TEST_SUITE_P(Rows,
                         Overflow,
                         ::testing::Values(OverflowRow{"a_few_too_many", 8, 11, 4},
                                           OverflowRow{"many_times_the_room", 8, 50, 2},
                                           OverflowRow{"one_place", 1, 10, 1}),
                         [](const auto& row_info) { return row_info.param.name; });

// ---- capstan.client/1 list

struct Listed {
    capstan_rc rc{CAPSTAN_E_INTERNAL};
    std::vector<std::string> names;
    std::string error;
};

// A world with many Secrets and a plugin that does not watch them; all tests of LiveList use one.
struct ListWorld {
    static constexpr int kSecrets = 1203;  // two full pages and some

    ListWorld() {
        const json::Value watch = {{"gvk", "v1/ConfigMap"}, {"role", "for"}, {"predicate", true}};
        const json::Value controller = {{"name", "main"}, {"watches", json::list({watch})}};
        plugin.manifest_json =
            manifest_json(plugin.id, {{"controllers", json::list({controller})}});
        plugin.controllers["main"] = [this](Call& call, const Request&) {
            if (job) {
                job(call);
            }
            return Outcome::done();
        };
        world.faults = [this](const net::HttpRequest& request) {
            const bool page = request.target.find("/secrets?") != std::string::npos;
            return page && ++pages == fault_at ? fault : Fault{};
        };
        world.add(plugin);
        world.boot();
        for (int i = 0; i < kSecrets; ++i) {
            const json::Value metadata = {{"name", "s-" + std::to_string(10'000 + i)},
                                          {"labels", {{"odd", i % 2 == 0 ? "no" : "yes"}}}};
            const json::Value secret = {
                {"apiVersion", "v1"}, {"kind", "Secret"}, {"metadata", metadata}};
            const auto made =
                world.api.ask("POST", "/api/v1/namespaces/ns/secrets", json::dump(secret));
            EXPECT_EQ(made.status, 201);
        }
    }
    // One list call of the plugin; `visit` sees each object and says how to go on.
    Listed list(const std::string& ns,
                const std::string& selector,
                std::function<capstan_rc(Call&, const capstan_obj*)> visit = {}) {
        Listed listed;
        bool done = false;
        pages = 0;
        job = [&](Call& call) {
            struct Visit {
                Call& call;
                Listed& listed;
                const std::function<capstan_rc(Call&, const capstan_obj*)>& visit;
            } context{call, listed, visit};
            const auto visitor = [](void* user, const capstan_obj* object) -> capstan_rc {
                auto& c = *static_cast<Visit*>(user);
                capstan_str raw{};
                EXPECT_EQ(c.call.host().cache->field(object, to_str("/metadata/name"), &raw),
                          CAPSTAN_OK);
                c.listed.names.emplace_back(view_of(raw));
                return c.visit ? c.visit(c.call, object) : CAPSTAN_OK;
            };
            listed.rc = call.host().client->list(call.handle(),
                                                 to_str("v1/Secret"),
                                                 to_str(ns),
                                                 to_str(selector),
                                                 visitor,
                                                 &context);
            listed.error = std::string(view_of(call.host().call->last_error_json(call.handle())));
            done = true;
        };
        world.put_config_map("go", std::to_string(++asked));
        EXPECT_TRUE(world.run_until([&] { return done; }));
        EXPECT_TRUE(world.settle());
        job = nullptr;
        return listed;
    }

    World world;
    TestPlugin plugin;
    std::function<void(Call&)> job;
    Fault fault;
    int fault_at{0};  // page
    int pages{0};
    int asked{0};
};

class LiveList : public ::testing::Test {
protected:
    static void SetUpTestSuite() { shared = std::make_unique<ListWorld>(); }
    static void TearDownTestSuite() {
        EXPECT_TRUE(shared->world.shut_down());
        shared.reset();
    }
    ~LiveList() override {
        shared->fault_at = 0;
        shared->fault = {};
    }

    static inline std::unique_ptr<ListWorld> shared;
    static constexpr std::size_t kSecrets = ListWorld::kSecrets;
};

TEST_F(LiveList, VisitsEveryPageInOrder) {
    for (const std::string ns : {"ns", ""}) {
        const Listed all = shared->list(ns, "");
        EXPECT_EQ(all.rc, CAPSTAN_OK) << all.error;
        ASSERT_EQ(all.names.size(), kSecrets);
        EXPECT_EQ(all.names.front(), "\"s-10000\"");
        EXPECT_EQ(all.names.back(), "\"s-11202\"");
        EXPECT_TRUE(std::is_sorted(all.names.begin(), all.names.end()));
        EXPECT_EQ(shared->pages, 3);
    }
    EXPECT_EQ(shared->list("ns", "odd=yes").names.size(), kSecrets / 2);
    EXPECT_TRUE(shared->list("ns", "odd=maybe").names.empty());
    EXPECT_EQ(shared->list("other", "").rc, CAPSTAN_OK);
    EXPECT_EQ(shared->list("ns", "a in (").rc, CAPSTAN_E_INVALID);
}

TEST_F(LiveList, VisitorEndsTheListAndItsObjectsAreBorrowed) {
    const capstan_obj* kept = nullptr;
    const Listed cut = shared->list("ns", "", [&](Call& call, const capstan_obj* object) {
        const auto* cache = call.host().cache;
        if (kept != nullptr) {
            EXPECT_EQ(cache->bytes(kept).len, 0u) << "gone with its visit";
        }
        kept = object;
        cache->release(object);  // not the plugin's to release
        EXPECT_GT(cache->bytes(object).len, 0u);
        return view_of(cache->bytes(object)).find("s-10600") == std::string_view::npos ? 0 : -77;
    });
    EXPECT_EQ(cut.rc, -77);
    EXPECT_EQ(cut.names.size(), 601u);
    EXPECT_EQ(shared->pages, 2) << "the third page is not asked for";
    const std::string leaked =
        shared->world.metric("capstan_plugin_leaked_objects_total{plugin=\"demo.example.io\"}");
    EXPECT_TRUE(leaked.empty() || leaked == "0") << leaked;
}

TEST_F(LiveList, ExpiredContinueTokenIsToldToThePlugin) {
    shared->fault_at = 2;
    shared->fault.status = 410;
    const Listed expired = shared->list("ns", "");
    EXPECT_EQ(expired.rc, CAPSTAN_E_EXPIRED) << expired.error;
    EXPECT_EQ(expired.names.size(), 500u);
    EXPECT_NE(expired.error.find("\"expired\""), std::string::npos) << expired.error;
    EXPECT_NE(expired.error.find("list secrets"), std::string::npos) << expired.error;
    shared->fault_at = 0;
    EXPECT_EQ(shared->list("ns", "").names.size(), kSecrets) << "from the start again";
}

TEST_F(LiveList, PageThatDoesNotComeEndsAtTheDeadline) {
    shared->fault_at = 3;
    shared->fault.request_delay = 1h;
    const Listed late = shared->list("ns", "");
    EXPECT_EQ(late.rc, CAPSTAN_E_DEADLINE) << late.error;
    EXPECT_EQ(late.names.size(), 1000u);
}

}  // namespace
}  // namespace capstan::test
