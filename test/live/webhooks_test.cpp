// A plugin's admission webhooks on real threads: capstan.webhook/1, both sides.
#include "capstan/plugin.hpp"
#include "test/live/live_world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

json::Value webhook(const char* name, const char* kind, const char* side_effects = "None") {
    return {{"name", name},
            {"kind", kind},
            {"path", std::string("/") + name},
            {"sideEffects", side_effects},
            {"rules",
             json::list({{{"groups", json::list({""})},
                          {"versions", json::list({"v1"})},
                          {"resources", json::list({"configmaps"})},
                          {"operations", json::list({"CREATE"})}}})}};
}

class LiveWebhooks : public ::testing::Test {
protected:
    using Answer = std::optional<Result<kube::AdmissionAnswer>>;

    LiveWebhooks() {
        world.manifest.set("webhooks",
                           json::list({webhook("judge", "validating"),
                                       webhook("change", "mutating"),
                                       webhook("write", "validating", "NoneOnDryRun")}));
        world.review = [this](capstan_call* call, const capstan_admission_request* request) {
            return review(call, *request);
        };
    }
    void ask(const std::string& path, Answer& answer, kube::AdmissionQuestion question) {
        if (question.request.is_null()) {
            question.request = {{"operation", "CREATE"}, {"object", {{"a", 1}, {"b", 2}}}};
        }
        if (question.deadline == kNever) {
            question.deadline = world.loop->now() + kLiveLimit;
        }
        for (const control::WebhookEndpoint& endpoint : world.runtime->webhooks()) {
            if (endpoint.path == path) {
                endpoint.handler(std::move(question), [&answer](Result<kube::AdmissionAnswer> a) {
                    EXPECT_FALSE(answer.has_value()) << "answered twice";
                    answer.emplace(std::move(a));
                });
            }
        }
    }
    Result<kube::AdmissionAnswer> ask(const std::string& path,
                                      kube::AdmissionQuestion question = {}) {
        Answer answer;
        ask(path, answer, std::move(question));
        if (!world.until([&] { return answer.has_value(); })) {
            return fail(Code::internal, "the test hangs");
        }
        return std::move(*answer);
    }
    capstan_rc give(capstan_call* call,
                    bool allowed,
                    std::string_view object = "",
                    std::int32_t code = 0,
                    std::string_view warnings = "",
                    std::string_view audit = "") const {
        constexpr std::string_view kMessage = "because";
        const capstan_admission_answer answer{{sizeof(capstan_admission_answer), CAPSTAN_ABI},
                                              allowed ? 1 : 0,
                                              code,
                                              to_str(kMessage),
                                              {},
                                              to_str(object),
                                              to_str(warnings),
                                              to_str(audit)};
        return world.webhook->answer(call, &answer);
    }
    bool shows(const std::string& line) const {
        return world.metrics.render().find(line + "\n") != std::string::npos;
    }

    LiveWorld world;
    std::function<capstan_rc(capstan_call*, const capstan_admission_request&)> review =
        [this](capstan_call* call, const capstan_admission_request&) { return give(call, true); };
};

TEST_F(LiveWebhooks, PluginSeesTheRequestAndItsAnswerComesBack) {
    std::string name, request;
    std::uint64_t deadline_ns = 0;
    review = [&](capstan_call* call, const capstan_admission_request& asked) {
        name = view_of(asked.webhook);
        request = view_of(asked.request_json);
        deadline_ns = asked.deadline_ns;
        EXPECT_EQ(world.call->deadline_ns(call), asked.deadline_ns);
        EXPECT_EQ(give(call, false, "", 422, R"(["w"])", R"({"k":"v"})"), CAPSTAN_OK);
        return capstan_rc{CAPSTAN_OK};
    };
    const StopFirst end(world);
    world.boot();
    const auto answer = ask("/judge");
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(name, "judge");
    EXPECT_EQ(request, R"({"operation":"CREATE","object":{"a":1,"b":2}})");
    EXPECT_GT(deadline_ns, 0u);
    EXPECT_FALSE(answer.value().allowed);
    EXPECT_EQ(answer.value().code, 422);
    EXPECT_EQ(answer.value().message, "because");
    EXPECT_EQ(answer.value().warnings, std::vector<std::string>{"w"});
    EXPECT_EQ(answer.value().audit.front().second, "v");
}

