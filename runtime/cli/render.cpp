#include "runtime/cli/render.hpp"

#include "runtime/cli/manifests.hpp"
#include "runtime/cli/offline_operator.hpp"
#include "runtime/cli/paths.hpp"
#include "runtime/cli/readiness.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <set>

namespace capstan::cli {
namespace {

using Objects = std::map<std::pair<GroupVersionKind, ObjectKey>, json::Value>;

void say(const std::string& text) {
    std::fprintf(stderr, "capstan render: %s\n", text.c_str());
}

int complain(const Error& error, int code) {
    say(error.message);
    return code;
}

GroupVersionKind kind_of(const json::View& object) {
    return GroupVersionKind::from_api_version(object["apiVersion"].string_or(""),
                                              object["kind"].string_or(""));
}

ObjectKey key_of(const json::View& object) {
    return {std::string(object["metadata"]["namespace"].string_or("")),
            std::string(object["metadata"]["name"].string_or(""))};
}

// "etcd.EtcdMember=true"; the plugin's name may have dots itself.
Result<void> set_gate(const std::string& text, config::OperatorConfig& config) {
    const std::size_t equals = text.find('='), dot = text.rfind('.', equals);
    const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    if (dot == std::string::npos || dot == 0 || dot + 1 == equals ||
        (value != "true" && value != "false")) {
        return fail(Code::invalid,
                    "--feature-gates " + text +
                        ": write PLUGIN.GATE=true or PLUGIN.GATE=false, as etcd.EtcdMember=true");
    }
    const std::string plugin = text.substr(0, dot);
    const auto found = config.plugins.find(plugin);
    if (found == config.plugins.end() || !found->second.enabled) {
        std::string known;
        for (const auto& [name, settings] : config.plugins) {
            known += settings.enabled ? (known.empty() ? "" : ", ") + name : "";
        }
        return fail(Code::invalid,
                    "--feature-gates " + text + ": plugin " + plugin +
                        " does not run here; those that do: " + known);
    }
    found->second.feature_gates[text.substr(dot + 1, equals - dot - 1)] = value == "true";
    return ok();
}

Result<config::CheckedConfig> load_config(const RenderOptions& options) {
    config::CheckedConfig checked;
    if (!options.config.empty()) {
        CAPSTAN_TRY(checked, config::check_operator_config_file(options.config));
    } else if (options.plugins.empty()) {
        checked.config.plugins["etcd"] = {};
        checked.config.plugins["custodian"] = {};
    }
    auto& plugins = checked.config.plugins;
    if (!options.plugins.empty()) {
        std::erase_if(plugins, [&](const auto& entry) {
            return std::find(options.plugins.begin(), options.plugins.end(), entry.first) ==
                   options.plugins.end();
        });
        for (const std::string& name : options.plugins) {
            plugins[name].enabled = true;
        }
    }
    for (const std::string& gate : options.feature_gates) {
        CAPSTAN_TRY(set_gate(gate, checked.config));
    }
    checked.config.webhook.enabled = true;  // nobody asks for one here: not worth a warning
    return checked;
}

// Kinds first, then what holds objects, then the rest as it was given.
int turn_of(const config::Document& document) {
    const std::string_view kind = json::View(document.value)["kind"].string_or("");
    return kind == "CustomResourceDefinition" ? 0 : kind == "Namespace" ? 1 : 2;
}

// Where the field stands that the server speaks of: the longest path of the document that is in
// its text, as "spec.etcd.quota:" or ".spec.etcd.quota:"; else where the document begins.
std::string position_of(const config::Document& document, const std::string& message) {
    std::string best;
    for (const auto& [path, line] : document.lines) {
        std::string dotted;
        for (std::size_t at = 1; at < path.size();) {
            const std::size_t end = std::min(path.find('/', at), path.size());
            const std::string token = path.substr(at, end - at);
            const bool index = token.find_first_not_of("0123456789") == std::string::npos;
            dotted += index ? "[" + token + "]" : (dotted.empty() ? "" : ".") + token;
            at = end + 1;
        }
        const std::size_t found = message.find(dotted + ":");
        const bool whole =
            found != std::string::npos && (found == 0 || message[found - 1] == ' ' ||
                                           message[found - 1] == '.' || message[found - 1] == '[');
        if (whole && path.size() > best.size()) {
            best = path;
        }
    }
    return document.position(best);
}

Result<json::Value> give_object(LocalClient& client, const json::Value& object) {
    auto stored = client.apply(as_given(object));
    if (!stored && stored.error().code == Code::not_found) {
        const json::View view(object);
        return fail(Code::not_found,
                    "kind " + std::string(view["kind"].string_or("")) + " of " +
                        std::string(view["apiVersion"].string_or("")) +
                        " is not known here; remedy: give its CustomResourceDefinition with -f");
    }
    const json::Value* status = object.find("status");
    if (!stored || status == nullptr || json::View(*status).object().empty()) {
        return stored;
    }
    // Facts that nobody reports here.
    const json::View view(stored.value());
    json::Value metadata = {{"name", view["metadata"]["name"].string_or("")}};
    if (const auto ns = view["metadata"]["namespace"].string_or(""); !ns.empty()) {
        metadata.set("namespace", ns);
    }
    const json::Value facts = {
        {"apiVersion", view["apiVersion"].string_or("")},
        {"kind", view["kind"].string_or("")},
        {"metadata", std::move(metadata)},
        {"status", *status},
    };
    return client.apply(facts, "status");
}

Result<json::Value> give(LocalClient& client, const config::Document& document) {
    auto stored = give_object(client, document.value);
    if (!stored) {
        const std::string position = position_of(document, stored.error().message);
        return fail(with_context(stored.error(), position));
    }
    return stored;
}

// Errors: invalid, the first object that the server refuses, with its file and line.
Result<Objects> give_all(OfflineOperator& offline,
                         std::vector<config::Document> documents,
                         const std::string& ns) {
    std::stable_sort(documents.begin(), documents.end(), [](const auto& a, const auto& b) {
        return turn_of(a) < turn_of(b);
    });
    std::set<std::string> namespaces{ns};
    for (const config::Document& document : documents) {
        namespaces.emplace(json::View(document.value)["metadata"]["namespace"].string_or(ns));
    }
    Objects given;
    int turn = 0;
    for (const config::Document& document : documents) {
        if (turn_of(document) != turn) {
            turn = turn_of(document);
            offline.pause();
        }
        if (turn == 2 && !namespaces.empty()) {
            for (const std::string& name : std::exchange(namespaces, {})) {
                const json::Value made = {
                    {"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name}}}};
                CAPSTAN_TRY(offline.client().apply(made));
            }
        }
        CAPSTAN_TRY(json::Value stored, give(offline.client(), document));
        const json::View view(stored);
        const std::pair place{kind_of(view), key_of(view)};
        given[place] = std::move(stored);
    }
    return given;
}

// Says what the given objects wait for. False: one of them is refused.
bool report_readiness(OfflineOperator& offline, const Objects& given) {
    bool good = true;
    for (const auto& [place, before] : given) {
        const auto object = offline.client().get(place.first, place.second);
        if (!object) {
            say(place.first.kind + " " + place.second.to_string() + ": is gone");
            continue;
        }
        const bool custom = place.first.group.find('.') != std::string::npos &&
                            !place.first.group.ends_with(".k8s.io");
        const Readiness readiness = readiness_of(object.value(), custom);
        good = good && !readiness.refused;
        for (const std::string& what : readiness.awaits) {
            say((readiness.refused ? "refused: " : "awaited: ") + what);
            if (readiness.refused) {
                break;
            }
        }
    }
    return good;
}

// Without Secrets of the plugins, unless asked for: what a plugin makes up is another one each
// time, and is a secret no longer once it is in a repository.
std::vector<json::Value> collect(OfflineOperator& offline,
                                 const Objects& given,
                                 const RenderOptions& options) {
    std::set<std::pair<GroupVersionKind, ObjectKey>> places;
    for (const Written& written : offline.written()) {
        if (written.gvk.kind == "Secret" && written.gvk.group.empty() && !options.secrets &&
            !given.contains({written.gvk, written.key})) {
            say("left out: Secret " + written.key.to_string() +
                ": an operator makes it with values of its own; --secrets prints this one");
        } else {
            places.emplace(written.gvk, written.key);
        }
    }
    for (const auto& [place, object] : given) {
        if (options.all) {
            places.insert(place);
        } else {
            places.erase(place);
        }
    }
    std::vector<json::Value> objects;
    for (const auto& [gvk, key] : places) {
        if (auto object = offline.client().get(gvk, key)) {
            objects.push_back(as_printed(std::move(object).value(), options.shape));
        }
    }
    sort_for_apply(objects);
    return objects;
}

int render(OfflineOperator& offline,
           const Review& review,
           std::vector<config::Document> documents,
           const RenderOptions& options) {
    const auto given = give_all(offline, std::move(documents), options.ns);
    if (!given) {
        return complain(given.error(), 2);
    }
    for (const ReviewedPlugin& reviewed : review.plugins) {
        if (const auto added = offline.add(reviewed); !added) {
            return complain(added.error(), 3);
        }
    }
    if (const auto rest = offline.settle(); !rest) {
        for (const std::string& failure : offline.failures()) {
            say(failure);
        }
        return complain(rest.error(), 1);
    }
    const bool accepted = report_readiness(offline, given.value());
    const std::vector<std::string> failures = offline.failures();
    for (const std::string& failure : failures) {
        say(failure);
    }
    if (!failures.empty() || !accepted) {
        return failures.empty() ? 1 : 3;
    }
    const std::vector<json::Value> objects = collect(offline, given.value(), options);
    if (objects.empty()) {
        say("the plugins make no objects of this");
    }
    std::fputs(to_text(objects, options.shape).c_str(), stdout);
    return 0;
}

}  // namespace

int run_render(const RenderOptions& options) {
    auto documents = load_manifests(options.files);
    if (!documents) {
        return complain(documents.error(), 2);
    }
    const auto checked = load_config(options);
    if (!checked) {
        return complain(checked.error(), 2);
    }
    const Review review = review_plugins(checked.value(), options.config, options.plugin_dirs);
    if (const int code = report(review, "capstan render"); code != 0) {
        return code;
    }
    const auto paths = Paths::find();
    if (!paths) {
        return complain(paths.error(), 2);
    }
    OfflineOptions offline_options;
    offline_options.ns = options.ns;
    offline_options.shape = options.shape;
    offline_options.timeout = options.timeout;
    if (options.verbose) {
        offline_options.log_level = obs::Level::info;
    }
    auto offline = OfflineOperator::create(std::move(offline_options));
    if (!offline) {
        return complain(offline.error(), 1);
    }
    if (const auto installed = install_crds(offline.value()->client(), paths.value().data_dir);
        !installed) {
        return complain(installed.error(), 2);
    }
    offline.value()->pause();
    const int code = render(*offline.value(), review, std::move(documents).value(), options);
    offline.value()->stop();
    return code;
}

}  // namespace capstan::cli
