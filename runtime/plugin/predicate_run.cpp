// Evaluation of compiled predicates.
#include "runtime/plugin/predicate_compare.hpp"
#include "runtime/plugin/predicate_program.hpp"

#include <algorithm>

namespace capstan::plugin {

// One evaluation. Depth is bounded by kPredicateDepthMax and kOperandDepthMax.
class PredicateRun {
public:
    PredicateRun(const Predicate::Program& program, const EventView& event) noexcept
        : program_(program),
          event_(event),
          subject_(event.new_object != nullptr ? event.new_object : event.old_object) {}

    Verdict run() {
        Verdict verdict;
        verdict.forced = starts_deletion();
        const bool passed = verdict.forced || test(program_.nodes[program_.root]);
        verdict.error = failed_;
        verdict.pass = passed || failed_;
        return verdict;
    }

private:
    // A first sight of an object that is already being deleted counts: the event that started
    // it may have been missed.
    bool starts_deletion() const noexcept {
        if (event_.new_object == nullptr || !is_deleting(event_.new_object) ||
            is_deleting(event_.old_object)) {
            return false;
        }
        const json::Value* finalizers = metadata(event_.new_object, "finalizers");
        if (finalizers == nullptr || finalizers->if_array() == nullptr) {
            return false;
        }
        return std::any_of(finalizers->if_array()->begin(),
                           finalizers->if_array()->end(),
                           [&](const json::Value& f) {
                               return f.if_string() != nullptr &&
                                      std::find(program_.finalizers.begin(),
                                                program_.finalizers.end(),
                                                *f.if_string()) != program_.finalizers.end();
                           });
    }

    bool test(const Node& node) {
        if (failed_) {
            return true;
        }
        switch (node.op) {
            case Op::always: return true;
            case Op::never: return false;
            case Op::all: return test_all(node, true);
            case Op::any: return !test_all(node, false);
            case Op::negate: return !test(child(node, 0));
            case Op::by_event: return test(child(node, static_cast<std::uint16_t>(event_.type)));
            case Op::generation_changed:
                return (event_.old_object == nullptr) != (event_.new_object == nullptr) ||
                       differs(metadata(event_.old_object, "generation"),
                               metadata(event_.new_object, "generation"));
            case Op::deletion_started:
                return !is_deleting(event_.old_object) && is_deleting(event_.new_object);
            case Op::deleting: return is_deleting(subject_);
            case Op::changed: return test_changed(node);
            case Op::labels_changed: return test_map_changed(node, "labels");
            case Op::annotations_changed: return test_map_changed(node, "annotations");
            case Op::exists: return resolve(pointer(node.first), subject_) != nullptr;
            case Op::absent: return resolve(pointer(node.first), subject_) == nullptr;
            case Op::labels: return test_labels(node);
            case Op::annotation: return test_annotation(node);
            case Op::owned: return find_owner(subject_, program_.owners[node.first]) != nullptr;
            case Op::condition: return test_condition(program_.conditions[node.first]);
            case Op::any_item: return test_any_item(node);
            case Op::crosses: return test_crosses(node);
            case Op::in: return test_in(node);
            case Op::prefix:
            case Op::suffix: return test_affix(node);
            default: return test_comparison(node);
        }
    }

    const Node& child(const Node& node, std::uint16_t i) const {
        return program_.nodes[program_.children[node.first + i]];
    }
    Tokens pointer(std::size_t index) const { return program_.pointers[index].tokens; }
    const Operand& operand(const Node& node, std::uint16_t i) const {
        return program_.operands[program_.arguments[node.first + i]];
    }

    // True when every child tests as `wanted`.
    bool test_all(const Node& node, bool wanted) {
        for (std::uint16_t i = 0; i < node.count; ++i) {
            if (test(child(node, i)) != wanted) {
                return false;
            }
        }
        return true;
    }

