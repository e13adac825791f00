// Text -> Tree, by recursive descent. Macros are recognised here; names are resolved by check().
#include "runtime/local/cel/ast.hpp"
#include "runtime/local/cel/lexer.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace capstan::local::cel {
namespace {

struct Named {
    std::string_view word;
    Op op;
};
// By how strongly they bind, weakest first; && and || stand apart.
constexpr std::array<std::array<Named, 7>, 3> kOperators{{
    {{{"==", Op::equal},
      {"!=", Op::not_equal},
      {"<", Op::less},
      {"<=", Op::less_equal},
      {">", Op::greater},
      {">=", Op::greater_equal},
      {"in", Op::in}}},
    {{{"+", Op::add}, {"-", Op::subtract}}},
    {{{"*", Op::multiply}, {"/", Op::divide}, {"%", Op::modulo}}},
}};

struct Macro {
    std::string_view word;
    std::size_t arguments;
    Op op;
};
constexpr std::array<Macro, 9> kMacros{{{"all", 2, Op::all},
                                        {"exists", 2, Op::exists},
                                        {"exists_one", 2, Op::exists_one},
                                        {"existsOne", 2, Op::exists_one},
                                        {"filter", 2, Op::filter},
                                        {"map", 2, Op::transform},
                                        {"map", 3, Op::transform_filtered},
                                        {"optMap", 2, Op::opt_map},
                                        {"optFlatMap", 2, Op::opt_flat_map}}};

class Parser {
public:
    explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

    Result<Tree> run() {
        CAPSTAN_TRY(tree_.root, expression());
        if (token().kind != TokenKind::end) {
            return unexpected();
        }
        return std::move(tree_);
    }

private:
    // One level of recursion; the text decides how many there are.
    struct Level {
        explicit Level(std::size_t& depth) : depth_(depth) { ++depth_; }
        ~Level() { --depth_; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;
        std::size_t& depth_;
    };

    const Token& token() const { return tokens_[at_]; }
    bool is(std::string_view sign) const {
        return token().word == sign && token().kind != TokenKind::string;
    }
    bool take(std::string_view sign) {
        if (!is(sign)) {
            return false;
        }
        ++at_;
        return true;
    }
    Failure unexpected() const {
        return token().kind == TokenKind::end
                   ? fail_at(token().offset, "unexpected end of the expression")
                   : fail_at(token().offset,
                             "unexpected '" + std::string(token().word.substr(0, 40)) + "'");
    }
    Result<void> expect(std::string_view sign) {
        return take(sign) ? ok() : Result<void>(unexpected());
    }

    Result<NodeId> add(Node node) {
        for (const NodeId child : node.args) {
            node.depth = std::max<std::uint16_t>(
                node.depth, static_cast<std::uint16_t>(tree_.nodes[child].depth + 1));
        }
        if (tree_.nodes.size() >= kRuleNodesMax || node.depth > kRuleDepthMax) {
            return too_large();
        }
        tree_.nodes.push_back(std::move(node));
        return static_cast<NodeId>(tree_.nodes.size() - 1);
    }
    Result<NodeId> add(Op op, std::uint32_t offset, std::vector<NodeId> args) {
        Node node;
        node.op = op;
        node.offset = offset;
        node.args = std::move(args);
        return add(std::move(node));
    }
    static Failure too_large() {
        return fail(Code::too_large,
                    "the expression has more than " + std::to_string(kRuleNodesMax) +
                        " parts or is nested deeper than " + std::to_string(kRuleDepthMax));
    }

    Result<NodeId> expression() {
        const Level level(depth_);
        if (depth_ > kRuleDepthMax) {
            return too_large();
        }
        CAPSTAN_TRY(const NodeId condition, chain("||", Op::either));
        const std::uint32_t offset = token().offset;
        if (!take("?")) {
            return condition;
        }
        CAPSTAN_TRY(const NodeId yes, chain("||", Op::either));
        CAPSTAN_TRY(expect(":"));
        CAPSTAN_TRY(const NodeId no, expression());
        return add(Op::conditional, offset, {condition, yes, no});
    }