TEST_F(LiveWebhooks, AChangedObjectBecomesThePatch) {
    review = [&](capstan_call* call, const capstan_admission_request&) {
        return give(call, true, R"({"b":2,"a":3,"c":4})");
    };
    const StopFirst end(world);
    world.boot();
    const auto answer = ask("/change");
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(json::dump(answer.value().patch),
              R"([{"op":"replace","path":"/a","value":3},{"op":"add","path":"/c","value":4}])");
}

TEST_F(LiveWebhooks, WrongAnswersAreRefused) {
    std::vector<capstan_rc> codes;
    review = [&](capstan_call* call, const capstan_admission_request& asked) {
        codes.push_back(give(call, false, "", 200));
        codes.push_back(give(call, true, "", 0, "{}"));
        codes.push_back(give(call, true, "", 0, "[1]"));
        codes.push_back(give(call, true, "", 0, "", R"({"k":1})"));
        if (view_of(asked.webhook) == "judge") {
            codes.push_back(give(call, true, "{}"));
        } else {
            codes.push_back(give(call, false, "{}"));
            codes.push_back(give(call, true, "[]"));
            codes.push_back(give(call, true, "no JSON"));
        }
        EXPECT_EQ(give(call, true), CAPSTAN_OK);
        codes.push_back(give(call, false));
        return capstan_rc{CAPSTAN_OK};
    };
    const StopFirst end(world);
    world.boot();
    EXPECT_TRUE(ask("/judge").value().allowed) << "the first good one holds";
    EXPECT_TRUE(ask("/change").value().allowed);
    EXPECT_EQ(codes, std::vector<capstan_rc>(14, CAPSTAN_E_INVALID));
    kube::AdmissionQuestion removal;
    removal.request = {{"operation", "DELETE"}, {"object", nullptr}};
    codes.clear();
    review = [&](capstan_call* call, const capstan_admission_request&) {
        codes.push_back(give(call, true, "{}"));
        return give(call, true);
    };
    EXPECT_TRUE(ask("/change", std::move(removal)).value().allowed);
    EXPECT_EQ(codes, std::vector<capstan_rc>{CAPSTAN_E_INVALID}) << "nothing to change";
}

TEST_F(LiveWebhooks, PanicFailsTheReviewAndNothingElse) {
    review = [&](capstan_call*, const capstan_admission_request&) {
        return capstan_rc{CAPSTAN_E_PANIC};
    };
    const StopFirst end(world);
    world.boot();
    EXPECT_TRUE(shows("controller_runtime_webhook_panics_total 0"));
    for (int i = 0; i < 5; ++i) {  // more than would stop a plugin
        const auto answer = ask("/judge");
        ASSERT_FALSE(answer);
        EXPECT_EQ(answer.error().code, Code::internal);
    }
    EXPECT_TRUE(shows("controller_runtime_webhook_panics_total 5"));
    EXPECT_EQ(world.runtime->phase("live.example.io"), control::PluginPhase::running);
    review = [&](capstan_call*, const capstan_admission_request&) {
        return capstan_rc{CAPSTAN_OK};
    };
    EXPECT_EQ(ask("/judge").error().message, "the webhook gave no answer");
    review = [&](capstan_call*, const capstan_admission_request&) { return capstan_rc{4711}; };
    EXPECT_EQ(ask("/judge").error().message, "the webhook failed with code 4711");
}

TEST_F(LiveWebhooks, ReadsLiveAndWritesNothing) {
    std::vector<capstan_rc> codes;
    std::string said;
    review = [&](capstan_call* call, const capstan_admission_request&) {
        const capstan_obj* object = nullptr;
        codes.push_back(world.client->get(
            call, to_str("v1/ConfigMap"), to_str("ns"), to_str("there"), &object));
        if (object != nullptr) {
            world.cache->release(object);
        }
        codes.push_back(
            world.cache->get(call, to_str("Pod"), to_str("ns"), to_str("there"), &object));
        codes.push_back(
            world.client->create(call,
                                 to_str("v1/ConfigMap"),
                                 to_str(R"({"metadata":{"namespace":"ns","name":"made"}})"),
                                 nullptr));
        said = world.last_error(call);
        return give(call, true);
    };
    const StopFirst end(world);
    world.boot();
    EXPECT_EQ(world.put_config_map("there"), 201);
    EXPECT_TRUE(ask("/judge"));
    EXPECT_EQ(codes, (std::vector<capstan_rc>{CAPSTAN_OK, CAPSTAN_E_DENIED, CAPSTAN_E_DENIED}));
    EXPECT_NE(said.find("without side effects"), std::string::npos) << said;
    codes.clear();
    kube::AdmissionQuestion dry;
    dry.dry_run = true;
    EXPECT_TRUE(ask("/write", std::move(dry)));
    EXPECT_EQ(codes.back(), CAPSTAN_E_DENIED);
    EXPECT_TRUE(ask("/write"));
    EXPECT_NE(said.find("without side effects"), 0u);
    EXPECT_EQ(codes.back(), CAPSTAN_OK) << said;
}