    bool test_changed(const Node& node) const {
        for (std::uint16_t i = 0; i < node.count; ++i) {
            const Tokens base = pointer(node.first + i);
            TokenLists ignored;
            for (std::uint16_t k = 0; k < node.extra; ++k) {
                const Tokens other = pointer(node.first + node.count + k);
                const bool inside = other.size() > base.size() &&
                                    std::equal(base.begin(),
                                               base.end(),
                                               other.begin(),
                                               [](const PointerToken& a, const PointerToken& b) {
                                                   return a.key == b.key;
                                               });
                if (inside) {
                    ignored.push_back(other.subspan(base.size()));
                }
            }
            if (differs_except(
                    resolve(base, event_.old_object), resolve(base, event_.new_object), ignored)) {
                return true;
            }
        }
        return false;
    }

    bool test_map_changed(const Node& node, std::string_view map) const {
        return map_changed(metadata(event_.old_object, map),
                           metadata(event_.new_object, map),
                           std::span(program_.texts).subspan(node.first, node.count));
    }

    bool test_labels(const Node& node) const {
        const LabelSelector& selector = program_.selectors[node.first];
        const auto matches = [&](const json::Value* object) {
            return object != nullptr && selector.matches(metadata(object, "labels"));
        };
        switch (node.side) {
            case Side::new_object: return matches(event_.new_object);
            case Side::old_object: return matches(event_.old_object);
            case Side::either: return matches(event_.new_object) || matches(event_.old_object);
            case Side::subject: break;
        }
        return matches(subject_);
    }

    bool test_annotation(const Node& node) const {
        const json::Value* value =
            member(metadata(subject_, "annotations"), program_.texts[node.first]);
        if (value == nullptr || node.extra == 1) {
            return value != nullptr;
        }
        for (std::uint16_t i = 1; i < node.count; ++i) {
            if (is_text(value, program_.texts[node.first + i])) {
                return true;
            }
        }
        return false;
    }

    bool test_condition(const ConditionMatch& match) const {
        const json::Value* status = condition_status(subject_, match.type);
        if (match.changed && !differs(condition_status(event_.old_object, match.type),
                                      condition_status(event_.new_object, match.type))) {
            return false;
        }
        if (match.status.empty()) {
            return match.changed || status != nullptr;
        }
        return is_text(status, match.status);
    }

    bool test_any_item(const Node& node) {
        const json::Value* list = resolve(pointer(node.first), subject_);
        if (list == nullptr) {
            return false;
        }
        const json::Array* items = list->if_array();
        if (items == nullptr || items->size() > kAnyItemItemsMax) {
            return fail_open();
        }
        for (const json::Value& item : *items) {
            item_ = &item;
            const bool matched = test(program_.nodes[node.extra]);
            item_ = nullptr;
            if (matched) {
                return true;
            }
        }
        return false;
    }

    bool test_crosses(const Node& node) {
        const OperandValue before = value(operand(node, 0));
        const OperandValue after = value(operand(node, 1));
        const OperandValue bound = value(operand(node, 2));
        if (is_absent(before) || is_absent(after) || is_absent(bound) || failed_) {
            return failed_;
        }
        const auto was = order(before, bound);
        const auto is = order(after, bound);
        if (!was || !is) {
            return fail_open();
        }
        const bool up = *was < 0 && *is >= 0;
        const bool down = *was >= 0 && *is < 0;
        return (up && node.direction != Direction::down) ||
               (down && node.direction != Direction::up);
    }

    bool test_in(const Node& node) {
        const OperandValue left = value(operand(node, 0));
        if (is_absent(left) || failed_) {
            return failed_;
        }
        for (std::uint16_t i = 1; i < node.count; ++i) {
            if (equal(left, operand(node, i).constant)) {
                return true;
            }
        }
        return false;
    }

