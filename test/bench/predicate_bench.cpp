// Cost of one event for one predicate, on objects of realistic size. `ninja -C build
// test/bench/predicate-bench`, run it.
#include "runtime/plugin/predicate.hpp"

#include <benchmark/benchmark.h>

namespace {

using namespace capstan;
using namespace capstan::plugin;

json::Value parsed(const char* text) {
    return json::parse(text).value();
}

json::Value lease(const char* renewed) {
    return {
        {"metadata",
         {{"name", "main-full-snap"}, {"namespace", "shoot--a--b"}, {"resourceVersion", renewed}}},
        {"spec", {{"holderIdentity", "12345"}, {"renewTime", renewed}}}};
}

// A StatefulSet-like object of about 5 KB.
json::Value stateful_set(std::int64_t ready) {
    const json::Value metadata = {
        {"name", "main"}, {"namespace", "n"}, {"generation", 4}, {"labels", {{"app", "etcd"}}}};
    json::Value object = {
        {"metadata", metadata},
        {"spec", {{"replicas", 3}}},
        {"status",
         {{"readyReplicas", ready}, {"updatedReplicas", 3}, {"conditions", json::list()}}}};
    for (int i = 0; i < 40; ++i) {
        object["spec"].set("field" + std::to_string(i),
                           "a value of some length that a pod template could have, more or less");
        object["status"]["conditions"].push_back(
            {{"type", "Type" + std::to_string(i)}, {"status", "True"}});
    }
    return object;
}

void run(benchmark::State& state,
         const char* text,
         const json::Value& before,
         const json::Value& after) {
    Problems problems;
    const Predicate predicate = Predicate::compile(parsed(text), {}, "", problems);
    const EventView event{EventType::update, &before, &after};
    for (auto _ : state) {
        benchmark::DoNotOptimize(predicate.evaluate(event));
    }
}

void lease_renewed(benchmark::State& state) {
    run(state,
        R"({"all":[{"any":[{"suffix":[{"new":"/metadata/name"},"full-snap"]},
        {"suffix":[{"new":"/metadata/name"},"delta-snap"]}]},
        {"case":{"create":true,"update":{"changed":"/spec/holderIdentity"},"else":false}}]})",
        lease("1"),
        lease("2"));
}
BENCHMARK(lease_renewed);

void generation_unchanged(benchmark::State& state) {
    run(state, R"({"generationChanged":true})", stateful_set(2), stateful_set(2));
}
BENCHMARK(generation_unchanged);

void two_status_fields(benchmark::State& state) {
    run(state,
        R"({"changed":["/status/readyReplicas","/status/updatedReplicas","/metadata/generation"]})",
        stateful_set(2),
        stateful_set(2));
}
BENCHMARK(two_status_fields);

void whole_status_unchanged(benchmark::State& state) {
    run(state, R"({"changed":"/status"})", stateful_set(2), stateful_set(2));
}
BENCHMARK(whole_status_unchanged);

void any_item_of_forty(benchmark::State& state) {
    run(state,
        R"({"anyItem":{"at":"/status/conditions","where":{"eq":[{"item":"/type"},"Nothing"]}}})",
        stateful_set(2),
        stateful_set(2));
}
BENCHMARK(any_item_of_forty);

}  // namespace

BENCHMARK_MAIN();
