#include "runtime/obs/metrics.hpp"

#include "capstan/error.hpp"
#include "runtime/obs/exposition.hpp"

#include <algorithm>
#include <array>
#include <map>
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
constexpr std::array kRequestBytes{64.0,
                                   256.0,
                                   512.0,
                                   1024.0,
                                   4096.0,
                                   16384.0,
                                   65536.0,
                                   262144.0,
                                   1048576.0,
                                   4194304.0,
                                   16777216.0};

std::string render_labels(const std::vector<std::string>& names,
                          std::span<const std::string_view> values) {
    std::string out;
    for (std::size_t i = 0; i < names.size(); ++i) {
        out += out.empty() ? "" : ",";
        out += names[i] + "=\"" + escaped(values[i].substr(0, kLabelValueBytesMax), true) + "\"";
    }
    return out;
}

template <class T>
constexpr Type kTypeOf = Type::counter;
template <>
constexpr Type kTypeOf<Gauge> = Type::gauge;
template <>
constexpr Type kTypeOf<Histogram> = Type::histogram;

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
std::span<const double> request_bytes_buckets() noexcept {
    return kRequestBytes;
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
Family<FloatCounter>::Series::Series(std::string l, std::span<const double>)
    : labels(std::move(l)) {}
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
        const std::vector<std::string_view> all(label_names_.size(), kSeriesOverflow);
        labels = render_labels(label_names_, all);
        it = std::lower_bound(series_.begin(), series_.end(), labels, less);
        overflow_ = series_.insert(it, std::make_unique<Series>(labels, bounds_))->get();
    }
    if (overflow_ != nullptr) {
        return overflow_->value;
    }
    return (*series_.insert(it, std::make_unique<Series>(std::move(labels), bounds_)))->value;
}

template <class T>
void Family<T>::forget_all() {
    const std::scoped_lock lock(mutex_);
    series_.clear();
    overflow_ = nullptr;
}

template class Family<Counter>;
template class Family<FloatCounter>;
template class Family<Gauge>;
template class Family<Histogram>;

struct Metrics::State {
    using AnyFamily = std::variant<std::unique_ptr<Family<Counter>>,
                                   std::unique_ptr<Family<FloatCounter>>,
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
    static void render(Writer& out, std::string_view name, const Family<T>& family) {
        const std::scoped_lock lock(family.mutex_);
        if (family.series_.empty()) {
            return;
        }
        out.head(name, family.help_, kTypeOf<T>);
        for (const auto& series : family.series_) {
            out.series(name, series->labels, series->value);
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

Family<FloatCounter>& Metrics::float_counter(std::string_view name, std::string_view help) {
    return state_->find_or_add<FloatCounter>(name, help, {}, {});
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

std::string Metrics::render(Exposition exposition) const {
    std::vector<std::function<void()>> refreshers;
    {
        const std::scoped_lock lock(state_->mutex);
        refreshers = state_->refreshers;
    }
    for (const auto& refresh : refreshers) {
        refresh();
    }
    Writer out(exposition);
    const std::scoped_lock lock(state_->mutex);
    for (const auto& [name, family] : state_->families) {
        std::visit([&, &n = name](const auto& f) { State::render(out, n, *f); }, family);
    }
    return out.finish();
}

std::string Metrics::render_families(std::span<const std::string> names) const {
    Writer out(Exposition::text);
    const std::scoped_lock lock(state_->mutex);
    for (const std::string& name : names) {
        const auto found = state_->families.find(name);
        if (found != state_->families.end()) {
            std::visit([&](const auto& family) { State::render(out, name, *family); },
                       found->second);
        }
    }
    return out.finish();
}

}  // namespace capstan::obs
