#include "runtime/plugin/gates.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

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

namespace {

constexpr Stage kStages[] = {
    Stage::alpha, Stage::beta, Stage::ga, Stage::deprecated, Stage::removed};

bool is_gate_name(std::string_view name) noexcept {
    return !name.empty() && name.size() <= 63 && name.front() >= 'A' && name.front() <= 'Z' &&
           std::all_of(name.begin(), name.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
           });
}

class EntryReader {
public:
    EntryReader(const json::Value& tree, std::string path, Problems& problems)
        : tree_(tree), path_(std::move(path)), problems_(problems) {}

    GateEntry read() {
        GateEntry entry;
        if (!tree_.is_object()) {
            problems_.add(path_, "expected an object");
            return entry;
        }
        bool has_since = false, has_stage = false, has_default = false;
        for (const json::Member& member : *tree_.if_object()) {
            const std::string at = path_ + "/" + json::escape_pointer_token(member.key);
            if (member.key == "since") {
                has_since = read_version(member.value, at, entry.since);
            } else if (member.key == "stage") {
                has_stage = read_stage(member.value, at, entry.stage);
            } else if (member.key == "default") {
                has_default = read_bool(member.value, at, entry.on_by_default);
            } else if (member.key == "locked") {
                read_bool(member.value, at, entry.locked);
            } else if (member.key == "minCompat") {
                entry.min_compat.emplace();
                read_version(member.value, at, *entry.min_compat);
            } else if (member.key == "dependsOn") {
                read_names(member.value, at, entry.depends_on);
            } else {
                problems_.add(at,
                              "unknown member; known are since, stage, default, locked, minCompat, "
                              "dependsOn");
            }
        }
        if (!has_since || !has_stage || !has_default) {
            problems_.add(path_, "needs \"since\", \"stage\" and \"default\"");
        }
        if (entry.stage == Stage::removed) {
            entry.locked = true;
        }
        return entry;
    }

private:
    bool read_version(const json::Value& value, const std::string& at, Version& out) {
        const std::string* text = value.if_string();
        const Result<Version> parsed =
            Version::parse(text != nullptr ? std::string_view(*text) : "");
        if (!parsed) {
            problems_.add(at,
                          text != nullptr ? parsed.error().message : "expected a version string");
            return true;  // reported already
        }
        out = parsed.value();
        return true;
    }
    bool read_stage(const json::Value& value, const std::string& at, Stage& out) {
        for (const Stage stage : kStages) {
            if (value.if_string() != nullptr && *value.if_string() == to_string(stage)) {
                out = stage;
                return true;
            }
        }
        problems_.add(at, "expected Alpha, Beta, GA, Deprecated or Removed");
        return true;
    }
    bool read_bool(const json::Value& value, const std::string& at, bool& out) {
        if (value.if_bool() == nullptr) {
            problems_.add(at, "expected true or false");
        } else {
            out = *value.if_bool();
        }
        return true;
    }
    void read_names(const json::Value& value,
                    const std::string& at,
                    std::vector<std::string>& out) {
        if (!value.is_array() || value.if_array()->size() > kGatesMax) {
            problems_.add(at, "expected a list of gate names");
            return;
        }
        for (const json::Value& item : *value.if_array()) {
            if (item.if_string() == nullptr) {
                problems_.add(at, "expected a list of gate names");
                return;
            }
            out.push_back(*item.if_string());
        }
    }

    const json::Value& tree_;
    std::string path_;
    Problems& problems_;
};

void check_history(const Gate& gate, const std::string& path, Problems& problems) {
    for (std::size_t i = 0; i < gate.history.size(); ++i) {
        const GateEntry& entry = gate.history[i];
        const std::string at = path + "/" + std::to_string(i);
        if (entry.stage == Stage::alpha && entry.on_by_default) {
            problems.add(at + "/default", "an Alpha gate is off by default");
        }
        if (entry.locked && entry.stage != Stage::ga && entry.stage != Stage::deprecated &&
            entry.stage != Stage::removed) {
            problems.add(at + "/locked", "only GA, Deprecated and Removed gates are locked");
        }
        if (i == 0) {
            continue;
        }
        const GateEntry& before = gate.history[i - 1];
        if (entry.since <= before.since) {
            problems.add(at + "/since", "versions must rise");
        }
        if (entry.stage < before.stage) {
            problems.add(
                at + "/stage",
                "a stage never goes back (" + std::string(to_string(before.stage)) + " before)");
        }
        if (before.locked && (!entry.locked || entry.on_by_default != before.on_by_default) &&
            entry.stage != Stage::removed) {
            problems.add(at + "/locked", "a locked gate is never unlocked or turned over");
        }
    }
}

const Gate* find_gate(const std::vector<Gate>& gates, std::string_view name) noexcept {
    const auto at = std::find_if(
        gates.begin(), gates.end(), [name](const Gate& gate) { return gate.name == name; });
    return at == gates.end() ? nullptr : &*at;
}

