// Predicates that look at values: labels, annotations, owners, conditions and comparisons.
#include "runtime/plugin/predicate_compile.hpp"

#include <algorithm>

namespace capstan::plugin {

namespace {

constexpr std::size_t kListMax = 64;

std::string below(const std::string& path, std::string_view key) {
    return path + "/" + json::escape_pointer_token(key);
}

}  // namespace

void PredicateCompiler::labels(Node& node,
                               const json::Object& all,
                               const json::Value& value,
                               const std::string& path) {
    auto selector =
        value.is_string()
            ? LabelSelector::parse(*value.if_string())
            : Result<LabelSelector>(fail(Code::invalid, "expected a label selector string"));
    if (!selector) {
        problems_.add(path, selector.error().message);
        return;
    }
    program_->selectors.push_back(std::move(selector).value());
    node.first = static_cast<std::uint16_t>(program_->selectors.size() - 1);
    for (const json::Member& member : all) {
        if (member.key != "of") {
            continue;
        }
        const std::string_view of = json::View(member.value).string_or("");
        if (of != "new" && of != "old" && of != "either") {
            problems_.add(path.substr(0, path.rfind('/')) + "/of", "expected new, old or either");
        }
        node.side =
            of == "old" ? Side::old_object : (of == "either" ? Side::either : Side::new_object);
    }
}

void PredicateCompiler::annotation(Node& node,
                                   const json::Object&,
                                   const json::Value& value,
                                   const std::string& path) {
    std::string key;
    std::vector<std::string> values;
    bool any_value = true;
    for (const json::Member& member : json::View(value).object()) {
        const std::string at = below(path, member.key);
        if (member.key == "key" && member.value.is_string()) {
            key = *member.value.if_string();
        } else if (member.key == "equals" && member.value.is_string()) {
            values.push_back(*member.value.if_string());
            any_value = false;
        } else if (member.key == "in") {
            const std::vector<std::string> more = texts_of(member.value, at);
            values.insert(values.end(), more.begin(), more.end());
            any_value = false;
        } else {
            problems_.add(at, "expected \"key\", \"equals\" (strings) or \"in\" (strings)");
        }
    }
    if (key.empty()) {
        problems_.add(path, "needs \"key\"");
    }
    node.first = operands_.add_text(std::move(key));
    for (std::string& text : values) {
        operands_.add_text(std::move(text));
    }
    node.count = static_cast<std::uint16_t>(values.size() + 1);
    node.extra = any_value ? 1 : 0;
}

void PredicateCompiler::owned(Node& node,
                              const json::Object&,
                              const json::Value& value,
                              const std::string& path) {
    node.first = operands_.add_owner(value, path);
}

void PredicateCompiler::condition(Node& node,
                                  const json::Object&,
                                  const json::Value& value,
                                  const std::string& path) {
    ConditionMatch match;
    for (const json::Member& member : json::View(value).object()) {
        const std::string at = below(path, member.key);
        if (member.key == "type" && member.value.is_string()) {
            match.type = *member.value.if_string();
        } else if (member.key == "status" && member.value.is_string()) {
            match.status = *member.value.if_string();
        } else if (member.key == "changed" && member.value.if_bool() != nullptr &&
                   *member.value.if_bool()) {
            match.changed = true;
        } else {
            problems_.add(at, "expected \"type\", \"status\" (strings) or \"changed\" (true)");
        }
    }
    if (match.type.empty()) {
        problems_.add(path, "needs \"type\"");
    }
    program_->conditions.push_back(std::move(match));
    node.first = static_cast<std::uint16_t>(program_->conditions.size() - 1);
}

void PredicateCompiler::comparison(Node& node,
                                   const json::Object&,
                                   const json::Value& value,
                                   const std::string& path) {
    const json::Array* sides = value.if_array();
    if (sides == nullptr || sides->size() != 2) {
        problems_.add(path, "expected a list of two operands");
        return;
    }
    const std::vector<std::uint16_t> indexes = {
        operands_.compile((*sides)[0], path + "/0", in_item_),
        operands_.compile((*sides)[1], path + "/1", in_item_)};
    operands_.unify(indexes, path);
    node.first = operands_.add_arguments(indexes);
    node.count = 2;
}

void PredicateCompiler::in(Node& node,
                           const json::Object&,
                           const json::Value& value,
                           const std::string& path) {
    const json::Array* sides = value.if_array();
    const json::Array* list =
        sides != nullptr && sides->size() == 2 ? (*sides)[1].if_array() : nullptr;
    if (list == nullptr || list->empty() || list->size() > kListMax) {
        problems_.add(path, "expected an operand and a list of 1 to 64 literals");
        return;
    }
    std::vector<std::uint16_t> indexes = {operands_.compile((*sides)[0], path + "/0", in_item_)};
    for (std::size_t i = 0; i < list->size(); ++i) {
        indexes.push_back(operands_.literal((*list)[i], path + "/1/" + std::to_string(i)));
    }
    operands_.unify(indexes, path);
    node.first = operands_.add_arguments(indexes);
    node.count = static_cast<std::uint16_t>(indexes.size());
}

void PredicateCompiler::affix(Node& node,
                              const json::Object&,
                              const json::Value& value,
                              const std::string& path) {
    const json::Array* sides = value.if_array();
    if (sides == nullptr || sides->size() != 2 || !(*sides)[1].is_string()) {
        problems_.add(path, "expected an operand and a string");
        return;
    }
    node.first = operands_.add_arguments({operands_.compile((*sides)[0], path + "/0", in_item_),
                                          operands_.literal((*sides)[1], path + "/1")});
    node.count = 2;
}

void PredicateCompiler::crosses(Node& node,
                                const json::Object&,
                                const json::Value& value,
                                const std::string& path) {
    const json::Value* parts[] = {value.find("old"), value.find("new"), value.find("bound")};
    const std::string_view direction = json::View(value)["dir"].string_or("");
    if (parts[0] == nullptr || parts[1] == nullptr || parts[2] == nullptr ||
        value.if_object()->size() != 4 ||
        (direction != "up" && direction != "down" && direction != "either")) {
        problems_.add(path,
                      "needs exactly \"old\", \"new\", \"bound\" and \"dir\" (up, down or either)");
        return;
    }
    const std::vector<std::uint16_t> indexes = {
        operands_.compile(*parts[0], path + "/old", in_item_),
        operands_.compile(*parts[1], path + "/new", in_item_),
        operands_.compile(*parts[2], path + "/bound", in_item_)};
    operands_.unify(indexes, path);
    node.first = operands_.add_arguments(indexes);
    node.count = 3;
    node.direction = direction == "up"
                         ? Direction::up
                         : (direction == "down" ? Direction::down : Direction::either);
}

namespace {

// Comparisons, joined by all, any and not; nothing that looks at whole objects.
bool is_item_predicate(const json::Value& tree) {
    const json::Object& members = json::View(tree).object();
    if (members.size() != 1) {
        return tree.if_bool() != nullptr;
    }
    const std::string& key = members.front().key;
    const json::Value& value = members.front().value;
    if (key == "all" || key == "any") {
        const json::Array& items = json::View(value).array();
        return std::all_of(items.begin(), items.end(), is_item_predicate);
    }
    if (key == "not") {
        return is_item_predicate(value);
    }
    static constexpr std::string_view kComparisons[] = {
        "eq", "ne", "lt", "le", "gt", "ge", "in", "prefix", "suffix"};
    return std::find(std::begin(kComparisons), std::end(kComparisons), key) !=
           std::end(kComparisons);
}

}  // namespace

void PredicateCompiler::any_item(Node& node,
                                 const json::Object&,
                                 const json::Value& value,
                                 const std::string& path) {
    const json::Value* at = value.find("at");
    const json::Value* where = value.find("where");
    if (at == nullptr || where == nullptr || value.if_object()->size() != 2) {
        problems_.add(path, "needs exactly \"at\" and \"where\"");
        return;
    }
    if (in_item_ || !is_item_predicate(*where)) {
        problems_.add(
            path + "/where",
            "only comparisons (eq ne lt le gt ge in prefix suffix), joined by all, any and not");
        return;
    }
    node.first = operands_.add_pointer(*at, path + "/at");
    in_item_ = true;
    node.extra = predicate(*where, path + "/where", depth_ + 1);
    in_item_ = false;
}

}  // namespace capstan::plugin
