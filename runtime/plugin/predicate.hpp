// Predicates: which event of a watched object wakes the plugin. Data in the manifest,
// evaluated by the host.
//
// A JSON tree is compiled once into a flat program with split pointers; evaluating allocates
// nothing but the texts of `concat`. The grammar is in docs/plugin-guide.md. Predicates fail open:
// an error while evaluating (a failed conversion, operands that cannot be ordered, more than
// kAnyItemItemsMax items) makes the whole predicate true and is reported, because a spurious
// reconcile is cheap and a lost event is a stuck object.
//
// "The object" is the new one; on delete, the old one. `exists`, `absent`, `annotation`, `owned`,
// `condition`, `deleting`, `labels` without "of", `anyItem`, `len` and `owner` look at it. {"new":
// …} and {"old": …} do not switch. Transition atoms (`changed`, `labelsChanged`, …) compare old and
// new with "absent" as a value.
// Thread: any; compiled predicates are immutable and shared by copies.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "runtime/plugin/gates.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::plugin {

inline constexpr std::size_t kPredicateNodesMax = 64;      // after "use" is expanded
inline constexpr std::size_t kPredicateDepthMax = 8;       // nesting of predicates
inline constexpr std::size_t kPredicateOperandsMax = 128;  // operands and list literals
inline constexpr std::size_t kOperandDepthMax = 4;         // concat in diff in …
inline constexpr std::size_t kAnyItemItemsMax = 1000;
inline constexpr std::size_t kPointerTokensMax = 32;

enum class EventType : std::uint8_t {
    create,  // old is absent
    update,
    removal,  // "delete" in the grammar; new is absent
    resync,   // replay of the cache: old and new are the cached object
    // queue, timer, configuration or gate change: old and new are the cached object, or absent
    external,
};
std::string_view to_string(EventType type) noexcept;  // "create", "delete", …

// Borrowed for one evaluation.
struct EventView {
    EventType type{EventType::update};
    const json::Value* old_object{nullptr};  // nullptr: absent
    const json::Value* new_object{nullptr};
    // the plugin's own configuration; nullptr: everything absent
    const json::Value* config{nullptr};
    const GateSet* gates{nullptr};  // nullptr: every gate off
};

struct Verdict {
    bool pass{true};
    bool error{false};  // failed open; to be counted
    // not suppressible: deletion starts of an object that carries one of the plugin's finalizers
    bool forced{false};
};

struct PredicateContext {
    const json::Value* named{nullptr};  // the manifest's "predicates"; nullptr: none
    const GateTable* gates{nullptr};    // {"gate": NAME} must be one of these; nullptr: not checked
    const std::vector<std::string>* finalizers{nullptr};  // the manifest's "finalizers"; copied
};

class Predicate {
public:
    struct Program;  // internal

    Predicate();  // passes everything
    // `path`: where `tree` stands in the manifest; every problem begins with it. On problems the
    // result passes everything.
    static Predicate compile(const json::Value& tree,
                             const PredicateContext& context,
                             std::string_view path,
                             Problems& problems);

    Verdict evaluate(const EventView& event) const;

    // Pointers of at most two tokens to all of an object that evaluate() may look at, sorted and
    // unique; "" is everything. An object without the rest gives the same verdict.
    std::vector<std::string> looks_at() const;

    std::size_t node_count() const noexcept;

private:
    // shared because copies of a watch share it; immutable
    std::shared_ptr<const Program> program_;
};

}  // namespace capstan::plugin
