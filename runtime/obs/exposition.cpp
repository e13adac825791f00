#include "runtime/obs/exposition.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

namespace capstan::obs {
namespace {

constexpr std::string_view kTotal = "_total";
constexpr std::string_view kOpenMetrics = "application/openmetrics-text";
// Go's shortest 'g': below and from these powers of ten on a number has an exponent.
constexpr int kExponentMin = -4;
constexpr int kExponentMax = 6;

std::string_view type_name(Type type) {
    switch (type) {
        case Type::counter: return "counter";
        case Type::gauge: return "gauge";
        case Type::histogram: return "histogram";
    }
    return "untyped";
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
        text.remove_prefix(1);
    }
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) {
        text.remove_suffix(1);
    }
    return text;
}

// Takes the part before `separator` off the front of `rest`.
std::string_view part(std::string_view& rest, char separator) {
    const std::size_t end = std::min(rest.find(separator), rest.size());
    const std::string_view taken = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return taken;
}

}  // namespace

std::string_view content_type(Exposition exposition) noexcept {
    return exposition == Exposition::open_metrics
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}

// RFC 9110, 12.5.1. Only version 1.0.0 of OpenMetrics is spoken, or none named.
Exposition accepted_exposition(std::string_view accept) noexcept {
    double open = 0;
    double text = 0;
    while (!accept.empty()) {
        std::string_view range = part(accept, ',');
        const std::string_view media = part(range, ';');
        double quality = 1;
        bool spoken = true;
        while (!range.empty()) {
            std::string_view value = part(range, ';');
            const std::string_view name = part(value, '=');
            if (name == "q") {
                quality = 0;
                std::from_chars(value.data(), value.data() + value.size(), quality);
            } else if (name == "version" && media == kOpenMetrics) {
                spoken = value == "1.0.0" || value == "\"1.0.0\"";
            }
        }
        if (media == kOpenMetrics && spoken) {
            open = std::max(open, quality);
        } else if (media == "text/plain" || media == "text/*" || media == "*/*") {
            text = std::max(text, quality);
        }
    }
    return open > 0 && open >= text ? Exposition::open_metrics : Exposition::text;
}

std::string escaped(std::string_view text, bool quotes) {
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
    std::array<char, 400> buffer{};  // the longest fixed double has 309 digits
    char* const end = buffer.data() + buffer.size();
    const auto shortest =
        std::to_chars(buffer.data(), end, value, std::chars_format::scientific).ptr;
    const std::string_view text(buffer.data(), static_cast<std::size_t>(shortest - buffer.data()));
    const int exponent = std::atoi(std::string(text.substr(text.find('e') + 1)).c_str());
    if (value != 0 && (exponent < kExponentMin || exponent >= kExponentMax)) {
        return std::string(text);
    }
    const auto fixed = std::to_chars(buffer.data(), end, value, std::chars_format::fixed).ptr;
    return {buffer.data(), fixed};
}

std::string Writer::bound(double value) const {
    std::string text = number(value);
    const bool whole = text.find_first_of(".eN") == std::string::npos;
    return open_ && whole && std::isfinite(value) ? text + ".0" : text;
}

void Writer::head(std::string_view name, std::string_view help, Type type) {
    std::string_view family = name;
    std::string_view shown = type_name(type);
    if (open_ && type == Type::counter) {
        if (name.ends_with(kTotal)) {
            family.remove_suffix(kTotal.size());
        } else {
            shown = "unknown";
        }
    }
    // OpenMetrics escapes quotes in help texts, the older format does not.
    out_.append("# HELP ").append(family).append(" ").append(escaped(help, open_)).append("\n");
    out_.append("# TYPE ").append(family).append(" ").append(shown).append("\n");
}

void Writer::sample(std::string_view name,
                    std::string_view suffix,
                    std::string_view labels,
                    std::string_view value) {
    out_.append(name).append(suffix);
    if (!labels.empty()) {
        out_.append("{").append(labels).append("}");
    }
    out_.append(" ").append(value).append("\n");
}

void Writer::series(std::string_view name, std::string_view labels, const Counter& value) {
    sample(name, "", labels, std::to_string(value.value()));
}

void Writer::series(std::string_view name, std::string_view labels, const FloatCounter& value) {
    sample(name, "", labels, number(value.value()));
}

void Writer::series(std::string_view name, std::string_view labels, const Gauge& value) {
    sample(name, "", labels, number(value.value()));
}

void Writer::series(std::string_view name, std::string_view labels, const Histogram& value) {
    const std::string prefix = labels.empty() ? std::string() : std::string(labels) + ",";
    std::uint64_t total = 0;
    for (std::size_t i = 0; i <= value.bounds().size(); ++i) {
        total += value.in_bucket(i);
        const std::string le = i < value.bounds().size() ? bound(value.bounds()[i]) : "+Inf";
        sample(name, "_bucket", prefix + "le=\"" + le + "\"", std::to_string(total));
    }
    sample(name, "_sum", labels, number(value.sum()));
    // equals the last bucket, always
    sample(name, "_count", labels, std::to_string(total));
}

std::string Writer::finish() {
    if (open_) {
        out_ += "# EOF\n";
    }
    return std::move(out_);
}

}  // namespace capstan::obs
