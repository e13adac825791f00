// Rules of custom resources (x-kubernetes-validations): a strict subset of CEL, the Common
// Expression Language.
//
// A rule comes from a CRD and the values from a client, so neither may cost more than a bounded
// amount: a rule is parsed into a limited tree, its names and types are checked against the schema,
// and every step of an evaluation is paid for. There: everything in docs/cel.md. Not there:
// unsigned numbers, bytes, messages, quantities, IP addresses; a rule that uses them is refused.
// Source of the rules: the CEL language definition and its Kubernetes extensions.
// Thread: any once compiled; evaluate() keeps no state.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "runtime/local/cel/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace capstan::local::cel {

inline constexpr std::size_t kRuleBytesMax = 16 * 1024;
inline constexpr std::size_t kRuleNodesMax = 5'000;
inline constexpr std::size_t kRuleDepthMax = 150;             // nested expressions
inline constexpr std::uint64_t kRuleStepsMax = 1'000'000;     // one rule on one value
inline constexpr std::uint64_t kObjectStepsMax = 10'000'000;  // all rules on one object

// What a rule may name besides its own variables. Borrowed; outlive the Program.
struct Environment {
    const Shape* self{nullptr};  // nullptr: anything
    bool optional_old{false};    // oldSelf is an optional value, also when there is none
};

// The values of one evaluation. Borrowed.
struct Variables {
    const json::Value* self{nullptr};
    const json::Value* old{nullptr};  // nullptr: none; a rule that uses oldSelf is then not asked
};

struct Budget {
    std::uint64_t steps{kRuleStepsMax};  // what is left
};

// What an evaluation ends with when no value comes out of it.
inline constexpr std::string_view kCostExceeded = "operation cancelled: actual cost limit exceeded";

class Program {
public:
    // `result`: what the expression must yield, boolean for a rule, string for a message.
    // Errors: invalid ("offset 12: undeclared reference to 'foo'"), too_large.
    static Result<Program> compile(std::string_view text,
                                   const Environment& environment,
                                   ShapeKind result = ShapeKind::boolean);
    Program(Program&&) noexcept;
    Program& operator=(Program&&) noexcept;
    ~Program();

    bool uses_old() const noexcept;

    // Takes what it cost from `budget`. Times and durations come out as text, a type as its name.
    // Errors: invalid ("no such key: x", "integer overflow", "division by zero"), too_large
    // (kCostExceeded: the budget is used up).
    Result<json::Value> evaluate(const Variables& variables, Budget& budget) const;

private:
    struct Parts;
    explicit Program(std::unique_ptr<const Parts> parts);
    std::unique_ptr<const Parts> parts_;
};

}  // namespace capstan::local::cel
