// From the JSON tree of a predicate to its program. Internal to predicates.
#pragma once

#include "runtime/plugin/predicate_program.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::plugin {

// Operands: O and LIT of the grammar.
class OperandCompiler {
public:
    OperandCompiler(Predicate::Program& program,
                    const PredicateContext& context,
                    Problems& problems) noexcept
        : program_(program), context_(context), problems_(problems) {}

    // Index of the operand. `in_item`: {"item": …} is allowed.
    std::uint16_t compile(const json::Value& tree,
                          const std::string& path,
                          bool in_item,
                          std::size_t depth = 1);
    std::uint16_t literal(const json::Value& tree, const std::string& path);
    // Gives the operands of one comparison their common type: what one says, the literals and
    // silent references take.
    void unify(const std::vector<std::uint16_t>& indexes, const std::string& path);
    void freeze(const std::string& path);  // converts constants, once nothing moves any more

    std::uint16_t add_pointer(const json::Value& tree, const std::string& path);
    std::uint16_t add_owner(const json::Value& tree, const std::string& path);
    std::uint16_t add_text(std::string text);
    std::uint16_t add_arguments(const std::vector<std::uint16_t>& indexes);

private:
    void compile_reference(Operand& operand, const json::Object& members, const std::string& path);
    void compile_list(Operand& operand,
                      const json::Member& list,
                      const std::string& path,
                      bool in_item,
                      std::size_t depth);
    As type_of(const Operand& operand) const;
    void give_type(std::uint16_t index, As type);

    Predicate::Program& program_;
    const PredicateContext& context_;
    Problems& problems_;
};

class PredicateCompiler {
public:
    PredicateCompiler(const PredicateContext& context, Problems& problems)
        : context_(context),
          problems_(problems),
          program_(std::make_shared<Predicate::Program>()),
          operands_(*program_, context, problems) {}

    static std::shared_ptr<const Predicate::Program> compile(const json::Value& tree,
                                                             const PredicateContext& context,
                                                             std::string_view path,
                                                             Problems& problems);

private:
    using Handler = void (PredicateCompiler::*)(Node&,
                                                const json::Object&,
                                                const json::Value&,
                                                const std::string&);
    struct Atom {
        std::string_view name;
        Op op;
        Handler handler;
        std::string_view options;  // other members, separated by blanks
    };
    static const Atom kAtoms[];
    static const Atom* find_atom(std::string_view name) noexcept;

    std::uint16_t predicate(const json::Value& tree, const std::string& path, std::size_t depth);
    std::uint16_t object(const json::Object& members, const std::string& path, std::size_t depth);
    std::uint16_t add(const Node& node, const std::string& path);
    std::uint16_t use(const json::Value& name, const std::string& path, std::size_t depth);

    void list(Node& node, const json::Object&, const json::Value& value, const std::string& path);
    void negate(Node& node, const json::Object&, const json::Value& value, const std::string& path);
    void by_event(Node& node,
                  const json::Object&,
                  const json::Value& value,
                  const std::string& path);
    void flag(Node& node, const json::Object&, const json::Value& value, const std::string& path);
    void changed(Node& node,
                 const json::Object& all,
                 const json::Value& value,
                 const std::string& path);
    void keys(Node& node, const json::Object&, const json::Value& value, const std::string& path);
    void pointer(Node& node,
                 const json::Object&,
                 const json::Value& value,
                 const std::string& path);
    void labels(Node& node,
                const json::Object& all,
                const json::Value& value,
                const std::string& path);
    void annotation(Node& node,
                    const json::Object&,
                    const json::Value& value,
                    const std::string& path);
    void owned(Node& node, const json::Object&, const json::Value& value, const std::string& path);
    void condition(Node& node,
                   const json::Object&,
                   const json::Value& value,
                   const std::string& path);
    void comparison(Node& node,
                    const json::Object&,
                    const json::Value& value,
                    const std::string& path);
    void in(Node& node, const json::Object&, const json::Value& value, const std::string& path);
    void affix(Node& node, const json::Object&, const json::Value& value, const std::string& path);
    void crosses(Node& node,
                 const json::Object&,
                 const json::Value& value,
                 const std::string& path);
    void any_item(Node& node,
                  const json::Object&,
                  const json::Value& value,
                  const std::string& path);

    std::vector<std::string> texts_of(const json::Value& value, const std::string& path);
    void set_children(Node& node, const std::vector<std::uint16_t>& indexes);
    std::vector<std::uint16_t> pointers_of(const json::Value& value, const std::string& path);

    const PredicateContext& context_;
    Problems& problems_;
    std::shared_ptr<Predicate::Program> program_;
    OperandCompiler operands_;
    std::vector<std::string> using_;  // names being expanded
    std::size_t depth_{0};            // of the node at hand, for its handler
    bool in_item_{false};
};

}  // namespace capstan::plugin
