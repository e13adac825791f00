// The workload that compares controller runtimes: a ConfigMap for each Widget, and its status.
//
// BENCH_MODE=cache-only reads and writes nothing. Two lines on stdout tell a harness what it cannot
// see from outside: {"event":"synced"}, and at the end {"event":"summary",...} with the latency
// from status.sentAtNs (CLOCK_REALTIME) to the start of the reconcile that saw it.
#include <capstan/plugin.hpp>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

namespace {

using namespace capstan;

constexpr std::string_view kWidget = "bench.example.io/Widget";

class Statistics {
public:
    explicit Statistics(const HostTables& host) : host_(&host), started_(now()) {}
    ~Statistics() { print_summary(); }

    void count_reconcile() { ++reconciles_; }
    void count_error() { ++errors_; }
    void count_request() { ++requests_; }

    // `sent`: status.sentAtNs of the Widget at the start of its reconcile; each value counts once.
    void saw(const ObjectKey& key, std::int64_t sent) {
        const std::int64_t at = now();
        if (sent <= started_) {
            return;
        }
        const std::lock_guard lock(mutex_);
        if (std::exchange(last_sent_[key.ns + "/" + key.name], sent) != sent) {
            latencies_ms_.push_back(static_cast<double>(at - sent) / 1e6);
        }
    }

private:
    std::int64_t now() const { return host_->wall_now().time_since_epoch().count(); }

    double quantile(double q) const {
        const auto last = static_cast<double>(latencies_ms_.size() - 1);
        return latencies_ms_[static_cast<std::size_t>(q * last)];
    }

    void print_summary() {
        std::sort(latencies_ms_.begin(), latencies_ms_.end());
        json::Value latency = {{"count", latencies_ms_.size()}};
        if (!latencies_ms_.empty()) {
            const double sum = std::accumulate(latencies_ms_.begin(), latencies_ms_.end(), 0.0);
            latency.set("p50", quantile(0.5));
            latency.set("p90", quantile(0.9));
            latency.set("p99", quantile(0.99));
            latency.set("p999", quantile(0.999));
            latency.set("max", latencies_ms_.back());
            latency.set("mean", sum / static_cast<double>(latencies_ms_.size()));
        }
        const json::Value summary = {
            {"event", "summary"},
            {"reconciles", reconciles_.load()},
            {"errors", errors_.load()},
            {"requests", {{"total", requests_.load()}}},
            {"latency_ms", latency},
        };
        std::printf("%s\n", json::dump(summary).c_str());
        std::fflush(stdout);
    }

    const HostTables* const host_;
    const std::int64_t started_;
    std::atomic<std::int64_t> reconciles_{0}, errors_{0}, requests_{0};
    std::mutex mutex_;  // guards what follows
    std::map<std::string, std::int64_t> last_sent_;
    std::vector<double> latencies_ms_;
};

// What a reconcile looks at; the rest of the Widget is never parsed.
struct Widget {
    json::Value spec;  // object
    std::string uid;
    std::int64_t generation{0}, observed_generation{0};
};

json::Value config_map_of(const Widget& widget, const ObjectKey& key) {
    const json::View spec(widget.spec);
    const json::Value* config = spec["config"].value();
    json::Value data = config != nullptr ? *config : json::object();
    data.set("image", spec["image"].string_or(""));
    data.set("size", std::to_string(spec["size"].int_or(0)));
    return {
        {"apiVersion", "v1"},
        {"kind", "ConfigMap"},
        {"metadata",
         {
             {"name", key.name},
             {"namespace", key.ns},
             {"labels",
              {
                  {"app.kubernetes.io/managed-by", "bench-operator"},
                  {"bench.example.io/widget", key.name},
              }},
             {"ownerReferences",
              json::list({{
                  {"apiVersion", "bench.example.io/v1"},
                  {"kind", "Widget"},
                  {"name", key.name},
                  {"uid", widget.uid},
                  {"controller", true},
                  {"blockOwnerDeletion", true},
              }})},
         }},
        {"data", data},
    };
}

// Without parsing the rest of the object. 0 when absent.
std::int64_t number_at(const Call& call, const Object& object, std::string_view pointer) {
    capstan_str raw{};
    if (call.host().cache->field(object.handle(), to_str(pointer), &raw) != CAPSTAN_OK) {
        return 0;
    }
    std::int64_t number = 0;
    std::from_chars(raw.ptr, raw.ptr + raw.len, number);
    return number;
}

class Widgets final : public Controller {
public:
    Widgets(std::shared_ptr<Statistics> statistics, bool writes)
        : statistics_(std::move(statistics)), writes_(writes) {}

