// Feature gates out of a manifest: their histories, read and checked alone and among each other.
#include "runtime/plugin/gates.hpp"

#include <algorithm>
#include <functional>
#include <map>

namespace capstan::plugin {

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
            } else if (member.key == "whenOff") {
                read_note(member.value, at, entry.when_off);
            } else {
                problems_.add(at,
                              "unknown member; known are since, stage, default, locked, minCompat, "
                              "dependsOn, whenOff");
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
    void read_note(const json::Value& value, const std::string& at, std::string& out) {
        const std::string* text = value.if_string();
        if (text == nullptr || text->empty() || text->size() > kWhenOffBytesMax) {
            problems_.add(
                at,
                "expected a sentence of at most " + std::to_string(kWhenOffBytesMax) + " bytes");
            return;
        }
        out = *text;
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
    const GateEntry* there = other->at(entry.since);
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

}  // namespace capstan::plugin
