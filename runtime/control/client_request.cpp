#include "runtime/control/client_request.hpp"

#include "capstan/json.hpp"
#include "runtime/control/unit.hpp"

#include <algorithm>

namespace capstan::control {
namespace {

capstan_rc deny(const CallState& call,
                std::string_view verb,
                const GroupVersionKind& gvk,
                std::string_view resource) {
    call.core->metrics.denied.with({call.unit->manifest().id}).add();
    call.log.error("request outside the manifest's permissions is not sent",
                   {{"verb", verb}, {"group", gvk.group}, {"resource", resource}});
    const std::string group = gvk.group.empty() ? "\"\"" : gvk.group;
    const std::string who = call.unit->plugin().narrowed
                                ? "the manifest, or its `permissions` in the configuration, does"
                                : "the manifest does";
    return report(CAPSTAN_E_DENIED,
                  who + " not permit " + std::string(verb) + " on " + std::string(resource) +
                      " in group " + group + "; it needs a rule " +
                      json::dump({{"groups", json::list({gvk.group})},
                                  {"resources", json::list({resource})},
                                  {"verbs", json::list({verb})}}));
}

bool any_rule(const plugin::Manifest& manifest, std::string_view verb, std::string_view group) {
    const auto has = [](const std::vector<std::string>& list, std::string_view wanted) {
        return std::any_of(list.begin(), list.end(), [&](const std::string& s) {
            return s == wanted || s == "*";
        });
    };
    return std::any_of(manifest.permissions.begin(),
                       manifest.permissions.end(),
                       [&](const plugin::PermissionRule& rule) {
                           return has(rule.groups, group) && has(rule.verbs, verb);
                       });
}

}  // namespace

MonotonicTime request_deadline(const CallState& call, std::chrono::nanoseconds usual) {
    return std::min(call.deadline - kAnswerGrace, call.core->now() + usual);
}

bool permit(Asked& asked,
            capstan_call* handle,
            capstan_str gvk_text,
            std::string_view verb,
            std::string_view name,
            std::string_view sub,
            capstan_rc* rc) {
    asked.call = enter(handle, rc);
    if (asked.call == nullptr) {
        return false;
    }
    CallState& call = *asked.call;
    call.core->parts.threads.yield_point();
    if (call.reads_only && verb != "get" && verb != "list") {
        *rc = report(CAPSTAN_E_DENIED,
                     "a webhook without side effects sends no " + std::string(verb) +
                         "; see \"sideEffects\" in the manifest");
        return false;
    }
    auto gvk = GroupVersionKind::parse(view(gvk_text));
    if (!gvk) {
        *rc = report(gvk.error());
        return false;
    }
    asked.gvk = std::move(gvk).value();
    const plugin::Manifest& manifest = call.unit->manifest();
    const std::string suffix = sub.empty() ? "" : "/" + std::string(sub);
    // Discovery is a request too: none for a group the plugin may not touch with this verb at all.
    if (!any_rule(manifest, verb, asked.gvk.group)) {
        *rc = deny(call, verb, asked.gvk, plugin::plural_of(asked.gvk.kind) + suffix);
        return false;
    }
    Core& core = *call.core;
    auto resource = await_on_loop<kube::Resource, int>(
        call,
        request_deadline(call),
        [&core, wanted = asked.gvk](std::function<void(Result<kube::Resource>)> done) {
            core.parts.client.resources().resolve(wanted, std::move(done));
            return 0;
        });
    if (!resource) {
        *rc = report(resource.error());
        return false;
    }
    asked.resource = std::move(resource).value();
    if (!manifest.allows(verb, asked.gvk.group, asked.resource.plural + suffix, name)) {
        *rc = deny(call, verb, asked.gvk, asked.resource.plural + suffix);
        return false;
    }
    return true;
}

}  // namespace capstan::control