    // a || b || c, as one node.
    Result<NodeId> chain(std::string_view sign, Op op) {
        std::vector<NodeId> args;
        const std::uint32_t offset = token().offset;
        do {
            CAPSTAN_TRY(const NodeId next, op == Op::either ? chain("&&", Op::both) : binary(0));
            args.push_back(next);
        } while (take(sign));
        return args.size() == 1 ? Result<NodeId>(args.front()) : add(op, offset, std::move(args));
    }

    Result<NodeId> binary(std::size_t strength) {
        if (strength == kOperators.size()) {
            return unary();
        }
        CAPSTAN_TRY(NodeId left, binary(strength + 1));
        while (true) {
            const auto& known = kOperators[strength];
            const auto found = std::find_if(known.begin(), known.end(), [this](const Named& n) {
                return !n.word.empty() && is(n.word);
            });
            if (found == known.end()) {
                return left;
            }
            const std::uint32_t offset = token().offset;
            ++at_;
            CAPSTAN_TRY(const NodeId right, binary(strength + 1));
            CAPSTAN_TRY(left, add(found->op, offset, {left, right}));
        }
    }

    Result<NodeId> unary() {
        const Level level(depth_);
        if (depth_ > kRuleDepthMax) {
            return too_large();
        }
        const std::uint32_t offset = token().offset;
        if (take("!")) {
            CAPSTAN_TRY(const NodeId inner, unary());
            return add(Op::invert, offset, {inner});
        }
        if (is("-")) {
            ++at_;
            if (token().kind == TokenKind::integer || token().kind == TokenKind::real) {
                return member(true);
            }
            CAPSTAN_TRY(const NodeId inner, unary());
            return add(Op::negate, offset, {inner});
        }
        return member(false);
    }

    Result<NodeId> member(bool negative) {
        CAPSTAN_TRY(NodeId left, primary(negative));
        while (true) {
            const std::uint32_t offset = token().offset;
            if (take(".")) {
                CAPSTAN_TRY(left, select(left, offset));
            } else if (take("[")) {
                const Op op = take("?") ? Op::index_maybe : Op::index;
                CAPSTAN_TRY(const NodeId key, expression());
                CAPSTAN_TRY(expect("]"));
                CAPSTAN_TRY(left, add(op, offset, {left, key}));
            } else {
                return left;
            }
        }
    }

    Result<NodeId> select(NodeId left, std::uint32_t offset) {
        const bool maybe = take("?");
        if (token().kind != TokenKind::name || is("in") || is("true") || is("false") ||
            is("null")) {
            return unexpected();
        }
        Node node;
        node.offset = offset + 1;
        node.text = token().word;
        node.args = {left};
        ++at_;
        if (!maybe && take("(")) {
            return call(std::move(node), true);
        }
        node.op = maybe ? Op::select_maybe : Op::select;
        node.field = unescape_field(node.text);
        return add(std::move(node));
    }

    // After the "(" of a call; node.args holds the receiver of a member.
    Result<NodeId> call(Node node, bool is_member) {
        node.op = Op::call;
        node.member = is_member;
        CAPSTAN_TRY(auto args, list_until(")"));
        if (!is_member && node.text == "has") {
            return has(node, args);
        }
        for (const Macro& macro : kMacros) {
            if (is_member && macro.word == node.text && macro.arguments == args.size()) {
                return expand(macro, std::move(node), args);
            }
        }
        node.args.insert(node.args.end(), args.begin(), args.end());
        return add(std::move(node));
    }

    Result<NodeId> has(const Node& node, const std::vector<NodeId>& args) {
        if (args.size() != 1 || tree_.nodes[args.front()].op != Op::select) {
            return fail_at(node.offset, "invalid argument to has() macro: has(x.field) is");
        }
        tree_.nodes[args.front()].op = Op::has;
        return args.front();
    }

    Result<NodeId> expand(const Macro& macro, Node node, const std::vector<NodeId>& args) {
        const Node& variable = tree_.nodes[args.front()];
        if (variable.op != Op::name) {
            return fail_at(variable.offset, "argument must be a simple name");
        }
        node.op = macro.op;
        node.text = variable.text;
        node.args.insert(node.args.end(), args.begin() + 1, args.end());
        return add(std::move(node));
    }

