// Operands of predicates: from JSON to the program.
#include "runtime/plugin/predicate_compile.hpp"

#include <algorithm>
#include <charconv>

namespace capstan::plugin {

namespace {

std::string below(const std::string& path, std::string_view key) {
    return path + "/" + json::escape_pointer_token(key);
}

std::optional<Source> reference_of(std::string_view key) noexcept {
    static constexpr std::pair<std::string_view, Source> kReferences[] = {
        {"new", Source::new_object},
        {"old", Source::old_object},
        {"item", Source::item},
        {"config", Source::config},
        {"owner", Source::owner},
        {"gate", Source::gate},
        {"len", Source::length},
        {"concat", Source::concat},
        {"diff", Source::diff}};
    for (const auto& [name, source] : kReferences) {
        if (name == key) {
            return source;
        }
    }
    return std::nullopt;
}

bool takes_options(Source source) noexcept {
    return source == Source::new_object || source == Source::old_object || source == Source::item ||
           source == Source::config || source == Source::owner;
}

bool is_scalar(const json::Value& value) noexcept {
    return !value.is_null() && !value.is_array() && !value.is_object();
}

}  // namespace

std::optional<SplitPointer> split_pointer(std::string_view text) {
    SplitPointer pointer{std::string(text), {}};
    while (!text.empty()) {
        if (text.front() != '/' || pointer.tokens.size() == kPointerTokensMax) {
            return std::nullopt;
        }
        text.remove_prefix(1);
        const std::string_view raw = text.substr(0, text.find('/'));
        text.remove_prefix(raw.size());
        PointerToken token;
        for (std::size_t i = 0; i < raw.size(); ++i) {
            if (raw[i] != '~') {
                token.key += raw[i];
                continue;
            }
            if (++i == raw.size() || (raw[i] != '0' && raw[i] != '1')) {
                return std::nullopt;
            }
            token.key += raw[i] == '0' ? '~' : '/';
        }
        std::size_t index = 0;
        const auto [end, error] =
            std::from_chars(token.key.data(), token.key.data() + token.key.size(), index);
        if (error == std::errc{} && end == token.key.data() + token.key.size() &&
            (token.key.size() == 1 || token.key.front() != '0')) {
            token.index = index;
        }
        pointer.tokens.push_back(std::move(token));
    }
    return pointer;
}

std::uint16_t OperandCompiler::add_pointer(const json::Value& tree, const std::string& path) {
    auto pointer = tree.if_string() != nullptr ? split_pointer(*tree.if_string()) : std::nullopt;
    if (!pointer) {
        problems_.add(path, "expected a JSON pointer like \"/spec/replicas\" (RFC 6901)");
        pointer.emplace();
    }
    program_.pointers.push_back(std::move(*pointer));
    return static_cast<std::uint16_t>(program_.pointers.size() - 1);
}

std::uint16_t OperandCompiler::add_text(std::string text) {
    program_.texts.push_back(std::move(text));
    return static_cast<std::uint16_t>(program_.texts.size() - 1);
}

std::uint16_t OperandCompiler::add_arguments(const std::vector<std::uint16_t>& indexes) {
    const auto first = static_cast<std::uint16_t>(program_.arguments.size());
    program_.arguments.insert(program_.arguments.end(), indexes.begin(), indexes.end());
    return first;
}

std::uint16_t OperandCompiler::add_owner(const json::Value& tree, const std::string& path) {
    OwnerMatch match;
    if (!tree.is_object()) {
        problems_.add(path, "expected an object with \"kind\", \"apiVersion\", \"controller\"");
    }
    for (const json::Member& member : json::View(tree).object()) {
        const std::string at = below(path, member.key);
        if (member.key == "kind" && member.value.is_string()) {
            match.kind = *member.value.if_string();
        } else if (member.key == "apiVersion" && member.value.is_string()) {
            match.api_version = *member.value.if_string();
        } else if (member.key == "controller" && member.value.if_bool() != nullptr) {
            match.controller = *member.value.if_bool();
        } else {
            problems_.add(
                at, "expected \"kind\" or \"apiVersion\" (string), or \"controller\" (boolean)");
        }
    }
    program_.owners.push_back(std::move(match));
    return static_cast<std::uint16_t>(program_.owners.size() - 1);
}

std::uint16_t OperandCompiler::literal(const json::Value& tree, const std::string& path) {
    if (!is_scalar(tree)) {
        problems_.add(path,
                      "expected a string, number or boolean (absence is tested by \"exists\" and "
                      "\"absent\")");
    }
    if (program_.operands.size() >= kPredicateOperandsMax) {
        if (program_.operands.size() == kPredicateOperandsMax) {
            problems_.add(path, "a predicate has at most 128 operands");
        }
    }
    Operand operand;
    operand.literal = tree;
    program_.operands.push_back(std::move(operand));
    return static_cast<std::uint16_t>(program_.operands.size() - 1);
}

std::uint16_t OperandCompiler::compile(const json::Value& tree,
                                       const std::string& path,
                                       bool in_item,
                                       std::size_t depth) {
    if (!tree.is_object()) {
        return literal(tree, path);
    }
    Operand operand;
    const json::Object& members = *tree.if_object();
    const json::Member* head = nullptr;
    for (const json::Member& member : members) {
        if (const auto source = reference_of(member.key)) {
            if (head != nullptr) {
                problems_.add(path,
                              "an operand has one source, not both \"" + head->key + "\" and \"" +
                                  member.key + "\"");
                break;
            }
            head = &member;
            operand.source = *source;
        }
    }
    if (head == nullptr || depth > kOperandDepthMax ||
        program_.operands.size() >= kPredicateOperandsMax) {
        problems_.add(
            path,
            head == nullptr
                ? "expected a literal, or an object with new, old, item, config, gate, owner, "
                  "concat, diff or len"
                : "operands nest too deep or are too many");
        return literal(json::Value(false), path);
    }
    if (operand.source == Source::item && !in_item) {
        problems_.add(below(path, "item"), "\"item\" stands only inside \"where\" of \"anyItem\"");
    }
    if (operand.source == Source::concat || operand.source == Source::diff) {
        compile_list(operand, *head, below(path, head->key), in_item, depth);
    }
    compile_reference(operand, members, path);
    program_.operands.push_back(std::move(operand));
    return static_cast<std::uint16_t>(program_.operands.size() - 1);
}

void OperandCompiler::compile_list(Operand& operand,
                                   const json::Member& list,
                                   const std::string& path,
                                   bool in_item,
                                   std::size_t depth) {
    const json::Array* items = list.value.if_array();
    const bool is_diff = operand.source == Source::diff;
    if (items == nullptr || items->empty() || (is_diff && items->size() != 2)) {
        problems_.add(path,
                      is_diff ? "expected a list of two operands" : "expected a list of operands");
        operand.source = Source::literal;
        operand.literal = json::Value(false);
        return;
    }
    std::vector<std::uint16_t> indexes;
    for (std::size_t i = 0; i < items->size(); ++i) {
        indexes.push_back(compile((*items)[i], path + "/" + std::to_string(i), in_item, depth + 1));
    }
    if (is_diff) {
        unify(indexes, path);
    }
    operand.first = add_arguments(indexes);
    operand.count = static_cast<std::uint16_t>(indexes.size());
}

void OperandCompiler::compile_reference(Operand& operand,
                                        const json::Object& members,
                                        const std::string& path) {
    for (const json::Member& member : members) {
        const std::string at = below(path, member.key);
        if (const auto source = reference_of(member.key)) {
            if (*source == Source::owner) {
                operand.first = add_owner(member.value, at);
            } else if (*source == Source::gate) {
                const std::string name(json::View(member.value).string_or(""));
                const bool known =
                    context_.gates == nullptr ||
                    std::any_of(context_.gates->gates().begin(),
                                context_.gates->gates().end(),
                                [&name](const Gate& gate) { return gate.name == name; });
                if (name.empty() || !known) {
                    problems_.add(at, "expected a gate of \"featureGates\"");
                }
                operand.first = add_text(name);
            } else if (*source != Source::concat && *source != Source::diff) {
                operand.first = add_pointer(member.value, at);
            }
        } else if (member.key == "as" && takes_options(operand.source)) {
            const auto as = as_from(json::View(member.value).string_or(""));
            if (!as) {
                problems_.add(at, "expected int, quantity, duration, time or string");
            }
            operand.as = as.value_or(As::none);
        } else if (member.key == "default" && takes_options(operand.source)) {
            if (!is_scalar(member.value)) {
                problems_.add(at, "expected a string, number or boolean");
            }
            operand.literal = member.value;
        } else {
            problems_.add(at, "unknown member of an operand");
        }
    }
}

As OperandCompiler::type_of(const Operand& operand) const {
    switch (operand.source) {
        case Source::concat: return As::text;
        case Source::length: return As::integer;
        case Source::literal:
        case Source::gate: return As::none;
        case Source::diff: {
            const As inner = type_of(program_.operands[program_.arguments[operand.first]]);
            return inner == As::time ? As::duration : inner;
        }
        default: return operand.as;
    }
}

void OperandCompiler::give_type(std::uint16_t index, As type) {
    Operand& operand = program_.operands[index];
    const bool open = operand.source == Source::literal || takes_options(operand.source);
    if (open && operand.as == As::none) {
        operand.as = type;
    }
}

void OperandCompiler::unify(const std::vector<std::uint16_t>& indexes, const std::string& path) {
    As common = As::none;
    for (const std::uint16_t index : indexes) {
        const As type = type_of(program_.operands[index]);
        const bool numeric = (type == As::integer && common == As::quantity) ||
                             (type == As::quantity && common == As::integer);
        if (type == As::none || numeric) {
            common = numeric ? As::quantity : common;
            continue;
        }
        if (common != As::none && common != type) {
            problems_.add(path,
                          "compares " + std::string(to_string(common)) + " with " +
                              std::string(to_string(type)));
        }
        common = type;
    }
    for (const std::uint16_t index : indexes) {
        give_type(index, common);
    }
}

void OperandCompiler::freeze(const std::string& path) {
    for (Operand& operand : program_.operands) {
        operand.constant = convert(operand.literal, operand.as);
        if (operand.constant.kind == OperandValue::Kind::error) {
            problems_.add(path,
                          "the literal " + json::dump(operand.literal) + " is no " +
                              std::string(to_string(operand.as)));
        }
    }
}

}  // namespace capstan::plugin
