#include "runtime/obs/metrics.hpp"

#include "capstan/error.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <type_traits>
#include <variant>

namespace capstan::obs {

namespace {

constexpr std::array kReconcileSeconds{
    0.005, 0.01, 0.025, 0.05, 0.1,  0.15, 0.2,  0.25, 0.3,  0.35, 0.4,  0.45, 0.5, 0.6,
    0.7,   0.8,  0.9,   1.0,  1.25, 1.5,  1.75, 2.0,  2.5,  3.0,  3.5,  4.0,  4.5, 5.0,
    6.0,   7.0,  8.0,   9.0,  10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0};
constexpr std::array kQueueSeconds{
    1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0};
constexpr std::array kRequestSeconds{
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0};
constexpr std::string_view kOverflow = "_overflow";

std::string escape(std::string_view text, bool quotes) {
    std::string out;
    for (const char c : text) {
        if (c == '\\') {
            out += "\\\\";
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '"' && quotes) {
            out += "\\\"";
        } else {
            out += c;
        }
    }
    return out;
}

std::string number(double value) {
    if (std::isnan(value)) {
        return "NaN";
    }
    if (std::isinf(value)) {
        return value > 0 ? "+Inf" : "-Inf";
    }
    std::array<char, 32> buffer{};
    const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
    return {buffer.data(), result.ptr};
}

std::string render_labels(const std::vector<std::string>& names,
                          std::span<const std::string_view> values) {
    std::string out;
    for (std::size_t i = 0; i < names.size(); ++i) {
        out += out.empty() ? "" : ",";
        out += names[i] + "=\"" + escape(values[i].substr(0, kLabelValueBytesMax), true) + "\"";
    }
    return out;
}

void append_sample(std::string& out,
                   std::string_view name,
                   std::string_view suffix,
                   std::string_view labels,
                   std::string_view value) {
    out.append(name).append(suffix);
    if (!labels.empty()) {
        out.append("{").append(labels).append("}");
    }
    out.append(" ").append(value).append("\n");
}

void append_series(std::string& out,
                   std::string_view name,
                   std::string_view labels,
                   const Counter& value) {
    append_sample(out, name, "", labels, std::to_string(value.value()));
}

void append_series(std::string& out,
                   std::string_view name,
                   std::string_view labels,
                   const Gauge& value) {
    append_sample(out, name, "", labels, number(value.value()));
}

void append_series(std::string& out,
                   std::string_view name,
                   std::string_view labels,
                   const Histogram& value) {
    const std::string prefix = labels.empty() ? std::string() : std::string(labels) + ",";
    std::uint64_t total = 0;
    for (std::size_t i = 0; i <= value.bounds().size(); ++i) {
        total += value.in_bucket(i);
        const std::string bound = i < value.bounds().size() ? number(value.bounds()[i]) : "+Inf";
        append_sample(out, name, "_bucket", prefix + "le=\"" + bound + "\"", std::to_string(total));
    }
    append_sample(out, name, "_sum", labels, number(value.sum()));
    // equals the last bucket, always
    append_sample(out, name, "_count", labels, std::to_string(total));
}

}  // namespace

std::span<const double> reconcile_seconds_buckets() noexcept {
    return kReconcileSeconds;
}
std::span<const double> queue_seconds_buckets() noexcept {
    return kQueueSeconds;
}
std::span<const double> request_seconds_buckets() noexcept {
    return kRequestSeconds;
}

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds.begin(), bounds.end()),
      counts_(new std::atomic<std::uint64_t>[bounds.size() + 1]()) {}

void Histogram::observe(double value) noexcept {
    const auto it = std::lower_bound(bounds_.begin(), bounds_.end(), value);
    counts_[static_cast<std::size_t>(it - bounds_.begin())].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
}

std::uint64_t Histogram::count() const noexcept {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i <= bounds_.size(); ++i) {
        total += in_bucket(i);
    }
    return total;
}

std::uint64_t Histogram::in_bucket(std::size_t index) const noexcept {
    return counts_[index].load(std::memory_order_relaxed);
}

template <>
Family<Counter>::Series::Series(std::string l, std::span<const double>) : labels(std::move(l)) {}
template <>
Family<Gauge>::Series::Series(std::string l, std::span<const double>) : labels(std::move(l)) {}
template <>
Family<Histogram>::Series::Series(std::string l, std::span<const double> bounds)
    : labels(std::move(l)), value(bounds) {}

template <class T>
Family<T>::Family(std::string help,
                  std::vector<std::string> label_names,
                  std::span<const double> bounds)
    : help_(std::move(help)),
      label_names_(std::move(label_names)),
      bounds_(bounds.begin(), bounds.end()) {}

