// Kubernetes Events in virtual time: series, limits, retries (runtime/control/events.hpp).
#include "runtime/control/events.hpp"
#include "test/sim/world.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

const std::string kEvents = "/apis/events.k8s.io/v1/namespaces/ns/events";

// Each run of ConfigMap "a" emits one event; "b-N" one of its own for each.
struct Emitter : ::testing::Test {
    Emitter() {
        TestPlugin plugin;
        plugin.controllers["main"] = [this](Call& call, const Request& request) {
            for (int i = 0; i < per_run; ++i) {
                const std::string reason = each_its_own ? "Reason" + std::to_string(i) : "BadValue";
                call.event({"", "v1", "ConfigMap"}, request.key, "uid", "Warning", reason, note);
            }
            return Outcome::done();
        };
        world.add(plugin);
        world.faults = [this](const net::HttpRequest& request) {
            Fault fault;
            if (request.target.find("/namespaces/ns/events") != std::string::npos) {
                ++requests;
                fault.status = status;
                fault.lose_response = lose_response;
            }
            return fault;
        };
        world.boot();
    }
    void emit(const std::string& name = "a") {
        world.put_config_map(name, std::to_string(++value));
        world.run_for(100ms);
    }
    json::Value only() {
        auto events = world.list(kEvents);
        EXPECT_EQ(events.size(), 1u);
        return events.empty() ? json::Value(json::object()) : events[0];
    }
    std::int64_t count() {
        const json::Value event = only();
        return json::View(event)["series"]["count"].int_or(0);
    }
    std::string outcomes(const std::string& outcome) {
        return world.metric("capstan_recorded_events_total{outcome=\"" + outcome + "\"}");
    }

    World world;
    const ShutDownFirst end{world};
    int per_run{1};
    bool each_its_own{false};
    std::string note{"the value is bad"};
    std::optional<int> status;
    bool lose_response{false};
    int requests{0};
    int value{0};
};

TEST_F(Emitter, FirstIsCreatedSecondPatchesLaterOnesAreCounted) {
    emit();
    const json::Value first = only();
    const json::View event(first);
    EXPECT_EQ(event["reason"].string_or(""), "BadValue");
    EXPECT_EQ(event["type"].string_or(""), "Warning");
    EXPECT_EQ(event["note"].string_or(""), "the value is bad");
    EXPECT_EQ(event["regarding"]["name"].string_or(""), "a");
    EXPECT_EQ(event["reportingController"].string_or(""), "demo.example.io");
    EXPECT_FALSE(event["series"].present());
    emit();
    EXPECT_EQ(count(), 2);
    EXPECT_EQ(requests, 2);
    for (int i = 0; i < 10; ++i) {
        emit();
    }
    EXPECT_EQ(requests, 2) << "later repeats are counted here";
    EXPECT_EQ(count(), 2);
    world.run_for(control::kSeriesWindow + 1s);
    EXPECT_EQ(count(), 12) << "written when the series has ended";
    EXPECT_EQ(requests, 3);
    EXPECT_EQ(outcomes("merged"), "11");
    EXPECT_EQ(outcomes("sent"), "3");
}

TEST_F(Emitter, AfterTheSeriesHasEndedAnEventIsANewOne) {
    emit();
    world.run_for(control::kSeriesWindow + 1s);
    emit();
    EXPECT_EQ(world.list(kEvents).size(), 2u);
}

TEST_F(Emitter, ALongSeriesIsWrittenEveryHalfHour) {
    for (int minute = 0; minute < 61; ++minute) {
        emit();
        world.run_for(1min);
    }
    EXPECT_EQ(world.list(kEvents).size(), 1u);
    EXPECT_EQ(requests, 4) << "create, first repeat, and twice in an hour";
}

TEST_F(Emitter, AnotherNoteIsTheSameSeries) {
    emit();
    note = "another text";
    emit();
    EXPECT_EQ(count(), 2);
}

TEST_F(Emitter, LongTextsAreCutAtACharacterBorder) {
    note = std::string(1023, 'x') + "\xc3\xa4";
    emit();
    const json::Value event = only();
    EXPECT_EQ(json::View(event)["note"].string_or(""), std::string(1023, 'x'));
}

TEST_F(Emitter, OneObjectCannotFloodTheServer) {
    per_run = 100;
    each_its_own = true;
    emit();
    EXPECT_EQ(world.list(kEvents).size(), control::kEventBurst);
    EXPECT_EQ(outcomes("dropped"), "75");
    emit("other");
    EXPECT_EQ(world.list(kEvents).size(), 2 * control::kEventBurst);
}

// Faster than the loop takes them, which has no turn while this plugin runs.
TEST_F(Emitter, OnePluginCannotFloodTheLoop) {
    per_run = 5000;
    emit();
    const int taken = static_cast<int>(control::kEventsInbox);
    EXPECT_EQ(outcomes("dropped"), std::to_string(5000 - taken));
    EXPECT_EQ(outcomes("merged"), std::to_string(taken - 1));
    per_run = 1;
    emit("other");
    EXPECT_EQ(world.list(kEvents).size(), 2u) << "it goes on";
}

TEST_F(Emitter, WhatFailsForAReasonThatMayPassIsSentAgain) {
    status = 503;
    emit();
    EXPECT_EQ(requests, 1);
    world.run_for(3min);
    EXPECT_GT(requests, 10);
    EXPECT_LE(requests, control::kEventTries);
    EXPECT_EQ(outcomes("failed"), requests == control::kEventTries ? "1" : "0");
}

TEST_F(Emitter, AnOutageLosesNoEventAndNoCount) {
    status = 503;
    emit();
    emit();
    emit();
    status.reset();
    world.run_for(20s);
    EXPECT_EQ(count(), 3);
    EXPECT_EQ(outcomes("failed"), "0");
}

TEST_F(Emitter, ALostAnswerMakesNoSecondEvent) {
    lose_response = true;
    emit();
    lose_response = false;
    world.run_for(1min);
    EXPECT_EQ(world.list(kEvents).size(), 1u);
    EXPECT_EQ(outcomes("failed"), "0");
}

TEST_F(Emitter, ARefusalIsFinalUntilTheSeriesIsOver) {
    status = 403;
    emit();
    emit();
    world.run_for(5min);
    EXPECT_EQ(requests, 1);
    EXPECT_EQ(outcomes("failed"), "1");
    status.reset();
    world.run_for(2min);
    emit();
    EXPECT_EQ(world.list(kEvents).size(), 1u);
}

TEST_F(Emitter, AnEventTheServerHasForgottenIsMadeAgain) {
    emit();
    const json::Value event = only();
    world.remove(kEvents + "/" + std::string(json::View(event)["metadata"]["name"].string_or("")));
    emit();
    EXPECT_EQ(count(), 2);
}

TEST_F(Emitter, TheQueueIsBounded) {
    status = 503;
    per_run = 2;
    each_its_own = true;
    for (int i = 0; i < 700; ++i) {
        world.put_config_map("b-" + std::to_string(i), "x");
    }
    world.run_for(1s);
    status.reset();
    world.run_for(5min);
    const auto made = world.list(kEvents).size();
    EXPECT_GE(made, control::kEventsWaiting);
    EXPECT_EQ(std::to_string(1400 - made), outcomes("dropped"));
}

}  // namespace
}  // namespace capstan::test