    Outcome reconcile(Call& call, const Request& request) override {
        statistics_->count_reconcile();
        const auto widget = call.cache().get(kWidget, request.key);
        if (!widget) {
            return widget.error().code == Code::not_found ? Outcome::done()
                                                          : failed(widget.error());
        }
        statistics_->saw(request.key, number_at(call, widget.value(), "/status/sentAtNs"));
        if (!writes_) {
            return Outcome::done();
        }
        if (auto written = write(call, request.key, widget.value()); !written) {
            return failed(written.error());
        }
        return Outcome::done();
    }

private:
    Outcome failed(const Error& error) {
        statistics_->count_error();
        return Outcome::failed(error);
    }

    // A live process leaves out what it has applied before; after a start the cache must say so.
    static bool is_as_wanted(Call& call, const ObjectKey& key, const json::Value& wanted) {
        const auto cached = call.cache().get("ConfigMap", key);
        if (!cached) {
            return false;
        }
        const auto same = [&](std::string_view pointer) {
            const auto present = cached.value().parse(pointer);
            return present && present.value() == *wanted.pointer(pointer);
        };
        const auto labels = cached.value().parse("/metadata/labels");
        for (const json::Member& label : *wanted.pointer("/metadata/labels")->if_object()) {
            const json::Value* present = labels ? labels.value().find(label.key) : nullptr;
            if (present == nullptr || *present != label.value) {
                return false;
            }
        }
        return same("/data") && same("/metadata/ownerReferences");
    }

    static Result<Widget> read(const Call& call, const Object& object) {
        Widget widget;
        CAPSTAN_TRY(widget.spec, object.parse("/spec"));
        CAPSTAN_TRY(widget.uid, object.text("/metadata/uid"));
        widget.generation = number_at(call, object, "/metadata/generation");
        widget.observed_generation = number_at(call, object, "/status/observedGeneration");
        return widget;
    }

    Result<void> write(Call& call, const ObjectKey& key, const Object& object) {
        CAPSTAN_TRY(const Widget widget, read(call, object));
        const json::Value wanted = config_map_of(widget, key);
        if (!is_as_wanted(call, key, wanted)) {
            statistics_->count_request();
            CAPSTAN_TRY(call.client().apply("v1/ConfigMap", wanted));
        }
        if (widget.observed_generation != widget.generation) {
            statistics_->count_request();
            CAPSTAN_TRY(
                call.client().patch_merge("bench.example.io/v1/Widget",
                                          key,
                                          {{"status", {{"observedGeneration", widget.generation}}}},
                                          "status"));
        }
        return ok();
    }

    const std::shared_ptr<Statistics> statistics_;
    const bool writes_;
};

// Says once that both caches hold their first state.
class SyncReporter final : public Service {
public:
    Result<void> run(Call& call) override {
        const ObjectKey nobody{"default", "no-such-object"};
        for (const std::string_view gk : {kWidget, std::string_view("ConfigMap")}) {
            while (call.cache().get(gk, nobody).error().code == Code::unavailable) {
                CAPSTAN_TRY(call.sleep_until(call.now() + std::chrono::milliseconds(10)));
            }
        }
        std::puts(R"({"event":"synced"})");
        std::fflush(stdout);
        return call.sleep_until(kNever);
    }
};

Result<void> make_plugin(Setup& setup) {
    const char* mode = std::getenv("BENCH_MODE");
    const bool writes = mode == nullptr || std::string_view(mode) != "cache-only";
    setup.controller("widget",
                     std::make_unique<Widgets>(std::make_shared<Statistics>(setup.host()), writes));
    setup.service("sync", std::make_unique<SyncReporter>());
    return ok();
}

}  // namespace

CAPSTAN_PLUGIN(make_plugin)
