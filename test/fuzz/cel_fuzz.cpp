// A rule of a CRD and the object of a client: bounded work whatever they are, the same answer each
// time, and none that depends on brackets around the rule. Input: rule, a zero byte, object (JSON),
// a zero byte, the object before.
#include "runtime/local/cel/cel.hpp"
#include "test/fuzz/fuzz.hpp"

#include <algorithm>
#include <string>

namespace {

namespace cel = capstan::local::cel;
namespace json = capstan::json;
using capstan::fuzz::require;

constexpr std::uint64_t kStepsMax = 20'000;

std::string_view take(std::string_view& input) {
    const std::string_view part = input.substr(0, input.find('\0'));
    input.remove_prefix(std::min(part.size() + 1, input.size()));
    return part;
}

// What the object shows, with the kinds that change how a value is read.
cel::Shape shape_of(const json::Value& value, std::size_t depth) {
    cel::Shape shape;
    if (const json::Object* object = value.if_object(); object != nullptr && depth < 8) {
        shape.kind = cel::ShapeKind::object;
        for (const json::Member& member : *object) {
            shape.fields.push_back(
                {member.key, std::make_unique<cel::Shape>(shape_of(member.value, depth + 1))});
        }
    } else if (const json::Array* array = value.if_array(); array != nullptr) {
        static constexpr cel::ShapeKind kKinds[] = {
            cel::ShapeKind::list, cel::ShapeKind::set, cel::ShapeKind::map_list};
        shape.kind = kKinds[array->size() % 3];
        shape.keys = {"name"};
        shape.of = std::make_unique<cel::Shape>();
    } else if (value.is_string()) {
        static constexpr cel::ShapeKind kKinds[] = {
            cel::ShapeKind::string, cel::ShapeKind::duration, cel::ShapeKind::timestamp};
        shape.kind = kKinds[value.if_string()->size() % 3];
    } else if (value.if_int() != nullptr) {
        shape.kind = *value.if_int() % 2 == 0 ? cel::ShapeKind::integer : cel::ShapeKind::real;
    }
    return shape;
}

std::string answer(const cel::Program& program, const cel::Variables& variables) {
    cel::Budget budget{kStepsMax};
    const auto result = program.evaluate(variables, budget);
    require(budget.steps <= kStepsMax, "an evaluation only takes from its budget");
    if (!result) {
        require(!result.error().message.empty(), "an error says what it is");
        return "error: " + result.error().message;
    }
    return json::dump(result.value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string_view input(reinterpret_cast<const char*>(data), size);
    const std::string rule(take(input));
    const auto self = json::parse(take(input));
    const auto old = json::parse(input);
    const json::Value none;
    const cel::Variables variables{self ? &self.value() : &none, old ? &old.value() : nullptr};
    const cel::Shape shape = shape_of(*variables.self, 0);
    for (const bool typed : {false, true}) {
        const cel::Environment environment{typed ? &shape : nullptr, rule.size() % 2 == 1};
        const auto program = cel::Program::compile(rule, environment, cel::ShapeKind::dyn);
        if (!program) {
            require(!program.error().message.empty(), "a refusal says why");
            continue;
        }
        const std::string first = answer(program.value(), variables);
        require(answer(program.value(), variables) == first, "the same again");
        if (const auto wrapped =
                cel::Program::compile("(" + rule + "\n)", environment, cel::ShapeKind::dyn)) {
            require(answer(wrapped.value(), variables) == first, "brackets change nothing");
        }
    }
    return 0;
}
