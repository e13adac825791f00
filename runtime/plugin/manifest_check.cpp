// What a manifest must satisfy as a whole.
#include "runtime/plugin/manifest_reader.hpp"

#include <algorithm>
#include <set>

namespace capstan::plugin {

namespace {

bool has(const std::vector<std::string>& list, std::string_view wanted) {
    return std::any_of(list.begin(), list.end(), [wanted](const std::string& entry) {
        return entry == wanted || entry == "*";
    });
}

template <class Items>
void check_names(const Items& items, const std::string& path, Problems& problems) {
    std::set<std::string, std::less<>> seen;
    for (std::size_t i = 0; i < items.size(); ++i) {
        const std::string at = path + "/" + std::to_string(i) + "/name";
        if (!items[i].name.empty() && !is_dns_label(items[i].name)) {
            problems.add(at, "expected lower-case letters, digits and '-', at most 63");
        }
        if (!seen.insert(items[i].name).second) {
            problems.add(at, "\"" + items[i].name + "\" is there twice");
        }
    }
}

void check_abi(const Manifest& manifest, const HostOffer& host, Problems& problems) {
    const std::string offered =
        std::to_string(host.abi_major) + "." + std::to_string(host.abi_minor);
    if (manifest.abi_major != 0 && manifest.abi_major != host.abi_major) {
        problems.add("/abi/major",
                     "the plugin speaks ABI major " + std::to_string(manifest.abi_major) +
                         ", this host speaks " + offered +
                         "; rebuild the plugin with this host's SDK");
    } else if (manifest.abi_min_minor > host.abi_minor) {
        problems.add("/abi/minMinor",
                     "the plugin needs ABI " + std::to_string(manifest.abi_major) + "." +
                         std::to_string(manifest.abi_min_minor) + ", this host speaks " + offered +
                         "; use a newer host");
    }
}

void check_extensions(const Manifest& manifest, const HostOffer& host, Problems& problems) {
    const std::vector<std::string>& offered =
        host.extensions.empty() ? known_extensions() : host.extensions;
    for (std::size_t i = 0; i < manifest.extensions.size(); ++i) {
        const std::string& id = manifest.extensions[i];
        const std::string at = "/requires/extensions/" + std::to_string(i);
        if (id.starts_with("capstan.draft.") && !host.draft_extensions) {
            problems.add(at, "\"" + id + "\" is a draft; it needs the gate DraftExtensions");
        } else if (std::find(offered.begin(), offered.end(), id) == offered.end()) {
            const std::string meant = nearest(id, offered);
            problems.add(at,
                         "this host has no extension \"" + id + "\"" +
                             (meant.empty() ? "" : "; did you mean \"" + meant + "\"?"));
        }
    }
}

// A watch that names one object may be covered by a rule for names.
bool covers(const PermissionRule& rule, std::string_view verb, const Watch& watch) {
    if (!has(rule.verbs, verb) || !has(rule.groups, watch.gvk.group) ||
        !has(rule.resources, plural_of(watch.gvk.kind))) {
        return false;
    }
    if (rule.resource_names.empty()) {
        return true;
    }
    const auto& name = watch.select.name;
    return name &&
           (name->kind != ValueSource::Kind::literal || has(rule.resource_names, name->text));
}

void check_writes(const Manifest& manifest, Problems& problems) {
    const bool writes = std::any_of(
        manifest.permissions.begin(), manifest.permissions.end(), [](const PermissionRule& rule) {
            return has(rule.verbs, "patch");
        });
    if (writes && manifest.field_manager.empty()) {
        problems.add(
            "/fieldManager",
            "missing; a plugin with the permission to patch applies under a field manager");
    }
}

void check_routes(const Manifest& manifest, Problems& problems) {
    std::set<std::string> seen;
    for (std::size_t i = 0; i < manifest.routes.size(); ++i) {
        const RouteSpec& route = manifest.routes[i];
        const std::string& place = route.path.empty() ? route.prefix : route.path;
        std::vector<std::string> methods = route.methods;
        if (methods.empty()) {
            methods.emplace_back("every method of");
        }
        for (const std::string& method : methods) {
            if (!seen.insert(method + " " + place).second) {
                problems.add("/routes/" + std::to_string(i),
                             method + " " + place + " is there twice");
            }
        }
    }
}

void check_webhooks(const Manifest& manifest, Problems& problems) {
    std::set<std::string> seen;
    for (std::size_t i = 0; i < manifest.webhooks.size(); ++i) {
        const std::string& path = manifest.webhooks[i].path;
        if (!path.empty() && !seen.insert(path).second) {
            problems.add("/webhooks/" + std::to_string(i),
                         "the path " + path + " is there twice; give one of them a \"path\"");
        }
    }
}

}  // namespace

const std::vector<std::string>& known_extensions() {
    static const std::vector<std::string> kExtensions = {
        "capstan.cache/1",
        "capstan.call/1",
        "capstan.cli/1",
        "capstan.client/1",
        "capstan.clock/1",
        "capstan.digest/1",
        "capstan.events/1",
        "capstan.features/1",
        "capstan.http-server/1",
        "capstan.http/1",
        "capstan.metrics/1",
        "capstan.queue/1",
        "capstan.service/1",
        "capstan.webhook/1",
    };
    return kExtensions;
}

std::string plural_of(std::string_view kind) {
    std::string lower(kind);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    if (lower == "endpoints" || lower.empty()) {
        return lower;
    }
    const char last = lower.back();
    if (last == 's' || last == 'x' || lower.ends_with("ch") || lower.ends_with("sh")) {
        return lower + "es";
    }
    const bool vowel_before =
        lower.size() > 1 &&
        std::string_view("aeiou").find(lower[lower.size() - 2]) != std::string_view::npos;
    if (last == 'y' && !vowel_before) {
        return lower.substr(0, lower.size() - 1) + "ies";
    }
    return lower + "s";
}

bool Manifest::allows(std::string_view verb,
                      std::string_view group,
                      std::string_view resource,
                      std::string_view name) const {
    return std::any_of(permissions.begin(), permissions.end(), [&](const PermissionRule& rule) {
        return has(rule.verbs, verb) && has(rule.groups, group) && has(rule.resources, resource) &&
               (rule.resource_names.empty() || (!name.empty() && has(rule.resource_names, name)));
    });
}

void check_watch_permissions(const Manifest& manifest, Problems& problems) {
    for (std::size_t c = 0; c < manifest.controllers.size(); ++c) {
        for (const Watch& watch : manifest.controllers[c].watches) {
            if (watch.gvk.kind.empty()) {
                continue;
            }
            std::string missing;
            for (const std::string_view verb : {"get", "list", "watch"}) {
                const bool covered = std::any_of(
                    manifest.permissions.begin(),
                    manifest.permissions.end(),
                    [&](const PermissionRule& rule) { return covers(rule, verb, watch); });
                if (!covered) {
                    missing += (missing.empty() ? "" : ", ") + std::string(verb);
                }
            }
            if (!missing.empty()) {
                problems.add("/controllers/" + std::to_string(c) + "/watches",
                             "watches " + watch.gvk.to_string() + " without the permission to " +
                                 missing + " " + plural_of(watch.gvk.kind) + " of group \"" +
                                 watch.gvk.group + "\"");
            }
        }
    }
}

void check_manifest(const Manifest& manifest, const HostOffer& host, Problems& problems) {
    check_abi(manifest, host, problems);
    check_extensions(manifest, host, problems);
    check_names(manifest.controllers, "/controllers", problems);
    check_names(manifest.services, "/services", problems);
    check_names(manifest.routes, "/routes", problems);
    check_names(manifest.webhooks, "/webhooks", problems);
    check_names(manifest.cli, "/cli", problems);
    check_watch_permissions(manifest, problems);
    check_writes(manifest, problems);
    check_routes(manifest, problems);
    check_webhooks(manifest, problems);
    if (manifest.isolation_minimum == "process") {
        problems.add("/isolation/minimum",
                     "the plugin demands a process of its own, which this host does not have yet; "
                     "it runs plugins in its own process only");
    }
    if (manifest.controllers.empty() && manifest.services.empty() && manifest.routes.empty() &&
        manifest.cli.empty() && manifest.webhooks.empty()) {
        problems.add(
            "", "the plugin offers nothing: no controllers, services, routes, webhooks or cli");
    }
}

}  // namespace capstan::plugin
