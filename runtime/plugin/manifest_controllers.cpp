// Controllers, watches and permission rules of a manifest.
#include "runtime/plugin/manifest_reader.hpp"

#include "capstan/label_selector.hpp"
#include "runtime/config/rbac_words.hpp"
#include "runtime/plugin/predicate_program.hpp"

#include <algorithm>

namespace capstan::plugin {

namespace {

constexpr std::chrono::hours kResyncEveryMax{24};
constexpr std::uint32_t kThreadsMax = 64;

std::string indexed(const std::string& path, std::size_t i) {
    return path + "/" + std::to_string(i);
}

ValueSource read_value(const json::Value& value, const std::string& path, Problems& problems) {
    ValueSource source;
    if (value.is_string()) {
        source.text = *value.if_string();
        return source;
    }
    const json::Object& members = json::View(value).object();
    if (members.size() == 1 && members.front().value.is_string()) {
        source.text = *members.front().value.if_string();
        if (members.front().key == "config" && split_pointer(source.text)) {
            source.kind = ValueSource::Kind::config;
            return source;
        }
        if (members.front().key == "env" && !source.text.empty()) {
            source.kind = ValueSource::Kind::environment;
            return source;
        }
    }
    problems.add(path, "expected a string, {\"config\": pointer} or {\"env\": name}");
    return source;
}

std::optional<ValueSource> take_value(StrictObject& from,
                                      std::string_view key,
                                      Problems& problems) {
    const json::Value* value = from.take(key);
    if (value == nullptr) {
        return std::nullopt;
    }
    return read_value(*value, from.at(key), problems);
}

Select read_select(const json::Value& value, const std::string& path, Problems& problems) {
    StrictObject from(value, path, problems);
    Select select;
    select.ns = take_value(from, "namespace", problems);
    select.name = take_value(from, "name", problems);
    select.labels = take_value(from, "labels", problems);
    if (select.labels && select.labels->kind == ValueSource::Kind::literal) {
        if (const auto parsed = LabelSelector::parse(select.labels->text); !parsed) {
            from.problem("labels", parsed.error().message);
        }
    }
    if (const json::Value* fields = from.take("fields")) {
        if (!fields->is_object()) {
            from.problem("fields", "expected an object of field names and values");
        }
        for (const json::Member& field : json::View(*fields).object()) {
            const std::string at = from.at("fields") + "/" + json::escape_pointer_token(field.key);
            select.fields.emplace_back(field.key, read_value(field.value, at, problems));
        }
    }
    from.finish();
    return select;
}

std::optional<Role> role_of(std::string_view text) noexcept {
    for (const Role role : {Role::primary, Role::owns, Role::maps}) {
        if (to_string(role) == text) {
            return role;
        }
    }
    return std::nullopt;
}

// The kind of the "for" watch, needed by the map rules of all others; reported here when
// it is not exactly one.
GroupVersionKind find_primary(const json::Array& watches,
                              const std::string& path,
                              Problems& problems) {
    GroupVersionKind primary;
    std::size_t count = 0;
    for (const json::Value& watch : watches) {
        if (json::View(watch)["role"].string_or("") == "for") {
            ++count;
            if (auto gvk = GroupVersionKind::parse(json::View(watch)["gvk"].string_or(""))) {
                primary = std::move(gvk).value();
            }
        }
    }
    if (count != 1) {
        problems.add(path,
                     "needs exactly one watch with the role \"for\", has " + std::to_string(count));
    }
    return primary;
}

// Whether everything at `pointer` stays in the cache of `watch`.
bool kept(const Watch& watch, std::string_view pointer) {
    const auto inside = [pointer](std::string_view part) {
        return pointer.starts_with(part) &&
               (pointer.size() == part.size() || pointer[part.size()] == '/');
    };
    return watch.keep.empty() || inside("/metadata") || inside("/apiVersion") || inside("/kind") ||
           std::any_of(watch.keep.begin(), watch.keep.end(), inside);
}

// Entries inside of others say twice what is kept, or not what was meant.
void check_overlap(StrictObject& from, const std::vector<std::string>& keep) {
    for (std::size_t i = 0; i < keep.size(); ++i) {
        for (std::size_t j = 0; j < keep.size(); ++j) {
            if (i < j && keep[i] == keep[j]) {
                from.problem("keep", "\"" + keep[i] + "\" is there twice");
            } else if (keep[j].starts_with(keep[i] + "/")) {
                from.problem(
                    "keep",
                    "\"" + keep[j] + "\" is inside of \"" + keep[i] + "\"; leave one of them out");
            }
        }
    }
}

std::vector<std::string> read_keep(StrictObject& from) {
    const bool metadata_only = from.flag("metadataOnly", false);
    const json::Value* given = from.take("keep");
    if (given != nullptr && given->is_array() && given->if_array()->empty()) {
        from.problem("keep",
                     "is empty; leave it out to keep whole objects, or write metadataOnly: true");
    }
    std::vector<std::string> keep = from.texts("keep");
    check_overlap(from, keep);
    for (const std::string& pointer : keep) {
        const auto steps = std::count(pointer.begin(), pointer.end(), '/');
        if (!pointer.starts_with('/') || pointer.ends_with('/') || steps > 2 ||
            pointer.find('~') != std::string::npos) {
            from.problem("keep",
                         "\"" + pointer + "\" is not of the form \"/spec\" or \"/spec/replicas\"");
        } else if (pointer.starts_with("/metadata")) {
            from.problem("keep", "metadata is always kept whole; leave \"" + pointer + "\" out");
        }
    }
    if (metadata_only && !keep.empty()) {
        from.problem("keep", "and metadataOnly exclude each other");
    }
    return metadata_only ? std::vector<std::string>{"/metadata"} : keep;
}

Watch read_watch(const json::Value& value,
                 const std::string& path,
                 const GroupVersionKind& primary,
                 const PredicateContext& context,
                 Problems& problems) {
    StrictObject from(value, path, problems);
    Watch watch;
    const std::string gvk_text = from.text("gvk", Need::required);
    auto gvk = GroupVersionKind::parse(gvk_text);
    if (gvk) {
        watch.gvk = std::move(gvk).value();
    } else if (!gvk_text.empty()) {
        from.problem("gvk", "expected \"group/version/Kind\" or \"version/Kind\"");
    }
    const std::string role_text = from.one_of("role", {"for", "owns", "maps"}, "for");
    watch.role = role_of(role_text).value_or(Role::primary);
    if (const json::Value* select = from.take("select")) {
        watch.select = read_select(*select, from.at("select"), problems);
    }
    if (const json::Value* predicate = from.take("predicate")) {
        watch.predicate = Predicate::compile(*predicate, context, from.at("predicate"), problems);
        watch.every_event = false;
    } else {
        watch.predicate =
            Predicate::compile(json::Value(true), context, from.at("predicate"), problems);
    }
    watch.keep = read_keep(from);
    watch.ignore_own_writes = from.flag("ignoreOwnWrites", false);
    for (const std::string& pointer : watch.predicate.looks_at()) {
        if (!kept(watch, pointer)) {
            from.problem("predicate",
                         "looks at \"" + pointer + "\", which this watch does not keep");
        }
    }
    const json::Value* map = from.take("map");
    watch.map.primary = primary;
    watch.map.kind = watch.role == Role::owns ? MapRule::Kind::owner : MapRule::Kind::identity;
    if (watch.role == Role::maps && map != nullptr) {
        watch.map = MapRule::parse(*map, primary, from.at("map"), problems);
    } else if ((watch.role == Role::maps) != (map != nullptr)) {
        from.problem("map", "belongs to a watch with the role \"maps\", and is needed there");
    }
    from.finish(true);
    return watch;
}

ControllerSpec read_controller(const json::Value& value,
                               const std::string& path,
                               const PredicateContext& context,
                               Problems& problems) {
    StrictObject from(value, path, problems);
    ControllerSpec controller;
    controller.name = from.text("name", Need::required);
    controller.max_concurrent = from.number("maxConcurrent", kWorkersDefault, 1, kWorkersMax);
    controller.deadline = from.duration("deadline", kReconcileDeadlineMin, kReconcileDeadlineMax)
                              .value_or(kReconcileDeadlineDefault);
    controller.resync_every = from.duration("resyncEvery", kResyncEveryMin, kResyncEveryMax);
    controller.async = from.flag("async", false);
    controller.threads = from.number("threads", 0, 0, kThreadsMax);
    controller.side_effects = from.one_of("sideEffects", {"api-only", "external"}, "api-only");
    const json::Array& watches = from.list("watches", Need::required);
    const GroupVersionKind primary = find_primary(watches, from.at("watches"), problems);
    for (std::size_t i = 0; i < watches.size(); ++i) {
        controller.watches.push_back(
            read_watch(watches[i], indexed(from.at("watches"), i), primary, context, problems));
    }
    std::stable_partition(controller.watches.begin(),
                          controller.watches.end(),
                          [](const Watch& watch) { return watch.role == Role::primary; });
    for (const Watch& watch : controller.watches) {
        const std::string& field = watch.map.field;
        const Watch& primary_watch = controller.watches.front();
        if (!field.empty() && !kept(primary_watch, field.substr(0, field.find("/*")))) {
            from.problem("watches",
                         "refersFrom looks at \"" + field + "\" of " + primary.to_string() +
                             ", which its watch does not keep");
        }
    }
    from.finish(true);
    return controller;
}

}  // namespace

void read_controllers(StrictObject& top, Manifest& manifest, Problems& problems) {
    PredicateContext context;
    context.named = top.take("predicates");
    context.gates = &manifest.gates;
    context.finalizers = &manifest.finalizers;
    if (context.named != nullptr && !context.named->is_object()) {
        top.problem("predicates", "expected an object of named predicates");
        context.named = nullptr;
    }
    if (context.named != nullptr) {
        for (const json::Member& named : *context.named->if_object()) {
            const std::string at =
                top.at("predicates") + "/" + json::escape_pointer_token(named.key);
            Predicate::compile(named.value, context, at, problems);
        }
    }
    const json::Array& items = top.list("controllers");
    for (std::size_t i = 0; i < items.size(); ++i) {
        manifest.controllers.push_back(
            read_controller(items[i], indexed(top.at("controllers"), i), context, problems));
    }
}

namespace {

// A name that nothing has would be a right in appearance only.
void check_rule_names(StrictObject& from, const PermissionRule& rule) {
    for (const std::string& group : rule.groups) {
        if (const std::string problem = config::rbac_group_problem(group, is_dns_subdomain);
            !problem.empty()) {
            from.problem("groups", problem);
        }
    }
    for (const std::string& resource : rule.resources) {
        if (const std::string problem = config::rbac_resource_problem(resource, is_dns_subdomain);
            !problem.empty()) {
            from.problem("resources", problem);
        }
    }
}

}  // namespace

std::vector<PermissionRule> read_rules(StrictObject& top,
                                       std::string_view key,
                                       Problems& problems) {
    std::vector<PermissionRule> rules;
    const json::Array& items = top.list(key);
    for (std::size_t i = 0; i < items.size(); ++i) {
        StrictObject from(items[i], indexed(top.at(key), i), problems);
        PermissionRule rule;
        rule.groups = from.texts("groups", Need::required);
        rule.resources = from.texts("resources", Need::required);
        rule.verbs = from.texts("verbs", Need::required);
        rule.resource_names = from.texts("resourceNames");
        for (const std::string& verb : rule.verbs) {
            if (!config::is_rbac_verb(verb)) {
                from.problem("verbs", "unknown verb \"" + verb + "\"; a wildcard is not accepted");
            }
        }
        check_rule_names(from, rule);
        from.finish();
        rules.push_back(std::move(rule));
    }
    return rules;
}

}  // namespace capstan::plugin
