// Metrics: counters, gauges and histograms, shown as Prometheus text 0.0.4 or OpenMetrics 1.0
// (docs/adr/0001).
//
//     auto& total = metrics.counter("controller_runtime_reconcile_total",
//                                   "Reconciles by result.",
//                                   {"controller", "result"});
//     // once, at start: it appears as 0
//     obs::Counter& errors = total.with({"etcd/etcd", "error"});
//     errors.add();  // one atomic operation
//
// Label values come from closed sets; a family keeps kSeriesMax series, all later ones share a
// series whose values are kSeriesOverflow. Registering a name again with the same shape gives the
// same family; with another shape it is a broken invariant. Thread: any. Families live as long as
// the Metrics, series too, but for those of a family whose owner calls forget_all().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::obs {

inline constexpr std::size_t kSeriesMax = 1000;  // per family
inline constexpr std::string_view kSeriesOverflow = "exceeded_cardinality_limit";
inline constexpr std::size_t kLabelValueBytesMax = 256;

// controller-runtime's and client-go's buckets (docs/operations.md), in seconds and bytes.
std::span<const double> reconcile_seconds_buckets() noexcept;
std::span<const double> queue_seconds_buckets() noexcept;  // webhooks too
std::span<const double> request_seconds_buckets() noexcept;
std::span<const double> request_bytes_buckets() noexcept;

// What a scraper is given. Thread: values.
enum class Exposition : std::uint8_t { text, open_metrics };
std::string_view content_type(Exposition exposition) noexcept;
// By an Accept header: open_metrics only where it is named and at least as welcome as text.
Exposition accepted_exposition(std::string_view accept) noexcept;

class Counter {
public:
    void add(std::uint64_t amount = 1) noexcept {
        value_.fetch_add(amount, std::memory_order_relaxed);
    }
    std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<std::uint64_t> value_{0};
};

// A counter of something that is not whole: seconds. Kept elsewhere and set here.
class FloatCounter {
public:
    void set(double value) noexcept { value_.store(value, std::memory_order_relaxed); }
    double value() const noexcept { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<double> value_{0};
};

class Gauge {
public:
    void set(double value) noexcept { value_.store(value, std::memory_order_relaxed); }
    void add(double amount) noexcept { value_.fetch_add(amount, std::memory_order_relaxed); }
    double value() const noexcept { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<double> value_{0};
};

class Histogram {
public:
    explicit Histogram(std::span<const double> bounds);  // ascending; +Inf is added
    void observe(double value) noexcept;
    std::uint64_t count() const noexcept;
    double sum() const noexcept { return sum_.load(std::memory_order_relaxed); }
    std::span<const double> bounds() const noexcept { return bounds_; }
    // not cumulative; index bounds().size() is +Inf
    std::uint64_t in_bucket(std::size_t index) const noexcept;

private:
    const std::vector<double> bounds_;
    const std::unique_ptr<std::atomic<std::uint64_t>[]> counts_;
    std::atomic<double> sum_{0};
};

class Metrics;

// All series of one metric. T: Counter, FloatCounter, Gauge or Histogram.
template <class T>
class Family {
public:
    // Finds or makes the series. Requires: as many values as label names. Not for hot
    // paths: keep the reference.
    T& with(std::initializer_list<std::string_view> values) {
        return with(std::span(values.begin(), values.size()));
    }
    T& with(std::span<const std::string_view> values);
    // Drops every series: for a set that is made anew at each render. Requires: no reference to
    // one is kept.
    void forget_all();

private:
    friend class Metrics;
    struct Series {
        explicit Series(std::string l, std::span<const double> bounds);
        std::string labels;  // rendered: a="x",b="y"
        T value;
    };
    Family(std::string help, std::vector<std::string> label_names, std::span<const double> bounds);

    const std::string help_;
    const std::vector<std::string> label_names_;
    const std::vector<double> bounds_;
    mutable std::mutex mutex_;                     // guards series_
    std::vector<std::unique_ptr<Series>> series_;  // sorted by labels; addresses are stable
    Series* overflow_{nullptr};
};

class Metrics {
public:
    Metrics();
    ~Metrics();
    Metrics(const Metrics&) = delete;
    Metrics& operator=(const Metrics&) = delete;

    Family<Counter>& counter(std::string_view name,
                             std::string_view help,
                             std::initializer_list<std::string_view> labels = {});
    Family<Gauge>& gauge(std::string_view name,
                         std::string_view help,
                         std::initializer_list<std::string_view> labels = {});
    Family<Histogram>& histogram(std::string_view name,
                                 std::string_view help,
                                 std::span<const double> bounds,
                                 std::initializer_list<std::string_view> labels = {});

    Family<FloatCounter>& float_counter(std::string_view name, std::string_view help);

    // The same with label names that are not written in place (plugins).
    Family<Counter>& counter(std::string_view name,
                             std::string_view help,
                             std::span<const std::string_view> labels);
    Family<Gauge>& gauge(std::string_view name,
                         std::string_view help,
                         std::span<const std::string_view> labels);
    Family<Histogram>& histogram(std::string_view name,
                                 std::string_view help,
                                 std::span<const double> bounds,
                                 std::span<const std::string_view> labels);

    // Runs before each render, for gauges that are cheaper to read than to maintain. [any],
    // must not call render().
    void before_render(std::function<void()> refresh);

    std::string render(Exposition exposition = Exposition::text) const;
    // Only these families, as text; unknown names are left out, nothing is refreshed.
    std::string render_families(std::span<const std::string> names) const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

// process_* of the running process (CPU, memory, descriptors, network, start time) and
// capstan_threads, refreshed at each render from /proc/self.
void register_process_metrics(Metrics& metrics);

}  // namespace capstan::obs
