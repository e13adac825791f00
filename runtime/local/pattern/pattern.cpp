#include "runtime/local/pattern/pattern.hpp"

#include "runtime/local/pattern/pattern_parser.hpp"

#include <algorithm>

namespace capstan::local {

namespace {

using pattern::Node;
using pattern::NodeKind;

// Emits instructions back to front: emit(node, next) returns where to enter `node` so that
// it continues at `next`.
class Emitter {
public:
    Emitter(std::vector<Pattern::Instruction>& program,
            std::vector<std::vector<Pattern::Range>>& sets)
        : program_(program), sets_(sets) {}

    std::uint32_t emit(const Node& node, std::uint32_t next) {
        switch (node.kind) {
            case NodeKind::empty: return next;
            case NodeKind::character:
                return add({Pattern::Op::character, false, next, 0, node.character});
            case NodeKind::any: return add({Pattern::Op::any, false, next, 0, 0});
            case NodeKind::begin: return add({Pattern::Op::begin, false, next, 0, 0});
            case NodeKind::end: return add({Pattern::Op::end, false, next, 0, 0});
            case NodeKind::word_edge: return add({Pattern::Op::word_edge, false, next, 0, 0});
            case NodeKind::not_word_edge:
                return add({Pattern::Op::not_word_edge, false, next, 0, 0});
            case NodeKind::one_of: return emit_set(node, next);
            case NodeKind::concat: return emit_concat(node, next);
            case NodeKind::alternate: return emit_alternate(node, next);
            case NodeKind::repeat: return emit_repeat(node, next);
        }
        return next;
    }

    std::uint32_t add(Pattern::Instruction instruction) {
        if (program_.size() >= kPatternProgramMax) {
            full_ = true;
            return 0;
        }
        program_.push_back(instruction);
        return static_cast<std::uint32_t>(program_.size() - 1);
    }

    bool full() const noexcept { return full_; }

private:
    std::uint32_t emit_set(const Node& node, std::uint32_t next) {
        const auto index = static_cast<std::uint32_t>(sets_.size());
        if (full_) {
            return next;
        }
        sets_.push_back(node.ranges);
        return add({Pattern::Op::one_of, node.negated, next, index, 0});
    }

    std::uint32_t emit_concat(const Node& node, std::uint32_t next) {
        for (auto child = node.children.rbegin(); child != node.children.rend(); ++child) {
            next = emit(**child, next);
        }
        return next;
    }

    std::uint32_t emit_alternate(const Node& node, std::uint32_t next) {
        std::uint32_t entry = emit(*node.children.back(), next);
        for (std::size_t i = node.children.size() - 1; i-- > 0;) {
            const std::uint32_t branch = emit(*node.children[i], next);
            entry = add({Pattern::Op::split, false, branch, entry, 0});
        }
        return entry;
    }

    std::uint32_t emit_repeat(const Node& node, std::uint32_t next) {
        const Node& body = *node.children.front();
        std::uint32_t entry = next;
        if (node.repeat_max == pattern::kUnbounded) {
            const std::uint32_t loop = add({Pattern::Op::split, false, 0, next, 0});
            const std::uint32_t start = emit(body, loop);
            if (!full_) {
                program_[loop].next = start;
            }
            entry = loop;
        } else {
            // x{2,4}: x x (x (x)?)?, innermost first.
            for (int i = node.repeat_min; i < node.repeat_max && !full_; ++i) {
                const std::uint32_t start = emit(body, entry);
                entry = add({Pattern::Op::split, false, start, next, 0});
            }
        }
        for (int i = 0; i < node.repeat_min && !full_; ++i) {
            entry = emit(body, entry);
        }
        return entry;
    }

