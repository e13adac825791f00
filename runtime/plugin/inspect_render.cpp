// A report as text and as JSON.
#include "runtime/plugin/inspect.hpp"

namespace capstan::plugin {

namespace {

std::string joined(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) {
        text += (text.empty() ? "" : ", ") + (part.empty() ? std::string("\"\"") : part);
    }
    return text.empty() ? "none" : text;
}

template <class Items>
std::string names_of(const Items& items) {
    std::vector<std::string> names;
    for (const auto& item : items) {
        names.push_back(item.name);
    }
    return joined(names);
}

std::string seconds_text(std::chrono::nanoseconds duration) {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(duration).count()) + "s";
}

std::string controller_text(const ControllerSpec& controller) {
    std::string text = "  " + controller.name + ": at most " +
                       std::to_string(controller.max_concurrent) + " at once, " +
                       seconds_text(controller.deadline) + " each";
    text += controller.resync_every
                ? ", again every " + seconds_text(*controller.resync_every) + "\n"
                : "\n";
    for (const Watch& watch : controller.watches) {
        text += "    " + std::string(to_string(watch.role)) + " " + watch.gvk.to_string();
        text += watch.role == Role::maps ? " by " + std::string(to_string(watch.map.kind)) : "";
        if (watch.keep == std::vector<std::string>{"/metadata"}) {
            text += ", metadata only";
        } else if (!watch.keep.empty()) {
            text += ", keeps " + joined(watch.keep);
        }
        text += watch.ignore_own_writes ? ", own writes do not wake" : "";
        const std::size_t nodes = watch.predicate.node_count();
        text += watch.every_event ? ", every event\n"
                                  : ", predicate of " + std::to_string(nodes) +
                                        (nodes == 1 ? " node\n" : " nodes\n");
    }
    return text;
}

std::string webhook_text(const WebhookSpec& webhook) {
    std::string text = "  " + webhook.name + ": " +
                       (webhook.mutating ? "mutating at " : "validating at ") + webhook.path +
                       ", " + std::to_string(webhook.timeout_seconds) + "s, " +
                       (webhook.failure_policy == "Fail" ? "its failure refuses the request\n"
                                                         : "its failure is ignored\n");
    for (const WebhookRule& rule : webhook.rules) {
        text += "    " + joined(rule.operations) + " of " + joined(rule.resources) + " in group " +
                joined(rule.groups) + ", version " + joined(rule.versions) + "\n";
    }
    return text;
}

std::string rules_text(std::string_view title, const std::vector<PermissionRule>& rules) {
    std::string text = std::string(title) + ":" + (rules.empty() ? " none\n" : "\n");
    for (const PermissionRule& rule : rules) {
        text += "  " + joined(rule.verbs) + " on " + joined(rule.resources) + " of group " +
                joined(rule.groups);
        text += rule.resource_names.empty() ? "\n" : ", only " + joined(rule.resource_names) + "\n";
    }
    return text;
}

std::string manifest_text(const Manifest& manifest) {
    std::string text = "plugin:       " + manifest.id + " " + manifest.version + "\n";
    text += "ABI:          " + std::to_string(manifest.abi_major) + "." +
            std::to_string(manifest.abi_min_minor) + " or newer, built with " +
            std::to_string(manifest.abi_major) + "." + std::to_string(manifest.abi_built_minor) +
            "\n";
    text += "extensions:   " + joined(manifest.extensions) + "\n";
    text += "kubernetes:   " + (manifest.kubernetes.empty() ? "any" : manifest.kubernetes) + "\n";
    text += "services:     " + names_of(manifest.services) + "\n";
    text += "routes:       " + names_of(manifest.routes) + "\n";
    text += "webhooks:" + std::string(manifest.webhooks.empty() ? "     none\n" : "\n");
    for (const WebhookSpec& webhook : manifest.webhooks) {
        text += webhook_text(webhook);
    }
    text += "commands:     " + names_of(manifest.cli) + "\n";
    text += "gates:        " + names_of(manifest.gates.gates()) + "\n";
    text += "finalizers:   " + joined(manifest.finalizers) + "\n";
    text += "controllers:" + std::string(manifest.controllers.empty() ? "  none\n" : "\n");
    for (const ControllerSpec& controller : manifest.controllers) {
        text += controller_text(controller);
    }
    return text + rules_text("permissions", manifest.permissions) +
           rules_text("grants", manifest.grants);
}

std::string elf_text(const ElfFacts& facts) {
    return "libraries:    " + joined(facts.needed) + "\nexports:      " + joined(facts.exports) +
           "\nconstructors: " + std::to_string(facts.constructor_count) + "\n";
}

json::Value elf_json(const ElfFacts& facts) {
    json::Array needs;
    for (const VersionNeed& need : facts.version_needs) {
        needs.push_back(json::Value{{"library", need.library}, {"version", need.version}});
    }
    return json::Value{
        {"needed", list_of(facts.needed)},
        {"versionNeeds", json::Value(std::move(needs))},
        {"exports", list_of(facts.exports)},
        {"exportCount", facts.export_count},
        {"uniqueSymbols", facts.unique_count},
        {"constructors", facts.constructor_count},
        {"soname", facts.soname},
        {"runPath", facts.run_path},
        {"textRelocations", facts.text_relocations},
        {"staticTls", facts.static_tls},
        {"executableStack", facts.executable_stack},
        {"noDelete", facts.marked_nodelete},
    };
}

}  // namespace

json::Value list_of(const std::vector<std::string>& parts) {
    json::Array items;
    for (const std::string& part : parts) {
        items.emplace_back(part);
    }
    return json::Value(std::move(items));
}

std::string to_text(const Report& report) {
    std::string text = "file:         " + report.path + "\n";
    if (!report.sha256.empty()) {
        text += "size:         " + std::to_string(report.size_bytes) +
                " bytes\nsha256:       " + report.sha256 + "\n";
    }
    text += report.manifest ? manifest_text(*report.manifest) : "";
    text += report.elf ? elf_text(*report.elf) : "";
    for (const std::string& warning : report.warnings) {
        text += "warning:      " + warning + "\n";
    }
    for (const std::string& problem : report.problems) {
        text += "problem:      " + problem + "\n";
    }
    return text + (report.loadable() ? "result:       this host would load it\n"
                                     : "result:       this host refuses it\n");
}

json::Value to_json(const Report& report) {
    json::Value value{
        {"path", report.path},
        {"sizeBytes", report.size_bytes},
        {"sha256", report.sha256},
        {"loadable", report.loadable()},
        {"problems", list_of(report.problems)},
        {"warnings", list_of(report.warnings)},
    };
    if (report.elf) {
        value.set("elf", elf_json(*report.elf));
    }
    if (report.manifest) {
        value.set("manifest", report.manifest->document);
    }
    return value;
}

}  // namespace capstan::plugin
