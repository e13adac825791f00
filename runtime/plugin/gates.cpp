// Versions, problems, and which gates hold. Reading gates from a manifest: gates_parse.cpp.
#include "runtime/plugin/gates.hpp"

#include <algorithm>
#include <charconv>

namespace capstan::plugin {

Result<Version> Version::parse(std::string_view text) {
    std::uint32_t parts[3] = {0, 0, 0};
    const std::string_view core = text.substr(0, text.find_first_of("-+"));
    const char* at = core.data();
    const char* end = core.data() + core.size();
    for (int i = 0; i < 3; ++i) {
        const auto [next, error] = std::from_chars(at, end, parts[i]);
        if (error != std::errc{}) {
            return fail(Code::invalid,
                        "\"" + std::string(text) + "\" is no version like \"1.4.0\"");
        }
        at = next;
        if (at == end) {
            return Version{parts[0], parts[1], parts[2]};
        }
        if (*at != '.') {
            break;
        }
        ++at;
    }
    return fail(Code::invalid, "\"" + std::string(text) + "\" is no version like \"1.4.0\"");
}

std::string Version::to_string() const {
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

void Problems::add(std::string_view path, std::string_view what) {
    if (lines_.size() < kProblemsMax) {
        lines_.push_back(path.empty() ? std::string(what)
                                      : std::string(path) + ": " + std::string(what));
    }
}

void Problems::append(const Problems& more) {
    for (const std::string& line : more.lines_) {
        if (lines_.size() < kProblemsMax) {
            lines_.push_back(line);
        }
    }
}

std::string_view to_string(Stage stage) noexcept {
    switch (stage) {
        case Stage::alpha: return "Alpha";
        case Stage::beta: return "Beta";
        case Stage::ga: return "GA";
        case Stage::deprecated: return "Deprecated";
        case Stage::removed: return "Removed";
    }
    return "";
}

std::optional<bool> GateSet::enabled(std::string_view name) const noexcept {
    const auto at = std::lower_bound(
        values_.begin(), values_.end(), name, [](const auto& pair, std::string_view key) {
            return pair.first < key;
        });
    if (at == values_.end() || at->first != name) {
        return std::nullopt;
    }
    return at->second;
}

void GateSet::set(std::string_view name, bool value) {
    const auto at = std::lower_bound(
        values_.begin(), values_.end(), name, [](const auto& pair, std::string_view key) {
            return pair.first < key;
        });
    if (at != values_.end() && at->first == name) {
        at->second = value;
    } else {
        values_.insert(at, {std::string(name), value});
    }
}

const GateEntry* Gate::at(const Version& version) const noexcept {
    const GateEntry* found = nullptr;
    for (const GateEntry& entry : history) {
        if (entry.since <= version) {
            found = &entry;
        }
    }
    return found;
}

const Gate* find_gate(const std::vector<Gate>& gates, std::string_view name) noexcept {
    const auto at = std::find_if(
        gates.begin(), gates.end(), [name](const Gate& gate) { return gate.name == name; });
    return at == gates.end() ? nullptr : &*at;
}

namespace {

std::string known_names(const std::vector<Gate>& gates) {
    std::string names;
    for (const Gate& gate : gates) {
        names += (names.empty() ? "" : ", ") + gate.name;
    }
    return names.empty() ? "this plugin has none" : "known are " + names;
}

void apply_override(const std::vector<Gate>& gates,
                    const Version& version,
                    const GateOverride& wanted,
                    GateResult& result) {
    const Gate* gate = find_gate(gates, wanted.name);
    const GateEntry* entry = gate != nullptr ? gate->at(version) : nullptr;
    if (entry == nullptr) {
        result.errors.push_back("unknown feature gate " + wanted.name + "; " + known_names(gates));
        return;
    }
    if (entry->stage == Stage::removed) {
        result.warnings.push_back("feature gate " + wanted.name +
                                  " was removed and does nothing any more");
        return;
    }
    if (entry->locked && wanted.enabled != entry->on_by_default) {
        result.errors.push_back("feature gate " + wanted.name + " is locked to " +
                                (entry->on_by_default ? "true" : "false"));
        return;
    }
    if (entry->stage == Stage::ga || entry->stage == Stage::deprecated) {
        result.warnings.push_back("feature gate " + wanted.name + " is " +
                                  std::string(to_string(entry->stage)) +
                                  " and will be removed; do not set it");
    }
    result.set.set(wanted.name, wanted.enabled);
}

// AllAlpha and AllBeta, for the gates without an override of their own.
void apply_stage_override(const std::vector<Gate>& gates,
                          const Version& version,
                          Stage stage,
                          bool enabled,
                          const std::vector<GateOverride>& overrides,
                          GateResult& result) {
    for (const Gate& gate : gates) {
        const GateEntry* entry = gate.at(version);
        const bool named =
            std::any_of(overrides.begin(), overrides.end(), [&gate](const GateOverride& o) {
                return o.name == gate.name;
            });
        if (entry != nullptr && entry->stage == stage && !named) {
            result.set.set(gate.name, enabled);
        }
    }
}

}  // namespace

std::vector<std::string> GateTable::off_notes(const Version& version, const GateSet& set) const {
    std::vector<std::string> notes;
    for (const Gate& gate : gates_) {
        const GateEntry* entry = gate.at(version);
        if (entry != nullptr && !entry->when_off.empty() &&
            !set.enabled(gate.name).value_or(true)) {
            notes.push_back("gate " + gate.name + " is off: " + entry->when_off);
        }
    }
    return notes;
}

GateResult GateTable::effective(const Version& version,
                                const std::vector<GateOverride>& overrides) const {
    GateResult result;
    for (const Gate& gate : gates_) {
        if (const GateEntry* entry = gate.at(version)) {
            result.set.set(gate.name, entry->on_by_default);
        }
    }
    for (const GateOverride& wanted : overrides) {
        if (wanted.name == "AllAlpha" || wanted.name == "AllBeta") {
            apply_stage_override(gates_,
                                 version,
                                 wanted.name == "AllAlpha" ? Stage::alpha : Stage::beta,
                                 wanted.enabled,
                                 overrides,
                                 result);
        } else {
            apply_override(gates_, version, wanted, result);
        }
    }
    for (const Gate& gate : gates_) {
        const GateEntry* entry = gate.at(version);
        if (entry == nullptr || !result.set.enabled(gate.name).value_or(false)) {
            continue;
        }
        for (const std::string& needed : entry->depends_on) {
            if (!result.set.enabled(needed).value_or(false)) {
                result.errors.push_back("feature gate " + gate.name + " is on and needs " + needed +
                                        ", which is off");
            }
        }
    }
    return result;
}

}  // namespace capstan::plugin
