// The compiled form of a predicate. Internal to predicate_compile.cpp and predicate_run.cpp.
#pragma once

#include "capstan/label_selector.hpp"
#include "runtime/plugin/operand_value.hpp"
#include "runtime/plugin/predicate.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace capstan::plugin {

struct PointerToken {
    std::string key;
    std::optional<std::size_t> index;  // when the token may name an array item
};

struct SplitPointer {
    std::string text;
    std::vector<PointerToken> tokens;
};

// nullopt: malformed or longer than kPointerTokensMax.
std::optional<SplitPointer> split_pointer(std::string_view text);
// nullptr: absent (null counts as absent).
const json::Value* resolve(std::span<const PointerToken> tokens, const json::Value* root) noexcept;

enum class Op : std::uint8_t {
    always,
    never,
    all,
    any,
    negate,
    by_event,
    generation_changed,
    deletion_started,
    deleting,
    changed,
    labels_changed,
    annotations_changed,
    exists,
    absent,
    labels,
    annotation,
    owned,
    condition,
    eq,
    ne,
    lt,
    le,
    gt,
    ge,
    in,
    prefix,
    suffix,
    crosses,
    any_item,
};

enum class Side : std::uint8_t { subject, new_object, old_object, either };
enum class Direction : std::uint8_t { up, down, either };

// `first`, `count` index the list named in the comment.
struct Node {
    Op op{Op::never};
    std::uint16_t first{0};
    std::uint16_t count{0};
    std::uint16_t extra{0};
    Side side{Side::subject};
    Direction direction{Direction::either};
    // all any negate: children · by_event: 5 children, by EventType · changed: pointers, then
    // `extra` ignored ones exists absent: one pointer · labels_changed annotations_changed:
    // texts · labels: selector `first` annotation: texts: key, values…; `extra` 1: any value ·
    // owned: owner `first` · condition: condition `first` eq…ge: 2 operands · in: 1 + n
    // operands · prefix suffix: 2 operands · crosses: old, new, bound operands any_item:
    // pointer `first`, child node `extra`
};

struct OwnerMatch {
    std::string kind, api_version;  // empty: any
    std::optional<bool> controller;
};

struct ConditionMatch {
    std::string type, status;  // status empty: any
    bool changed{false};
};

enum class Source : std::uint8_t {
    literal,
    new_object,
    old_object,
    item,
    config,
    gate,
    owner,
    concat,
    diff,
    length
};

struct Operand {
    Source source{Source::literal};
    As as{As::none};
    // pointer, text (gate), owner, or the first of `count` operand references
    std::uint16_t first{0};
    std::uint16_t count{0};
    json::Value literal;    // also the default of a reference; null: none
    OperandValue constant;  // `literal` converted; borrows from it (a Program never moves)
};

struct Predicate::Program {
    std::vector<Node> nodes;
    std::vector<std::uint16_t> children;  // node indexes
    std::vector<Operand> operands;
    std::vector<std::uint16_t> arguments;  // operand indexes
    std::vector<SplitPointer> pointers;
    std::vector<std::string> texts;
    std::vector<LabelSelector> selectors;
    std::vector<OwnerMatch> owners;
    std::vector<ConditionMatch> conditions;
    std::vector<std::string> finalizers;
    std::uint16_t root{0};
};

}  // namespace capstan::plugin