    bool test_affix(const Node& node) {
        const OperandValue text = value(operand(node, 0));
        if (is_absent(text) || failed_) {
            return failed_;
        }
        if (text.kind != OperandValue::Kind::text) {
            return fail_open();
        }
        const std::string_view affix = operand(node, 1).constant.text();
        return node.op == Op::prefix ? text.text().starts_with(affix)
                                     : text.text().ends_with(affix);
    }

    bool test_comparison(const Node& node) {
        const OperandValue left = value(operand(node, 0));
        const OperandValue right = value(operand(node, 1));
        if (failed_) {
            return true;
        }
        if (is_absent(left) || is_absent(right)) {
            return node.op == Op::ne;
        }
        if (node.op == Op::eq || node.op == Op::ne) {
            return equal(left, right) == (node.op == Op::eq);
        }
        const auto ordered = order(left, right);
        if (!ordered) {
            return fail_open();
        }
        switch (node.op) {
            case Op::lt: return *ordered < 0;
            case Op::le: return *ordered <= 0;
            case Op::gt: return *ordered > 0;
            default: return *ordered >= 0;
        }
    }

    OperandValue value(const Operand& operand) {
        switch (operand.source) {
            case Source::literal: return operand.constant;
            case Source::concat: return concat(operand);
            case Source::diff: {
                const OperandValue result =
                    difference(value(argument(operand, 0)), value(argument(operand, 1)));
                failed_ = failed_ || result.kind == OperandValue::Kind::error;
                return result;
            }
            case Source::gate: {
                OperandValue result = OperandValue::of(OperandValue::Kind::boolean);
                result.truth = event_.gates != nullptr &&
                               event_.gates->enabled(program_.texts[operand.first]).value_or(false);
                return result;
            }
            case Source::length: return length(operand);
            default: return reference(operand);
        }
    }

    const Operand& argument(const Operand& operand, std::uint16_t i) const {
        return program_.operands[program_.arguments[operand.first + i]];
    }

    OperandValue reference(const Operand& operand) {
        const json::Value* found = nullptr;
        switch (operand.source) {
            case Source::new_object:
                found = resolve(pointer(operand.first), event_.new_object);
                break;
            case Source::old_object:
                found = resolve(pointer(operand.first), event_.old_object);
                break;
            case Source::item: found = resolve(pointer(operand.first), item_); break;
            case Source::config: found = resolve(pointer(operand.first), event_.config); break;
            default:
                found = member(find_owner(subject_, program_.owners[operand.first]), "name");
                break;
        }
        if (found == nullptr) {
            return operand.constant;  // the default, or absent
        }
        OperandValue converted = convert(*found, operand.as);
        failed_ = failed_ || converted.kind == OperandValue::Kind::error;
        return converted;
    }

    OperandValue concat(const Operand& operand) {
        std::string text;
        for (std::uint16_t i = 0; i < operand.count; ++i) {
            const OperandValue part = value(argument(operand, i));
            if (is_absent(part)) {
                return {};
            }
            const auto part_text = text_of(part);
            if (!part_text) {
                failed_ = true;
                return {};
            }
            text += *part_text;
        }
        return text_value(std::move(text));
    }

    OperandValue length(const Operand& operand) {
        const json::Value* found = resolve(pointer(operand.first), subject_);
        if (found == nullptr) {
            return {};
        }
        const auto size = length_of(*found);
        failed_ = failed_ || !size;
        return size ? convert(json::Value(*size), As::none) : OperandValue{};
    }

    static bool is_absent(const OperandValue& value) noexcept {
        return value.kind == OperandValue::Kind::absent;
    }
    bool fail_open() noexcept {
        failed_ = true;
        return true;
    }

    const Predicate::Program& program_;
    const EventView& event_;
    const json::Value* subject_;
    const json::Value* item_{nullptr};
    bool failed_{false};
};

Verdict Predicate::evaluate(const EventView& event) const {
    return PredicateRun(*program_, event).run();
}

std::size_t Predicate::node_count() const noexcept {
    return program_->nodes.size();
}

}  // namespace capstan::plugin
