#include "runtime/local/cel/ast.hpp"

#include <algorithm>

namespace capstan::local::cel {

struct Program::Parts {
    Tree tree;
    const Shape* self;
    bool optional_old;
};

Program::Program(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;

bool Program::uses_old() const noexcept {
    return parts_->tree.uses_old;
}

Result<Program> Program::compile(std::string_view text,
                                 const Environment& environment,
                                 ShapeKind result) {
    CAPSTAN_TRY(auto tree, parse(text));
    CAPSTAN_TRY(check(tree, environment, result));
    const Shape* self = environment.self == nullptr ? &any_shape() : environment.self;
    return Program(
        std::make_unique<const Parts>(Parts{std::move(tree), self, environment.optional_old}));
}

Result<json::Value> Program::evaluate(const Variables& variables, Budget& budget) const {
    Meter meter(std::min(budget.steps, kRuleStepsMax));
    const std::uint64_t before = meter.left();
    const Value self =
        variables.self == nullptr ? Value() : Value::of(*variables.self, *parts_->self);
    Value old = Value::error("no such attribute(s): oldSelf");
    if (variables.old != nullptr) {
        old = Value::of(*variables.old, *parts_->self);
    }
    if (parts_->optional_old) {
        old = Value(Optional{old.is_error() ? nullptr : std::make_shared<const Value>(old)});
    }
    const Value value = cel::evaluate(parts_->tree, self, old, meter);
    json::Value out = value.is_error() ? json::Value() : to_json(value, meter);
    budget.steps -= before - meter.left();
    if (meter.exceeded()) {
        return fail(Code::too_large, std::string(kCostExceeded));
    }
    if (const Failed* failed = value.get_if<Failed>()) {
        return fail(failed->final ? Code::too_large : Code::invalid, *failed->message);
    }
    return out;
}

}  // namespace capstan::local::cel
