#include "runtime/kube/resources.hpp"

#include "capstan/json.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace capstan::kube {
namespace {

struct GroupVersion {
    std::map<std::string, Resource, std::less<>> kinds;
    bool fetching{false};
    std::optional<MonotonicTime> fetched;  // the last complete answer
    std::vector<std::pair<GroupVersionKind, Resources::Done>> waiting;
};

bool is_path_segment(std::string_view text) {
    return !text.empty() && text != "." && text != ".." &&
           text.find_first_of("/%?# ") == std::string_view::npos &&
           std::none_of(text.begin(), text.end(), [](char c) {
               return static_cast<unsigned char>(c) < 0x21 || c == 0x7f;
           });
}

Error not_served(const GroupVersionKind& gvk) {
    return Error{
        Code::not_found, "kind " + gvk.kind + " is not served in " + gvk.api_version(), {}};
}

// Legacy discovery document, APIResourceList.
std::map<std::string, Resource, std::less<>> parse_resource_list(const json::Value& list,
                                                                 const GroupVersionKind& of) {
    std::map<std::string, Resource, std::less<>> kinds;
    std::vector<std::string> subresources;
    for (const json::Value& item : json::View(list)["resources"].array()) {
        const json::View entry(item);
        const std::string_view name = entry["name"].string_or("");
        if (name.find('/') != std::string_view::npos) {
            subresources.emplace_back(name);
            continue;
        }
        const std::string kind(entry["kind"].string_or(""));
        if (kind.empty() || !is_path_segment(name)) {
            continue;
        }
        Resource resource{{of.group, of.version, kind},
                          std::string(name),
                          entry["namespaced"].bool_or(true),
                          {},
                          {}};
        for (const json::Value& verb : entry["verbs"].array()) {
            resource.verbs.emplace_back(verb.is_string() ? *verb.if_string() : "");
        }
        kinds.emplace(kind, std::move(resource));
    }
    for (const std::string& full : subresources) {
        const std::size_t slash = full.find('/');
        for (auto& [kind, resource] : kinds) {
            if (resource.plural == std::string_view(full).substr(0, slash)) {
                resource.subresources.push_back(full.substr(slash + 1));
            }
        }
    }
    return kinds;
}

}  // namespace

std::string Resource::group_resource() const {
    return gvk.group.empty() ? plural : plural + "." + gvk.group;
}

Result<std::string> object_path(const Resource& resource,
                                std::string_view ns,
                                std::string_view name,
                                std::string_view subresource) {
    const auto refuse = [&](std::string_view text, std::string_view what) {
        return fail(Code::invalid,
                    "\"" + std::string(text.substr(0, 80)) + "\" " + std::string(what));
    };
    if (!ns.empty() && !resource.namespaced) {
        return refuse(resource.gvk.kind, "is cluster-scoped: no namespace is allowed");
    }
    if (ns.empty() && resource.namespaced && !name.empty()) {
        return refuse(name, "needs a namespace");
    }
    if (!ns.empty() && !is_path_segment(ns)) {
        return refuse(ns, "cannot be a namespace");
    }
    if (!name.empty() && !is_path_segment(name)) {
        return refuse(name, "cannot be a name");
    }
    std::string path = resource.gvk.group.empty() ? "/api/" : "/apis/" + resource.gvk.group + "/";
    path += resource.gvk.version;
    path += ns.empty() ? "" : "/namespaces/" + std::string(ns);
    path += "/" + resource.plural;
    path += name.empty() ? "" : "/" + std::string(name);
    path += subresource.empty() ? "" : "/" + std::string(subresource);
    return path;
}

struct Resources::State {
    State(net::Loop& l, Fetch f) : loop(l), fetch(std::move(f)) {}

    net::Loop& loop;
    Fetch fetch;
    bool closed{false};
    std::map<std::string, GroupVersion> group_versions;

    static void answer_soon(const std::shared_ptr<State>& state,
                            Done done,
                            Result<Resource> result) {
        state->loop.post([state, done = std::move(done), result = std::move(result)]() mutable {
            if (!state->closed) {
                done(std::move(result));
            }
        });
    }
    static void fetched(const std::shared_ptr<State>& state,
                        const GroupVersionKind& gvk,
                        const Result<std::string>& body) {
        GroupVersion& entry = state->group_versions[gvk.api_version()];
        entry.fetching = false;
        std::optional<Error> error;
        if (body) {
            if (const auto list = json::parse(body.value())) {
                entry.kinds = parse_resource_list(list.value(), gvk);
            } else {
                error = with_context(Error{Code::unavailable, list.error().message, {}},
                                     "discovery of " + gvk.api_version());
            }
        } else if (body.error().code == Code::not_found) {
            entry.kinds.clear();
        } else {
            error = with_context(body.error(), "discovery of " + gvk.api_version());
        }
        if (!error) {
            entry.fetched = state->loop.now();
        }
        for (auto& [wanted, done] : std::exchange(entry.waiting, {})) {
            if (error) {
                answer_soon(state, std::move(done), fail(*error));
            } else if (const auto found = entry.kinds.find(wanted.kind);
                       found != entry.kinds.end()) {
                answer_soon(state, std::move(done), found->second);
            } else {
                answer_soon(state, std::move(done), fail(not_served(wanted)));
            }
        }
    }
};

Resources::Resources(net::Loop& loop, Fetch fetch)
    : state_(std::make_shared<State>(loop, std::move(fetch))) {}
Resources::~Resources() {
    state_->closed = true;
}

void Resources::resolve(const GroupVersionKind& gvk, Done done) {
    const bool good_name =
        is_path_segment(gvk.version) && (gvk.group.empty() || is_path_segment(gvk.group));
    if (!good_name) {
        State::answer_soon(state_,
                           std::move(done),
                           fail(Code::invalid, gvk.api_version() + " is not a group and version"));
        return;
    }
    const bool known = state_->group_versions.contains(gvk.api_version());
    if (!known && state_->group_versions.size() >= kGroupVersionsMax) {
        State::answer_soon(
            state_, std::move(done), fail(Code::too_large, "too many group versions"));
        return;
    }
    GroupVersion& entry = state_->group_versions[gvk.api_version()];
    if (const auto found = entry.kinds.find(gvk.kind); found != entry.kinds.end()) {
        State::answer_soon(state_, std::move(done), found->second);
        return;
    }
    if (entry.fetched && state_->loop.now() < *entry.fetched + kMissingTtl) {
        State::answer_soon(state_, std::move(done), fail(not_served(gvk)));
        return;
    }
    entry.waiting.emplace_back(gvk, std::move(done));
    if (!entry.fetching) {
        entry.fetching = true;
        const std::string target =
            (gvk.group.empty() ? "/api/" : "/apis/" + gvk.group + "/") + gvk.version;
        state_->fetch(target, [weak = std::weak_ptr(state_), gvk](Result<std::string> body) {
            if (const auto state = weak.lock(); state && !state->closed) {
                State::fetched(state, gvk, body);
            }
        });
    }
}

void Resources::forget(const GroupVersionKind& gvk) {
    if (const auto found = state_->group_versions.find(gvk.api_version());
        found != state_->group_versions.end()) {
        found->second.kinds.erase(gvk.kind);
        found->second.fetched.reset();
    }
}

}  // namespace capstan::kube