template <class T>
T& Family<T>::with(std::span<const std::string_view> values) {
    CAPSTAN_CHECK(values.size() == label_names_.size(), help_);
    std::string labels = render_labels(label_names_, values);
    const std::scoped_lock lock(mutex_);
    const auto less = [](const std::unique_ptr<Series>& a, const std::string& b) {
        return a->labels < b;
    };
    auto it = std::lower_bound(series_.begin(), series_.end(), labels, less);
    if (it != series_.end() && (*it)->labels == labels) {
        return (*it)->value;
    }
    if (overflow_ == nullptr && series_.size() + 1 >= kSeriesMax) {
        const std::vector<std::string_view> all(label_names_.size(), kOverflow);
        labels = render_labels(label_names_, all);
        it = std::lower_bound(series_.begin(), series_.end(), labels, less);
        overflow_ = series_.insert(it, std::make_unique<Series>(labels, bounds_))->get();
    }
    if (overflow_ != nullptr) {
        return overflow_->value;
    }
    return (*series_.insert(it, std::make_unique<Series>(std::move(labels), bounds_)))->value;
}

template class Family<Counter>;
template class Family<Gauge>;
template class Family<Histogram>;

struct Metrics::State {
    using AnyFamily = std::variant<std::unique_ptr<Family<Counter>>,
                                   std::unique_ptr<Family<Gauge>>,
                                   std::unique_ptr<Family<Histogram>>>;

    template <class T>
    Family<T>& find_or_add(std::string_view name,
                           std::string_view help,
                           std::span<const std::string_view> labels,
                           std::span<const double> bounds) {
        const std::vector<std::string> names(labels.begin(), labels.end());
        const std::scoped_lock lock(mutex);
        auto it = families.find(name);
        if (it == families.end()) {
            std::unique_ptr<Family<T>> made(new Family<T>(std::string(help), names, bounds));
            it = families.emplace(std::string(name), std::move(made)).first;
        }
        auto* family = std::get_if<std::unique_ptr<Family<T>>>(&it->second);
        CAPSTAN_CHECK(family != nullptr && (*family)->label_names_ == names, name);
        return **family;
    }

    template <class T>
    static void render(std::string& out, std::string_view name, const Family<T>& family) {
        const std::string_view type = std::is_same_v<T, Counter> ? "counter"
                                      : std::is_same_v<T, Gauge> ? "gauge"
                                                                 : "histogram";
        const std::scoped_lock lock(family.mutex_);
        if (family.series_.empty()) {
            return;
        }
        out.append("# HELP ")
            .append(name)
            .append(" ")
            .append(escape(family.help_, false))
            .append("\n");
        out.append("# TYPE ").append(name).append(" ").append(type).append("\n");
        for (const auto& series : family.series_) {
            append_series(out, name, series->labels, series->value);
        }
    }

    mutable std::mutex mutex;  // guards what follows
    std::map<std::string, AnyFamily, std::less<>> families;
    std::vector<std::function<void()>> refreshers;
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

Family<Counter>& Metrics::counter(std::string_view name,
                                  std::string_view help,
                                  std::initializer_list<std::string_view> labels) {
    return state_->find_or_add<Counter>(name, help, std::span(labels.begin(), labels.size()), {});
}

Family<Gauge>& Metrics::gauge(std::string_view name,
                              std::string_view help,
                              std::initializer_list<std::string_view> labels) {
    return state_->find_or_add<Gauge>(name, help, std::span(labels.begin(), labels.size()), {});
}

Family<Histogram>& Metrics::histogram(std::string_view name,
                                      std::string_view help,
                                      std::span<const double> bounds,
                                      std::initializer_list<std::string_view> labels) {
    return state_->find_or_add<Histogram>(
        name, help, std::span(labels.begin(), labels.size()), bounds);
}

Family<Counter>& Metrics::counter(std::string_view name,
                                  std::string_view help,
                                  std::span<const std::string_view> labels) {
    return state_->find_or_add<Counter>(name, help, labels, {});
}

Family<Gauge>& Metrics::gauge(std::string_view name,
                              std::string_view help,
                              std::span<const std::string_view> labels) {
    return state_->find_or_add<Gauge>(name, help, labels, {});
}

Family<Histogram>& Metrics::histogram(std::string_view name,
                                      std::string_view help,
                                      std::span<const double> bounds,
                                      std::span<const std::string_view> labels) {
    return state_->find_or_add<Histogram>(name, help, labels, bounds);
}

void Metrics::before_render(std::function<void()> refresh) {
    const std::scoped_lock lock(state_->mutex);
    state_->refreshers.push_back(std::move(refresh));
}

std::string Metrics::render() const {
    std::vector<std::function<void()>> refreshers;
    {
        const std::scoped_lock lock(state_->mutex);
        refreshers = state_->refreshers;
    }
    for (const auto& refresh : refreshers) {
        refresh();
    }
    std::string out;
    const std::scoped_lock lock(state_->mutex);
    for (const auto& [name, family] : state_->families) {
        std::visit([&, &n = name](const auto& f) { State::render(out, n, *f); }, family);
    }
    return out;
}

}  // namespace capstan::obs
