#include "runtime/obs/health.hpp"

#include "capstan/error.hpp"

#include <algorithm>
#include <set>

namespace capstan::obs {

namespace {

struct Options {
    bool verbose{false};
    std::set<std::string, std::less<>> excluded;
};

Options parse_options(std::string_view query) {
    Options options;
    while (!query.empty()) {
        const std::size_t end = std::min(query.find('&'), query.size());
        const std::string_view item = query.substr(0, end);
        query.remove_prefix(std::min(end + 1, query.size()));
        const std::size_t equals = std::min(item.find('='), item.size());
        const std::string_view key = item.substr(0, equals);
        if (key == "verbose") {
            options.verbose = true;
        }
        if (key == "exclude" && equals < item.size()) {
            options.excluded.emplace(item.substr(equals + 1));
        }
    }
    return options;
}

}  // namespace

void Health::add(std::string_view name, Probe probe, std::string_view reason) {
    const std::scoped_lock lock(mutex_);
    checks_.insert_or_assign(std::string(name),
                             Check{probe, false, std::string(reason.substr(0, kReasonBytesMax))});
}

void Health::ready(std::string_view name, std::string_view note) {
    const std::scoped_lock lock(mutex_);
    const auto it = checks_.find(name);
    CAPSTAN_CHECK(it != checks_.end(), name);
    it->second.ok = true;
    it->second.reason = note.substr(0, kReasonBytesMax);
}

void Health::not_ready(std::string_view name, std::string_view reason) {
    const std::scoped_lock lock(mutex_);
    const auto it = checks_.find(name);
    CAPSTAN_CHECK(it != checks_.end(), name);
    it->second.ok = false;
    it->second.reason = reason.substr(0, kReasonBytesMax);
}

void Health::remove(std::string_view name) {
    const std::scoped_lock lock(mutex_);
    if (const auto it = checks_.find(name); it != checks_.end()) {
        checks_.erase(it);
    }
}

bool Health::is_ready() const {
    const std::scoped_lock lock(mutex_);
    return std::all_of(
        checks_.begin(), checks_.end(), [](const auto& entry) { return entry.second.ok; });
}

std::vector<std::string> Health::reasons() const {
    const std::scoped_lock lock(mutex_);
    std::vector<std::string> result;
    for (const auto& [name, check] : checks_) {
        if (!check.ok) {
            result.push_back(name + ": " + check.reason);
        }
    }
    return result;
}

// Requires: mutex_ is held.
std::string Health::unknown_check(std::string_view wanted) const {
    constexpr std::string_view kPlugin = "plugin/";
    const bool plugin = wanted.starts_with(kPlugin);
    std::string others;
    for (const auto& [name, check] : checks_) {
        if (plugin == name.starts_with(kPlugin)) {
            others += (others.empty() ? "" : ", ") + name.substr(plugin ? kPlugin.size() : 0);
        }
    }
    std::string text = "no check named \"" + std::string(wanted) + "\"";
    text += plugin ? ": that plugin is not loaded; loaded: " : "; there is: ";
    return text + (others.empty() ? "none" : others) + "\n";
}

Health::Answer Health::render(Probe probe, std::string_view only, std::string_view query) const {
    const std::string word = probe == Probe::healthz ? "healthz" : "readyz";
    const Options options = parse_options(query);
    const std::scoped_lock lock(mutex_);
    std::string lines;
    bool failed = false;
    std::set<std::string, std::less<>> unknown = options.excluded;
    std::size_t shown = 0;
    for (const auto& [name, check] : checks_) {
        const bool of_probe = probe == Probe::readyz || check.probe == Probe::healthz;
        if (!of_probe || (!only.empty() && name != only)) {
            continue;
        }
        ++shown;
        if (unknown.erase(name) != 0) {
            lines += "[+]" + name + " excluded: ok\n";
        } else if (check.ok) {
            lines += "[+]" + name + " ok" +
                     (check.reason.empty() ? "" : " (" + check.reason + ")") + "\n";
        } else {
            failed = true;
            lines += "[-]" + name + " failed: " + check.reason + "\n";
        }
    }
    if (!only.empty() && only != "ping" && shown == 0) {
        return {404, unknown_check(only)};
    }
    if (shown == 0) {
        lines += "[+]ping ok\n";
    }
    if (!failed && !options.verbose) {
        return {200, "ok"};
    }
    for (const std::string& name : unknown) {
        lines += "warn: excluded check \"" + name + "\" does not exist\n";
    }
    lines += word + (failed ? " check failed\n" : " check passed\n");
    return {failed ? 500 : 200, std::move(lines)};
}

}  // namespace capstan::obs