    Result<std::vector<NodeId>> list_until(std::string_view end) {
        std::vector<NodeId> items;
        while (!take(end)) {
            if (!items.empty()) {
                CAPSTAN_TRY(expect(","));
                if (end != ")" && take(end)) {  // [1, 2,]
                    break;
                }
            }
            CAPSTAN_TRY(const NodeId item, expression());
            items.push_back(item);
        }
        return items;
    }

    Result<NodeId> map(std::uint32_t offset) {
        std::vector<NodeId> args;
        while (!take("}")) {
            if (!args.empty()) {
                CAPSTAN_TRY(expect(","));
                if (take("}")) {
                    break;
                }
            }
            CAPSTAN_TRY(const NodeId key, expression());
            CAPSTAN_TRY(expect(":"));
            CAPSTAN_TRY(const NodeId value, expression());
            args.push_back(key);
            args.push_back(value);
        }
        return add(Op::map, offset, std::move(args));
    }

    Result<NodeId> primary(bool negative) {
        const std::uint32_t offset = token().offset;
        if (take("(")) {
            CAPSTAN_TRY(const NodeId inner, expression());
            CAPSTAN_TRY(expect(")"));
            return inner;
        }
        if (take("[")) {
            CAPSTAN_TRY(auto items, list_until("]"));
            return add(Op::list, offset, std::move(items));
        }
        if (take("{")) {
            return map(offset);
        }
        take(".");
        if (token().kind == TokenKind::name) {
            return name();
        }
        return literal(negative);
    }

    Result<NodeId> name() {
        Node node;
        node.op = Op::name;
        node.offset = token().offset;
        node.text = token().word;
        if (node.text == "true" || node.text == "false" || node.text == "null") {
            node.op = Op::literal;
            node.value = node.text == "null" ? Value() : Value(node.text == "true");
            ++at_;
            return add(std::move(node));
        }
        if (is_reserved(node.text)) {
            return node.text == "in" ? unexpected()
                                     : fail_at(node.offset, "reserved identifier: " + node.text);
        }
        ++at_;
        if (node.text == "optional" && is(".")) {  // optional.of(x): a name with a dot in it
            ++at_;
            node.text += "." + std::string(token().word);
            ++at_;
            CAPSTAN_TRY(expect("("));
            return call(std::move(node), false);
        }
        return take("(") ? call(std::move(node), false) : add(std::move(node));
    }

    Result<NodeId> literal(bool negative) {
        Node node;
        node.offset = token().offset;
        const std::string digits = (negative ? "-" : "") + std::string(token().word);
        switch (token().kind) {
            case TokenKind::string: node.value = Value::text(token().text); break;
            case TokenKind::real: {
                double number = 0;
                const auto read =
                    std::from_chars(digits.data(), digits.data() + digits.size(), number);
                if (read.ec != std::errc()) {
                    return fail_at(node.offset, "invalid double literal");
                }
                node.value = Value(number);
                break;
            }
            case TokenKind::integer: {
                CAPSTAN_TRY(const std::int64_t number, integer(digits, node.offset));
                node.value = Value(number);
                break;
            }
            default: return unexpected();
        }
        ++at_;
        return add(std::move(node));
    }

    static Result<std::int64_t> integer(std::string digits, std::uint32_t offset) {
        int base = 10;
        if (const std::size_t mark = digits.find_first_of("xX"); mark != std::string::npos) {
            digits.erase(mark - 1, 2);
            base = 16;
        }
        std::int64_t number = 0;
        const auto read =
            std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
        if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) {
            return fail_at(offset, "invalid int literal");
        }
        return number;
    }

    std::vector<Token> tokens_;
    std::size_t at_{0};
    std::size_t depth_{0};
    Tree tree_;
};

}  // namespace

Result<Tree> parse(std::string_view text) {
    if (text.size() > kRuleBytesMax) {
        return fail(Code::too_large,
                    "the expression is longer than " + std::to_string(kRuleBytesMax) + " bytes");
    }
    CAPSTAN_TRY(auto tokens, read_tokens(text));
    return Parser(std::move(tokens)).run();
}

}  // namespace capstan::local::cel
