// Predicates on objects: compiling and evaluating never crash, wrapping does not change a verdict,
// and neither does what the cache drops of an object.
//
// Input: a JSON document {"p": PREDICATE, "old": OBJECT, "new": OBJECT}, or choices from which such
// a document is made.
#include "runtime/kube/object.hpp"
#include "runtime/plugin/predicate.hpp"
#include "test/fuzz/fuzz.hpp"

#include <iterator>
#include <string>
#include <vector>

namespace capstan::plugin {
namespace {

using fuzz::Input;
using fuzz::require;

const char* pointer(Input& in) {
    constexpr const char* kAll[] = {"/spec",
                                    "/spec/replicas",
                                    "/spec/size",
                                    "/spec/list",
                                    "/spec/list/0",
                                    "/status/snapshots/0/size",
                                    "/metadata/generation",
                                    "/metadata/labels/a",
                                    "/metadata/creationTimestamp",
                                    "/a~1b",
                                    "",
                                    "/spec/list/-"};
    return kAll[in.below(std::size(kAll))];
}

json::Value scalar(Input& in) {
    constexpr const char* kTexts[] = {
        "", "a", "1", "1.5Gi", "100m", "3s", "2026-01-02T03:04:05Z", "True", "v1", "a=b,!c"};
    switch (in.below(6)) {
        case 0: return nullptr;
        case 1: return in.flag();
        case 2: return static_cast<std::int64_t>(in.byte()) - 128;
        case 3: return static_cast<double>(in.byte()) / 4;
        default: return kTexts[in.below(std::size(kTexts))];
    }
}

json::Value content(Input& in, int depth) {
    constexpr const char* kKeys[] = {"replicas", "size", "list", "type", "status", "name", "a/b"};
    const std::size_t what = depth == 0 ? 0 : in.below(4);
    if (what == 1) {
        json::Value items = json::list();
        for (std::size_t n = in.below(4); n > 0; --n) {
            items.push_back(content(in, depth - 1));
        }
        return items;
    }
    if (what >= 2) {
        json::Value members = json::object();
        for (std::size_t n = in.below(4); n > 0; --n) {
            members.set(kKeys[in.below(std::size(kKeys))], content(in, depth - 1));
        }
        return members;
    }
    return scalar(in);
}

json::Value object(Input& in) {
    json::Value metadata = {{"name", "n"},
                            {"namespace", "s"},
                            {"uid", "u"},
                            {"resourceVersion", std::to_string(in.byte())},
                            {"generation", in.below(3)}};
    if (in.flag()) {
        metadata.set("labels", {{"a", in.flag() ? "b" : "c"}});
    }
    if (in.flag()) {
        metadata.set("deletionTimestamp", "2026-01-02T03:04:05Z");
        metadata.set("finalizers", json::list({"capstan.dev/x"}));
    }
    if (in.flag()) {
        metadata.set("ownerReferences",
                     json::list({{{"apiVersion", "v1"},
                                  {"kind", "Etcd"},
                                  {"name", "main"},
                                  {"uid", "o"},
                                  {"controller", in.flag()}}}));
    }
    json::Value value = {{"apiVersion", "v1"}, {"kind", "Thing"}, {"metadata", metadata}};
    value.set("spec", content(in, 3));
    if (in.flag()) {
        value.set("status",
                  {{"conditions",
                    json::list({{{"type", "Ready"}, {"status", in.flag() ? "True" : "False"}}})},
                   {"snapshots", content(in, 2)}});
    }
    return value;
}

json::Value operand(Input& in, int depth) {
    constexpr const char* kAs[] = {"int", "quantity", "duration", "time", "string"};
    constexpr const char* kFrom[] = {"new", "old", "item", "config"};
    json::Value made = json::object();
    switch (depth == 0 ? in.below(2) : in.below(7)) {
        case 0: return scalar(in);
        case 3: return {{"concat", json::list({operand(in, depth - 1), operand(in, depth - 1)})}};
        case 4: return {{"diff", json::list({operand(in, depth - 1), operand(in, depth - 1)})}};
        case 5: return {{"len", pointer(in)}};
        case 6: return {{"owner", {{"kind", "Etcd"}, {"apiVersion", "v1"}}}};
        default: break;
    }
    made.set(kFrom[in.below(std::size(kFrom))], pointer(in));
    if (in.flag()) {
        made.set("as", kAs[in.below(std::size(kAs))]);
    }
    if (in.flag()) {
        made.set("default", scalar(in));
    }
    return made;
}

json::Value predicate(Input& in, int depth);

json::Value atom(Input& in, int depth) {
    constexpr const char* kCompare[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    constexpr const char* kDirections[] = {"up", "down", "either"};
    switch (in.below(16)) {
        case 0: return in.flag();
        case 1: return {{"generationChanged", true}};
        case 2: return {{"deletionStarted", true}};
        case 3: return {{"deleting", true}};
        case 4: return {{"changed", pointer(in)}};
        case 5:
            return {{"changed", json::list({pointer(in), pointer(in)})},
                    {"ignore", json::list({pointer(in)})}};
        case 6: return {{"labelsChanged", in.flag() ? json::list() : json::list({"a"})}};
        case 7: return {{"exists", pointer(in)}};
        case 8: return {{"absent", pointer(in)}};
        case 9: return {{"labels", "a in (b,c)"}, {"of", in.flag() ? "old" : "either"}};
        case 10: return {{"owned", {{"kind", "Etcd"}, {"apiVersion", "v1"}}}};
        case 11: return {{"condition", {{"type", "Ready"}, {"status", "True"}}}};
        case 12:
            return {{"crosses",
                     {{"old", operand(in, 1)},
                      {"new", operand(in, 1)},
                      {"bound", operand(in, 1)},
                      {"dir", kDirections[in.below(3)]}}}};
        case 13: return {{"in", json::list({operand(in, depth), json::list({scalar(in)})})}};
        case 14: return {{"anyItem", {{"at", pointer(in)}, {"where", predicate(in, 0)}}}};
        default: break;
    }
    return {{kCompare[in.below(std::size(kCompare))],
             json::list({operand(in, depth), operand(in, depth)})}};
}

json::Value predicate(Input& in, int depth) {
    if (depth == 0) {
        return atom(in, 1);
    }
    switch (in.below(6)) {
        case 0: return {{"all", json::list({predicate(in, depth - 1), predicate(in, depth - 1)})}};
        case 1: return {{"any", json::list({predicate(in, depth - 1), predicate(in, depth - 1)})}};
        case 2: return {{"not", predicate(in, depth - 1)}};
        case 3:
            return {{"case",
                     {{"create", predicate(in, depth - 1)},
                      {"delete", predicate(in, depth - 1)},
                      {"else", predicate(in, depth - 1)}}}};
        default: return atom(in, 2);
    }
}

struct Compiled {
    Predicate predicate;
    bool good{false};  // compiled without a problem
};

Compiled compile(const json::Value& tree) {
    static const std::vector<std::string> finalizers{"capstan.dev/x"};
    static const json::Value named = {{"n", {{"exists", "/spec"}}}};
    PredicateContext context;
    context.named = &named;
    context.finalizers = &finalizers;
    Problems problems;
    Compiled made;
    made.predicate = Predicate::compile(tree, context, "/p", problems);
    made.good = problems.empty();
    for (const std::string& line : problems.lines()) {
        require(line.starts_with("/p"), "a problem names its place");
    }
    return made;
}

Verdict run(const Compiled& compiled,
            EventType type,
            const json::Value* old_object,
            const json::Value* new_object) {
    static const json::Value config = {{"spec", {{"replicas", 3}}}};
    EventView event;
    event.type = type;
    event.old_object = old_object;
    event.new_object = new_object;
    event.config = &config;
    return compiled.predicate.evaluate(event);
}

// As the host shows it: what the server added about field managers is dropped, and what the
// predicate does not look at.
json::Value projected(json::Value value, const Predicate& predicate) {
    if (json::Value* metadata = value.find("metadata"); metadata != nullptr) {
        metadata->set("managedFields", json::list({{{"manager", "kubectl"}}}));
    }
    const auto object = kube::Object::make(std::move(value));
    return object ? object.value()->parse(kube::Parts::of(predicate.looks_at())) : json::Value();
}

void check(const json::Value& tree, const json::Value& before, const json::Value& after) {
    const Compiled plain = compile(tree);
    if (!plain.good) {
        return;
    }
    const Compiled wrapped[] = {compile({{"all", json::list({tree})}}),
                                compile({{"any", json::list({tree})}}),
                                compile({{"case", {{"else", tree}}}})};
    const Compiled inverse = compile({{"not", tree}});
    const json::Value less_before = projected(before, plain.predicate);
    const json::Value less_after = projected(after, plain.predicate);
    struct {
        EventType type;
        const json::Value* before;
        const json::Value* after;
        const json::Value* less_before;
        const json::Value* less_after;
    } events[] = {{EventType::create, nullptr, &after, nullptr, &less_after},
                  {EventType::update, &before, &after, &less_before, &less_after},
                  {EventType::removal, &before, nullptr, &less_before, nullptr},
                  {EventType::resync, &after, &after, &less_after, &less_after},
                  {EventType::external, nullptr, nullptr, nullptr, nullptr}};
    for (const auto& event : events) {
        const Verdict verdict = run(plain, event.type, event.before, event.after);
        require(!verdict.error || verdict.pass, "predicates fail open");
        for (const Compiled& other : wrapped) {
            if (other.good) {  // wrapping may pass a limit
                const Verdict same = run(other, event.type, event.before, event.after);
                require(same.pass == verdict.pass && same.error == verdict.error &&
                            same.forced == verdict.forced,
                        "all, any and case of one predicate are that predicate");
            }
        }
        if (inverse.good) {
            const Verdict turned = run(inverse, event.type, event.before, event.after);
            require(turned.error == verdict.error, "not keeps an error");
            require(verdict.error || verdict.forced || turned.pass != verdict.pass,
                    "not turns a verdict");
        }
        if (!less_before.is_null() && !less_after.is_null()) {
            const Verdict less = run(plain, event.type, event.less_before, event.less_after);
            require(less.pass == verdict.pass && less.error == verdict.error &&
                        less.forced == verdict.forced,
                    "what is dropped or not looked at does not change a verdict");
        }
    }
}

bool fit_for_cache(const json::Value& value) {
    const json::Value* metadata = value.find("metadata");
    return metadata != nullptr && metadata->is_object() &&
           metadata->find("managedFields") == nullptr &&
           json::dump(value).find("last-applied") == std::string::npos;
}

}  // namespace
}  // namespace capstan::plugin

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace capstan;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (text.starts_with('{')) {
        const auto document = json::parse(text);
        if (!document) {
            return 0;
        }
        const json::Value* tree = document.value().find("p");
        const json::Value* before = document.value().find("old");
        const json::Value* after = document.value().find("new");
        if (tree != nullptr && before != nullptr && after != nullptr &&
            plugin::fit_for_cache(*before) && plugin::fit_for_cache(*after)) {
            plugin::check(*tree, *before, *after);
        } else if (tree != nullptr) {
            (void)plugin::compile(*tree);
        }
        return 0;
    }
    fuzz::Input input(data, size);
    const json::Value before = plugin::object(input);
    const json::Value after = plugin::object(input);
    plugin::check(plugin::predicate(input, 3), before, after);
    return 0;
}
