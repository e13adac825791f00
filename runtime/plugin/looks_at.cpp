// What a compiled predicate and a map rule may look at, so that the host makes a tree of no more.
#include "runtime/plugin/map_rule.hpp"
#include "runtime/plugin/predicate_program.hpp"

#include <algorithm>

namespace capstan::plugin {
namespace {

constexpr const char* kDeletion = "/metadata/deletionTimestamp";
constexpr const char* kOwners = "/metadata/ownerReferences";

// The first two tokens: everything below them comes along.
std::string front_of(const SplitPointer& pointer) {
    const std::size_t second = pointer.text.find('/', 1);
    const std::size_t third =
        second == std::string::npos ? second : pointer.text.find('/', second + 1);
    return pointer.text.substr(0, third);
}

void add_node(const Predicate::Program& program, const Node& node, std::vector<std::string>& out) {
    switch (node.op) {
        case Op::generation_changed: out.emplace_back("/metadata/generation"); break;
        case Op::deletion_started:
        case Op::deleting: out.emplace_back(kDeletion); break;
        case Op::labels_changed:
        case Op::labels: out.emplace_back("/metadata/labels"); break;
        case Op::annotations_changed:
        case Op::annotation: out.emplace_back("/metadata/annotations"); break;
        case Op::owned: out.emplace_back(kOwners); break;
        case Op::condition: out.emplace_back("/status/conditions"); break;
        case Op::changed:
            for (std::uint16_t i = 0; i < node.count; ++i) {
                out.push_back(front_of(program.pointers[node.first + i]));
            }
            break;
        case Op::exists:
        case Op::absent:
        case Op::any_item: out.push_back(front_of(program.pointers[node.first])); break;
        default: break;  // children and operands stand for themselves
    }
}

void add_operand(const Predicate::Program& program,
                 const Operand& operand,
                 std::vector<std::string>& out) {
    switch (operand.source) {
        case Source::new_object:
        case Source::old_object:
        case Source::length: out.push_back(front_of(program.pointers[operand.first])); break;
        case Source::owner: out.emplace_back(kOwners); break;
        default: break;
    }
}

std::vector<std::string> unique(std::vector<std::string> pointers) {
    std::sort(pointers.begin(), pointers.end());
    pointers.erase(std::unique(pointers.begin(), pointers.end()), pointers.end());
    return pointers;
}

}  // namespace

std::vector<std::string> Predicate::looks_at() const {
    std::vector<std::string> out;
    for (const Node& node : program_->nodes) {
        add_node(*program_, node, out);
    }
    for (const Operand& operand : program_->operands) {
        add_operand(*program_, operand, out);
    }
    if (!program_->finalizers.empty()) {
        out.emplace_back("/metadata/finalizers");
        out.emplace_back(kDeletion);
    }
    return unique(std::move(out));
}

std::vector<std::string> looks_at(const MapRule& rule) {
    std::vector<std::string> out = {"/metadata/name", "/metadata/namespace"};
    if (rule.kind == MapRule::Kind::owner) {
        out.emplace_back(kOwners);
    } else if (rule.kind == MapRule::Kind::label) {
        out.emplace_back("/metadata/labels");
    }
    return unique(std::move(out));
}

}  // namespace capstan::plugin