const GateEntry* entry_at(const Gate& gate, const Version& version) noexcept {
    const GateEntry* found = nullptr;
    for (const GateEntry& entry : gate.history) {
        if (entry.since <= version) {
            found = &entry;
        }
    }
    return found;
}

void check_dependency(const std::vector<Gate>& gates,
                      const GateEntry& entry,
                      const std::string& needed,
                      const std::string& at,
                      Problems& problems) {
    const Gate* other = find_gate(gates, needed);
    if (other == nullptr) {
        problems.add(at, "depends on the unknown gate " + needed);
        return;
    }
    const GateEntry* there = entry_at(*other, entry.since);
    if (there == nullptr) {
        problems.add(at, "depends on " + needed + ", which is younger");
    } else if (there->stage < entry.stage) {
        problems.add(at, "depends on " + needed + ", which has a lower stage");
    } else if (entry.on_by_default && !there->on_by_default) {
        problems.add(at, "is on by default and depends on " + needed + ", which is off");
    }
}

// Depth-first with three colours; the graph joins the dependencies of all versions.
void check_cycles(const std::vector<Gate>& gates, std::string_view path, Problems& problems) {
    std::map<std::string, int, std::less<>> colour;  // 1: on the way, 2: done
    const std::function<bool(const Gate&)> has_cycle = [&](const Gate& gate) {
        colour[gate.name] = 1;
        for (const GateEntry& entry : gate.history) {
            for (const std::string& needed : entry.depends_on) {
                const Gate* other = find_gate(gates, needed);
                if (other == nullptr || colour[needed] == 2) {
                    continue;
                }
                if (colour[needed] == 1 || has_cycle(*other)) {
                    return true;
                }
            }
        }
        colour[gate.name] = 2;
        return false;
    };
    for (const Gate& gate : gates) {
        if (colour[gate.name] == 0 && has_cycle(gate)) {
            problems.add(path, "the dependencies of gate " + gate.name + " form a circle");
            return;
        }
    }
}

std::string known_names(const std::vector<Gate>& gates) {
    std::string names;
    for (const Gate& gate : gates) {
        names += (names.empty() ? "" : ", ") + gate.name;
    }
    return names.empty() ? "this plugin has none" : "known are " + names;
}

}  // namespace

GateTable GateTable::parse(const json::Value& tree, std::string_view path, Problems& problems) {
    GateTable table;
    if (!tree.is_object() || tree.if_object()->size() > kGatesMax) {
        problems.add(path, "expected an object of at most 128 gates");
        return table;
    }
    for (const json::Member& member : *tree.if_object()) {
        const std::string at = std::string(path) + "/" + json::escape_pointer_token(member.key);
        if (!is_gate_name(member.key) || member.key == "AllAlpha" || member.key == "AllBeta") {
            problems.add(
                at, "a gate's name is TitleCase letters and digits, and not AllAlpha or AllBeta");
            continue;
        }
        if (!member.value.is_array() || member.value.if_array()->empty() ||
            member.value.if_array()->size() > kGateHistoryMax) {
            problems.add(at, "expected a list of 1 to 16 entries");
            continue;
        }
        Gate gate{member.key, {}};
        for (std::size_t i = 0; i < member.value.if_array()->size(); ++i) {
            gate.history.push_back(
                EntryReader((*member.value.if_array())[i], at + "/" + std::to_string(i), problems)
                    .read());
        }
        check_history(gate, at, problems);
        table.gates_.push_back(std::move(gate));
    }
    std::sort(table.gates_.begin(), table.gates_.end(), [](const Gate& a, const Gate& b) {
        return a.name < b.name;
    });
    for (const Gate& gate : table.gates_) {
        for (std::size_t i = 0; i < gate.history.size(); ++i) {
            for (const std::string& needed : gate.history[i].depends_on) {
                check_dependency(
                    table.gates_,
                    gate.history[i],
                    needed,
                    std::string(path) + "/" + gate.name + "/" + std::to_string(i) + "/dependsOn",
                    problems);
            }
        }
    }
    check_cycles(table.gates_, path, problems);
    return table;
}

namespace {

void apply_override(const std::vector<Gate>& gates,
                    const Version& version,
                    const GateOverride& wanted,
                    GateResult& result) {
    const Gate* gate = find_gate(gates, wanted.name);
    const GateEntry* entry = gate != nullptr ? entry_at(*gate, version) : nullptr;
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
        const GateEntry* entry = entry_at(gate, version);
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

GateResult GateTable::effective(const Version& version,
                                const std::vector<GateOverride>& overrides) const {
    GateResult result;
    for (const Gate& gate : gates_) {
        if (const GateEntry* entry = entry_at(gate, version)) {
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
        const GateEntry* entry = entry_at(gate, version);
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