TEST_F(LiveWebhooks, ALateHandlerIsCancelledAndTheAnswerInTime) {
    std::atomic<bool> cancelled{false};
    capstan_rc late = CAPSTAN_OK;
    std::atomic<bool> returned{false};
    review = [&](capstan_call* call, const capstan_admission_request&) {
        // Until its end: the deadline cancels the wait.
        EXPECT_EQ(world.clock->wait(call, nullptr, CAPSTAN_NEVER), CAPSTAN_E_DEADLINE);
        cancelled = world.call->cancelled(call) == 1;
        late = give(call, true);
        returned = true;
        world.wake();
        return capstan_rc{CAPSTAN_OK};
    };
    const StopFirst end(world);
    world.boot();
    kube::AdmissionQuestion question;
    question.deadline = world.loop->now() + 50ms;
    const auto answer = ask("/judge", std::move(question));
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::timeout);
    ASSERT_TRUE(world.until([&] { return returned.load(); }));
    EXPECT_TRUE(cancelled);
    EXPECT_EQ(late, CAPSTAN_E_DEADLINE);
}

// A door that handlers wait at, in foreign code that no cancellation reaches.
class Door {
public:
    void pass() {
        std::unique_lock lock(mutex_);
        ++waiting_;
        EXPECT_TRUE(changed_.wait_for(lock, kLiveLimit, [this] { return open_; }));
    }
    void open() {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    std::size_t waiting() {
        const std::lock_guard lock(mutex_);
        return waiting_;
    }

private:
    std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    bool open_{false};
    std::size_t waiting_{0};
};

TEST_F(LiveWebhooks, StuckHandlersAreReplaced) {
    Door door;
    std::atomic<bool> stick{true};
    review = [&](capstan_call* call, const capstan_admission_request&) {
        if (stick) {
            door.pass();
            return capstan_rc{CAPSTAN_OK};
        }
        return give(call, true);
    };
    const StopFirst end(world);
    world.boot();
    std::vector<Answer> answers(control::kAdmissionThreads + 2);
    for (Answer& answer : answers) {
        kube::AdmissionQuestion question;
        question.deadline = world.loop->now() + 200ms;
        ask("/judge", answer, std::move(question));
    }
    ASSERT_TRUE(world.until([&] {
        return std::all_of(
            answers.begin(), answers.end(), [](const Answer& a) { return a.has_value(); });
    })) << "those that wait are answered too";
    for (const Answer& answer : answers) {
        EXPECT_EQ(answer->error().code, Code::timeout);
    }
    EXPECT_GE(door.waiting(), control::kAdmissionThreads);
    stick = false;
    const auto fresh = ask("/judge");
    EXPECT_TRUE(fresh) << fresh.error().message;
    door.open();
}

TEST_F(LiveWebhooks, TooManyAreRefusedAndAStopAnswersTheRest) {
    Door door;
    review = [&](capstan_call* call, const capstan_admission_request&) {
        door.pass();
        return give(call, true);
    };
    std::vector<Answer> answers(control::kAdmissionThreads + control::kAdmissionWaitingMax);
    Answer refused;
    const StopFirst end(world);
    world.boot();
    for (std::size_t i = 0; i < control::kAdmissionThreads; ++i) {
        ask("/judge", answers[i], {});
        ASSERT_TRUE(world.until([&] { return door.waiting() == i + 1; }));
    }
    for (std::size_t i = control::kAdmissionThreads; i < answers.size(); ++i) {
        ask("/judge", answers[i], {});
    }
    ask("/judge", refused, {});
    ASSERT_TRUE(world.until([&] { return refused.has_value(); }));
    EXPECT_EQ(refused->error().code, Code::overloaded);
    std::optional<control::StopReport> report;
    world.runtime->stop(20s, [&](control::StopReport r) { report = std::move(r); });
    ASSERT_TRUE(world.until([&] { return answers.back().has_value(); }));
    EXPECT_EQ(answers.back()->error().code, Code::unavailable);
    door.open();
    ASSERT_TRUE(world.until([&] { return report.has_value(); }));
    EXPECT_TRUE(report->clean());
    world.runtime.reset();
}

}  // namespace
}  // namespace capstan::test
