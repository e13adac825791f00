// Predicates: from JSON to the program.
#include "runtime/plugin/predicate_compile.hpp"

#include <algorithm>

namespace capstan::plugin {

namespace {

constexpr std::size_t kListMax = 64;

std::string below(const std::string& path, std::string_view key) {
    return path + "/" + json::escape_pointer_token(key);
}

constexpr std::string_view kEventNames[] = {"create", "update", "delete", "resync", "external"};

bool has_word(std::string_view words, std::string_view word) {
    while (!words.empty()) {
        const std::string_view first = words.substr(0, words.find(' '));
        if (first == word) {
            return true;
        }
        words.remove_prefix(std::min(words.size(), first.size() + 1));
    }
    return false;
}

}  // namespace

std::string_view to_string(EventType type) noexcept {
    return kEventNames[static_cast<std::size_t>(type)];
}

const PredicateCompiler::Atom PredicateCompiler::kAtoms[] = {
    {"all", Op::all, &PredicateCompiler::list, ""},
    {"any", Op::any, &PredicateCompiler::list, ""},
    {"not", Op::negate, &PredicateCompiler::negate, ""},
    {"case", Op::by_event, &PredicateCompiler::by_event, ""},
    {"generationChanged", Op::generation_changed, &PredicateCompiler::flag, ""},
    {"deletionStarted", Op::deletion_started, &PredicateCompiler::flag, ""},
    {"deleting", Op::deleting, &PredicateCompiler::flag, ""},
    {"changed", Op::changed, &PredicateCompiler::changed, "ignore"},
    {"labelsChanged", Op::labels_changed, &PredicateCompiler::keys, ""},
    {"annotationsChanged", Op::annotations_changed, &PredicateCompiler::keys, ""},
    {"exists", Op::exists, &PredicateCompiler::pointer, ""},
    {"absent", Op::absent, &PredicateCompiler::pointer, ""},
    {"labels", Op::labels, &PredicateCompiler::labels, "of"},
    {"annotation", Op::annotation, &PredicateCompiler::annotation, ""},
    {"owned", Op::owned, &PredicateCompiler::owned, ""},
    {"condition", Op::condition, &PredicateCompiler::condition, ""},
    {"eq", Op::eq, &PredicateCompiler::comparison, ""},
    {"ne", Op::ne, &PredicateCompiler::comparison, ""},
    {"lt", Op::lt, &PredicateCompiler::comparison, ""},
    {"le", Op::le, &PredicateCompiler::comparison, ""},
    {"gt", Op::gt, &PredicateCompiler::comparison, ""},
    {"ge", Op::ge, &PredicateCompiler::comparison, ""},
    {"in", Op::in, &PredicateCompiler::in, ""},
    {"prefix", Op::prefix, &PredicateCompiler::affix, ""},
    {"suffix", Op::suffix, &PredicateCompiler::affix, ""},
    {"crosses", Op::crosses, &PredicateCompiler::crosses, ""},
    {"anyItem", Op::any_item, &PredicateCompiler::any_item, ""},
};

const PredicateCompiler::Atom* PredicateCompiler::find_atom(std::string_view name) noexcept {
    const auto* at = std::find_if(
        std::begin(kAtoms), std::end(kAtoms), [name](const Atom& a) { return a.name == name; });
    return at == std::end(kAtoms) ? nullptr : at;
}

std::shared_ptr<const Predicate::Program> PredicateCompiler::compile(
    const json::Value& tree,
    const PredicateContext& context,
    std::string_view path,
    Problems& problems) {
    PredicateCompiler compiler(context, problems);
    const std::string at(path);
    compiler.program_->root = compiler.predicate(tree, at, 1);
    compiler.operands_.freeze(at);
    if (context.finalizers != nullptr) {
        compiler.program_->finalizers = *context.finalizers;
    }
    return compiler.program_;
}

std::uint16_t PredicateCompiler::add(const Node& node, const std::string& path) {
    if (program_->nodes.size() == kPredicateNodesMax) {
        problems_.add(path, "a predicate has at most 64 nodes (with \"use\" expanded)");
    }
    program_->nodes.push_back(node);
    return static_cast<std::uint16_t>(program_->nodes.size() - 1);
}

std::uint16_t PredicateCompiler::predicate(const json::Value& tree,
                                           const std::string& path,
                                           std::size_t depth) {
    Node never;
    if (program_->nodes.size() > kPredicateNodesMax) {
        return 0;  // reported
    }
    if (depth > kPredicateDepthMax) {
        problems_.add(path, "predicates nest at most 8 deep");
        return add(never, path);
    }
    if (const bool* constant = tree.if_bool()) {
        never.op = *constant ? Op::always : Op::never;
        return add(never, path);
    }
    if (!tree.is_object() || tree.if_object()->empty()) {
        problems_.add(path, "expected true, false, or an object with one predicate");
        return add(never, path);
    }
    return object(*tree.if_object(), path, depth);
}

std::uint16_t PredicateCompiler::object(const json::Object& members,
                                        const std::string& path,
                                        std::size_t depth) {
    const json::Member* head = nullptr;
    for (const json::Member& member : members) {
        if (member.key != "use" && find_atom(member.key) == nullptr) {
            continue;
        }
        if (head != nullptr) {
            problems_.add(path,
                          "holds two predicates, \"" + head->key + "\" and \"" + member.key +
                              "\"; join them with \"all\" or \"any\"");
            return add({}, path);
        }
        head = &member;
    }
    if (head == nullptr) {
        problems_.add(below(path, members.front().key), "unknown predicate");
        return add({}, path);
    }
    const std::string at = below(path, head->key);
    const Atom* atom = find_atom(head->key);
    for (const json::Member& member : members) {
        if (&member != head && (atom == nullptr || !has_word(atom->options, member.key))) {
            problems_.add(below(path, member.key), "unknown member beside \"" + head->key + "\"");
        }
    }
    if (atom == nullptr) {
        return use(head->value, at, depth);
    }
    Node node;
    node.op = atom->op;
    const std::uint16_t index = add(node, at);
    const std::size_t outer = std::exchange(depth_, depth);
    (this->*atom->handler)(node, members, head->value, at);
    depth_ = outer;
    if (index < program_->nodes.size()) {
        program_->nodes[index] = node;
    }
    return index;
}

std::uint16_t PredicateCompiler::use(const json::Value& name,
                                     const std::string& path,
                                     std::size_t depth) {
    const std::string wanted(json::View(name).string_or(""));
    const json::Value* named = context_.named != nullptr ? context_.named->find(wanted) : nullptr;
    if (named == nullptr) {
        problems_.add(path, "no predicate of that name in \"predicates\"");
        return add({}, path);
    }
    if (std::find(using_.begin(), using_.end(), wanted) != using_.end()) {
        problems_.add(path, "uses itself");
        return add({}, path);
    }
    using_.push_back(wanted);
    const std::uint16_t index = predicate(*named, path, depth);
    using_.pop_back();
    return index;
}

void PredicateCompiler::set_children(Node& node, const std::vector<std::uint16_t>& indexes) {
    node.first = static_cast<std::uint16_t>(program_->children.size());
    node.count = static_cast<std::uint16_t>(indexes.size());
    program_->children.insert(program_->children.end(), indexes.begin(), indexes.end());
}

void PredicateCompiler::list(Node& node,
                             const json::Object&,
                             const json::Value& value,
                             const std::string& path) {
    const json::Array* items = value.if_array();
    if (items == nullptr || items->empty() || items->size() > kListMax) {
        problems_.add(path, "expected a list of 1 to 64 predicates");
        return;
    }
    const std::size_t depth = depth_;
    std::vector<std::uint16_t> indexes;
    for (std::size_t i = 0; i < items->size(); ++i) {
        indexes.push_back(predicate((*items)[i], path + "/" + std::to_string(i), depth + 1));
    }
    set_children(node, indexes);
}

void PredicateCompiler::negate(Node& node,
                               const json::Object&,
                               const json::Value& value,
                               const std::string& path) {
    set_children(node, {predicate(value, path, depth_ + 1)});
}

void PredicateCompiler::by_event(Node& node,
                                 const json::Object&,
                                 const json::Value& value,
                                 const std::string& path) {
    const json::Value* otherwise = value.find("else");
    if (otherwise == nullptr) {
        problems_.add(path, "needs \"else\"");
        return;
    }
    for (const json::Member& member : *value.if_object()) {
        if (member.key != "else" &&
            std::find(std::begin(kEventNames), std::end(kEventNames), member.key) ==
                std::end(kEventNames)) {
            problems_.add(below(path, member.key),
                          "expected create, update, delete, resync, external or else");
        }
    }
    const std::size_t depth = depth_;
    const std::uint16_t fallback = predicate(*otherwise, below(path, "else"), depth + 1);
    std::vector<std::uint16_t> indexes;
    for (const std::string_view name : kEventNames) {
        const json::Value* branch = value.find(name);
        indexes.push_back(branch == nullptr ? fallback
                                            : predicate(*branch, below(path, name), depth + 1));
    }
    set_children(node, indexes);
}

void PredicateCompiler::flag(Node&,
                             const json::Object&,
                             const json::Value& value,
                             const std::string& path) {
    if (value.if_bool() == nullptr || !*value.if_bool()) {
        problems_.add(path, "is written with true (negate it with \"not\")");
    }
}

std::vector<std::uint16_t> PredicateCompiler::pointers_of(const json::Value& value,
                                                          const std::string& path) {
    std::vector<std::uint16_t> indexes;
    if (const json::Array* items = value.if_array()) {
        if (items->empty() || items->size() > kListMax) {
            problems_.add(path, "expected 1 to 64 JSON pointers");
        }
        for (std::size_t i = 0; i < std::min(items->size(), kListMax); ++i) {
            indexes.push_back(operands_.add_pointer((*items)[i], path + "/" + std::to_string(i)));
        }
    } else {
        indexes.push_back(operands_.add_pointer(value, path));
    }
    return indexes;
}

void PredicateCompiler::changed(Node& node,
                                const json::Object& all,
                                const json::Value& value,
                                const std::string& path) {
    const std::vector<std::uint16_t> changed = pointers_of(value, path);
    node.first = static_cast<std::uint16_t>(program_->pointers.size() - changed.size());
    node.count = static_cast<std::uint16_t>(changed.size());
    for (const json::Member& member : all) {
        if (member.key != "ignore") {
            continue;
        }
        const std::string at = path.substr(0, path.rfind('/')) + "/ignore";
        for (const std::uint16_t index : pointers_of(member.value, at)) {
            const std::string& text = program_->pointers[index].text;
            const bool inside = std::any_of(changed.begin(), changed.end(), [&](std::uint16_t c) {
                return text.starts_with(program_->pointers[c].text + "/");
            });
            if (!inside) {
                problems_.add(at,
                              "\"" + text + "\" lies below none of the pointers in \"changed\"");
            }
            ++node.extra;
        }
    }
}

std::vector<std::string> PredicateCompiler::texts_of(const json::Value& value,
                                                     const std::string& path) {
    std::vector<std::string> texts;
    const json::Array* items = value.if_array();
    const bool all_texts = items != nullptr && items->size() <= kListMax &&
                           std::all_of(items->begin(), items->end(), [](const json::Value& v) {
                               return v.is_string();
                           });
    if (!all_texts) {
        problems_.add(path, "expected a list of at most 64 strings");
        return texts;
    }
    for (const json::Value& item : *items) {
        texts.push_back(*item.if_string());
    }
    return texts;
}

void PredicateCompiler::keys(Node& node,
                             const json::Object&,
                             const json::Value& value,
                             const std::string& path) {
    node.first = static_cast<std::uint16_t>(program_->texts.size());
    for (std::string& text : texts_of(value, path)) {
        operands_.add_text(std::move(text));
        ++node.count;
    }
}

void PredicateCompiler::pointer(Node& node,
                                const json::Object&,
                                const json::Value& value,
                                const std::string& path) {
    node.first = operands_.add_pointer(value, path);
}

Predicate::Predicate() {
    auto program = std::make_shared<Program>();
    Node always;
    always.op = Op::always;
    program->nodes.push_back(always);
    program_ = std::move(program);
}

Predicate Predicate::compile(const json::Value& tree,
                             const PredicateContext& context,
                             std::string_view path,
                             Problems& problems) {
    Predicate predicate;
    Problems found;
    auto program = PredicateCompiler::compile(tree, context, path, found);
    if (found.empty()) {
        predicate.program_ = std::move(program);
    }
    problems.append(found);
    return predicate;
}

}  // namespace capstan::plugin
