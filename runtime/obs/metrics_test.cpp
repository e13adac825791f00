#include "runtime/obs/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include <limits>
#include <string>

namespace capstan::obs {
namespace {

TEST(Metrics, RendersPrometheusText) {
    Metrics metrics;
    auto& total = metrics.counter(
        "reconcile_total", "Reconciles by result.\nTwo lines.", {"controller", "result"});
    total.with({"etcd/etcd", "success"}).add(2);
    total.with({"etcd/etcd", "error"});
    metrics.gauge("depth", "Ready \\ items.", {"name"}).with({"a\"b\\c\nd"}).set(1.5);
    EXPECT_EQ(metrics.render(),
              "# HELP depth Ready \\\\ items.\n"
              "# TYPE depth gauge\n"
              "depth{name=\"a\\\"b\\\\c\\nd\"} 1.5\n"
              "# HELP reconcile_total Reconciles by result.\\nTwo lines.\n"
              "# TYPE reconcile_total counter\n"
              "reconcile_total{controller=\"etcd/etcd\",result=\"error\"} 0\n"
              "reconcile_total{controller=\"etcd/etcd\",result=\"success\"} 2\n");
}

TEST(Metrics, RendersCumulativeHistogramBuckets) {
    Metrics metrics;
    const double bounds[] = {0.1, 1};
    auto& seconds = metrics.histogram("t_seconds", "T.", bounds, {"c"}).with({"x"});
    for (const double value : {0.05, 0.1, 0.5, 7.0}) {
        seconds.observe(value);
    }
    EXPECT_EQ(metrics.render(),
              "# HELP t_seconds T.\n"
              "# TYPE t_seconds histogram\n"
              "t_seconds_bucket{c=\"x\",le=\"0.1\"} 2\n"
              "t_seconds_bucket{c=\"x\",le=\"1\"} 3\n"
              "t_seconds_bucket{c=\"x\",le=\"+Inf\"} 4\n"
              "t_seconds_sum{c=\"x\"} 7.65\n"
              "t_seconds_count{c=\"x\"} 4\n");
}

TEST(Metrics, RendersOpenMetrics) {
    Metrics metrics;
    metrics.counter("runs_total", "Runs \"quoted\".").with({}).add(3);
    metrics.counter("odd", "No suffix.").with({}).add(1);
    metrics.float_counter("cpu_seconds_total", "CPU.").with({}).set(2.5);
    const double bounds[] = {1e-8, 1e-4, 1, 1048576};
    metrics.histogram("s_bytes", "S.", bounds).with({}).observe(1);
    EXPECT_EQ(metrics.render(Exposition::open_metrics),
              "# HELP cpu_seconds CPU.\n"
              "# TYPE cpu_seconds counter\n"
              "cpu_seconds_total 2.5\n"
              "# HELP odd No suffix.\n"
              "# TYPE odd unknown\n"
              "odd 1\n"
              "# HELP runs Runs \\\"quoted\\\".\n"
              "# TYPE runs counter\n"
              "runs_total 3\n"
              "# HELP s_bytes S.\n"
              "# TYPE s_bytes histogram\n"
              "s_bytes_bucket{le=\"1e-08\"} 0\n"
              "s_bytes_bucket{le=\"0.0001\"} 0\n"
              "s_bytes_bucket{le=\"1.0\"} 1\n"
              "s_bytes_bucket{le=\"1.048576e+06\"} 1\n"
              "s_bytes_bucket{le=\"+Inf\"} 1\n"
              "s_bytes_sum 1\n"
              "s_bytes_count 1\n"
              "# EOF\n");
}

struct AcceptRow {
    const char* name;
    const char* accept;
    Exposition expected;
};
class Accept : public ::testing::TestWithParam<AcceptRow> {};

TEST_P(Accept, ChoosesTheForm) {
    EXPECT_EQ(accepted_exposition(GetParam().accept), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Metrics,
    Accept,
    ::testing::Values(
        AcceptRow{"none", "", Exposition::text},
        AcceptRow{"any", "*/*", Exposition::text},
        AcceptRow{"open",
                  "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
                  Exposition::open_metrics},
        AcceptRow{"prometheus",
                  "application/openmetrics-text;version=1.0.0;q=0.6,"
                  "application/openmetrics-text;version=0.0.1;q=0.5,"
                  "text/plain;version=0.0.4;q=0.4,*/*;q=0.3",
                  Exposition::open_metrics},
        AcceptRow{"text_preferred",
                  "application/openmetrics-text;q=0.2, text/plain;q=0.9",
                  Exposition::text},
        AcceptRow{"other_version", "application/openmetrics-text; version=0.0.1", Exposition::text},
        AcceptRow{"refused", "application/openmetrics-text;q=0", Exposition::text},
        AcceptRow{"wild", "application/openmetrics-text;q=;;,=,;version", Exposition::text}),
    [](const auto& row) { return row.param.name; });

TEST(Metrics, ForgetsASetThatIsMadeAnew) {
    Metrics metrics;
    auto& family = metrics.gauge("g", "G.", {"l"});
    family.with({"a"}).set(1);
    family.forget_all();
    EXPECT_EQ(metrics.render(), "");
    family.with({"b"}).set(2);
    EXPECT_NE(metrics.render().find("g{l=\"b\"} 2\n"), std::string::npos);
}

TEST(Metrics, SameNameGivesSameSeries) {
    Metrics metrics;
    Counter& a = metrics.counter("n", "N.", {"l"}).with({"v"});
    Counter& b = metrics.counter("n", "N.", {"l"}).with({"v"});
    EXPECT_EQ(&a, &b);
}

TEST(Metrics, CapsSeriesPerFamily) {
    Metrics metrics;
    auto& family = metrics.counter("n", "N.", {"l"});
    Counter& first = family.with({"first"});
    for (int i = 0; i < 3000; ++i) {
        const std::string value = "v" + std::to_string(i);
        family.with({value}).add();
    }
    EXPECT_EQ(&family.with({"first"}), &first);
    const std::string text = metrics.render();
    EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')), kSeriesMax + 2);
    EXPECT_NE(text.find("n{l=\"exceeded_cardinality_limit\"} 2002\n"), std::string::npos)
        << "3000 minus the 998 that have their own";
}

TEST(Metrics, ShowsSpecialNumbers) {
    Metrics metrics;
    auto& gauge = metrics.gauge("g", "G.").with({});
    gauge.set(std::numeric_limits<double>::infinity());
    EXPECT_NE(metrics.render().find("g +Inf\n"), std::string::npos);
    gauge.set(std::numeric_limits<double>::quiet_NaN());
    EXPECT_NE(metrics.render().find("g NaN\n"), std::string::npos);
}

TEST(Metrics, RefreshesBeforeRender) {
    Metrics metrics;
    Gauge& gauge = metrics.gauge("g", "G.").with({});
    metrics.before_render([&gauge] { gauge.add(1); });
    EXPECT_NE(metrics.render().find("g 1\n"), std::string::npos);
    EXPECT_NE(metrics.render().find("g 2\n"), std::string::npos);
}

TEST(Metrics, KnowsItsProcess) {
    Metrics metrics;
    register_process_metrics(metrics);
    const std::string text = metrics.render();
    EXPECT_NE(text.find("process_resident_memory_bytes "), std::string::npos);
    EXPECT_EQ(text.find("process_resident_memory_bytes 0\n"), std::string::npos);
    EXPECT_EQ(text.find("process_start_time_seconds 0\n"), std::string::npos);
}

TEST(MetricsDeathTest, RefusesAnotherShapeUnderOneName) {
    Metrics metrics;
    metrics.counter("n", "N.", {"l"});
    EXPECT_DEATH(metrics.gauge("n", "N.", {"l"}), "n");
    EXPECT_DEATH(metrics.counter("n", "N.", {"other"}), "n");
}

}  // namespace
}  // namespace capstan::obs
