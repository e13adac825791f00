// Feature gates of one plugin, under component-base's rules.
//
// A manifest lists for each gate what it is from which version of the plugin on; a version and the
// operator's overrides give one frozen set. Thread: any (values). Source:
// k8s.io/component-base/featuregate, KEP-4330 (emulation version).
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::plugin {

inline constexpr std::size_t kGatesMax = 128;       // per plugin
inline constexpr std::size_t kGateHistoryMax = 16;  // entries per gate
inline constexpr std::size_t kWhenOffBytesMax = 256;
// collected per document; further ones are dropped
inline constexpr std::size_t kProblemsMax = 64;

// "1.4.0", "1.4": missing parts are 0. A pre-release or build suffix is kept out of the comparison.
struct Version {
    std::uint32_t major{0}, minor{0}, patch{0};
    std::string to_string() const;
    static Result<Version> parse(std::string_view text);
    auto operator<=>(const Version&) const = default;
};

// Collects sentences that begin with a JSON pointer: "/featureGates/X/1/stage: …". The whole
// document has no pointer.
class Problems {
public:
    void add(std::string_view path, std::string_view what);
    void append(const Problems& more);
    bool empty() const noexcept { return lines_.empty(); }
    const std::vector<std::string>& lines() const noexcept { return lines_; }

private:
    std::vector<std::string> lines_;
};

enum class Stage : std::uint8_t { alpha, beta, ga, deprecated, removed };
std::string_view to_string(Stage stage) noexcept;  // "Alpha"

struct GateEntry {
    Version since;
    Stage stage{Stage::alpha};
    bool on_by_default{false};
    // the default cannot be overridden; always so for GA with "locked" and for Removed
    bool locked{false};
    std::optional<Version> min_compat;
    std::vector<std::string> depends_on;
    std::string when_off;  // what is not done then, for people; "" when there is nothing to say
};

struct Gate {
    std::string name;
    std::vector<GateEntry> history;  // rising `since`

    const GateEntry* at(const Version& version) const noexcept;  // nullptr: younger than that
};
const Gate* find_gate(const std::vector<Gate>& gates, std::string_view name) noexcept;

struct GateOverride {
    std::string name;  // a gate, "AllAlpha" or "AllBeta"
    bool enabled{false};
};

// One frozen answer per gate. Sorted by name.
class GateSet {
public:
    // nullopt: not in the manifest (or younger than the version the set was made for).
    std::optional<bool> enabled(std::string_view name) const noexcept;
    const std::vector<std::pair<std::string, bool>>& values() const noexcept { return values_; }
    void set(std::string_view name, bool value);

private:
    std::vector<std::pair<std::string, bool>> values_;
};

struct GateResult {
    // defaults and the valid overrides; unusable when errors is not empty
    GateSet set;
    // unknown gate (with the known ones), locked gate, unmet dependency
    std::vector<std::string> errors;
    std::vector<std::string> warnings;  // removed, deprecated or GA gate set
};

class GateTable {
public:
    // `tree`: the manifest's "featureGates". Refused, all at once into `problems`: falling
    // versions, stage regression, unlocking, alpha on by default, unknown or circular dependencies,
    // dependence on a lower stage or default.
    static GateTable parse(const json::Value& tree, std::string_view path, Problems& problems);

    const std::vector<Gate>& gates() const noexcept { return gates_; }
    // What holds when the plugin behaves as `version`. AllAlpha and AllBeta apply to
    // gates not named themselves.
    GateResult effective(const Version& version,
                         const std::vector<GateOverride>& overrides = {}) const;
    // "gate X is off: …" for each gate that is off in `set` and says what that means.
    std::vector<std::string> off_notes(const Version& version, const GateSet& set) const;

private:
    std::vector<Gate> gates_;  // sorted by name
};

}  // namespace capstan::plugin