    std::vector<Pattern::Instruction>& program_;
    std::vector<std::vector<Pattern::Range>>& sets_;
    bool full_{false};
};

// The set of instructions reached so far, each at most once.
class States {
public:
    explicit States(std::size_t size) : in_(size, 0) {}
    bool insert(std::uint32_t state) {
        if (in_[state] != 0) {
            return false;
        }
        in_[state] = 1;
        list_.push_back(state);
        return true;
    }
    void clear() {
        for (const std::uint32_t state : list_) {
            in_[state] = 0;
        }
        list_.clear();
    }
    const std::vector<std::uint32_t>& list() const noexcept { return list_; }

private:
    std::vector<std::uint8_t> in_;
    std::vector<std::uint32_t> list_;
};

struct Position {
    bool at_begin;
    bool at_end;
    bool word_edge;
};

bool in_set(const std::vector<Pattern::Range>& ranges, char32_t c) {
    return std::any_of(ranges.begin(), ranges.end(), [c](const Pattern::Range& range) {
        return c >= range.first && c <= range.last;
    });
}

// Adds `state` and all that follows it without consuming text. True: accepted.
bool follow(const std::vector<Pattern::Instruction>& program,
            std::uint32_t state,
            const Position& position,
            States& states,
            std::vector<std::uint32_t>& stack) {
    stack.push_back(state);
    while (!stack.empty()) {
        const std::uint32_t current = stack.back();
        stack.pop_back();
        if (!states.insert(current)) {
            continue;
        }
        const Pattern::Instruction& instruction = program[current];
        bool pass = false;
        switch (instruction.op) {
            case Pattern::Op::accept: stack.clear(); return true;
            case Pattern::Op::split:
                stack.push_back(instruction.other);
                pass = true;
                break;
            case Pattern::Op::begin: pass = position.at_begin; break;
            case Pattern::Op::end: pass = position.at_end; break;
            case Pattern::Op::word_edge: pass = position.word_edge; break;
            case Pattern::Op::not_word_edge: pass = !position.word_edge; break;
            default: break;
        }
        if (pass) {
            stack.push_back(instruction.next);
        }
    }
    return false;
}

}  // namespace

Result<Pattern> Pattern::compile(std::string_view expression) {
    CAPSTAN_TRY(auto tree, pattern::parse(expression));
    Pattern out;
    out.expression_ = std::string(expression);
    Emitter emitter(out.program_, out.sets_);
    const std::uint32_t accept = emitter.add({});
    const std::uint32_t start = emitter.emit(*tree, accept);
    if (emitter.full()) {
        return fail(
            Code::too_large,
            "pattern: compiles to more than " + std::to_string(kPatternProgramMax) + " steps");
    }
    // The last instruction is the entry, so match() needs no extra field.
    emitter.add({Op::split, false, start, start, 0});
    return out;
}

bool Pattern::match(std::string_view text) const {
    if (text.size() > kPatternTextMax) {
        return false;
    }
    const auto start = static_cast<std::uint32_t>(program_.size() - 1);
    States current(program_.size());
    States next(program_.size());
    std::vector<std::uint32_t> stack;
    char32_t previous = 0;
    std::size_t offset = 0;
    bool at_begin = true;
    while (true) {
        std::size_t after = offset;
        const bool at_end = offset >= text.size();
        const char32_t c = at_end ? 0 : pattern::next_code_point(text, after);
        const bool word_before = !at_begin && pattern::is_word(previous);
        const bool word_after = !at_end && pattern::is_word(c);
        const Position position{at_begin, at_end, word_before != word_after};
        // `current` holds states reached by the character before; close over them here, where
        // the position is known.
        next.clear();
        for (const std::uint32_t state : current.list()) {
            if (follow(program_, state, position, next, stack)) {
                return true;
            }
        }
        if (follow(program_, start, position, next, stack)) {
            return true;
        }
        if (at_end) {
            return false;
        }
        current.clear();
        for (const std::uint32_t state : next.list()) {
            const Instruction& instruction = program_[state];
            const bool taken = (instruction.op == Op::character && instruction.character == c) ||
                               (instruction.op == Op::any && c != '\n') ||
                               (instruction.op == Op::one_of &&
                                in_set(sets_[instruction.other], c) != instruction.negated);
            if (taken) {
                current.insert(instruction.next);
            }
        }
        previous = c;
        at_begin = false;
        offset = after;
    }
}

}  // namespace capstan::local
