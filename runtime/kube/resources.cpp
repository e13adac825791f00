#include "runtime/kube/resources.hpp"

#include "capstan/json.hpp"
#include "runtime/kube/discovery.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace capstan::kube {
namespace {

struct GroupVersion {
    Kinds kinds;
    bool fetching{false};
    std::optional<MonotonicTime> fetched;  // the last complete answer
    int missing{0};                        // complete answers in a row without what was asked for
    std::vector<std::pair<GroupVersionKind, Resources::Done>> waiting;
};

Error not_served(const GroupVersionKind& gvk) {
    return Error{
        Code::not_found, "kind " + gvk.kind + " is not served in " + gvk.api_version(), {}};
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

    // The one document of all groups, or of the core group.
    enum class All : std::uint8_t { unasked, asked, answered };

    net::Loop& loop;
    Fetch fetch;
    bool closed{false};
    std::map<std::string, GroupVersion> group_versions;
    All core{All::unasked};
    All groups{All::unasked};

    static void answer_soon(const std::shared_ptr<State>& state,
                            Done done,
                            Result<Resource> result) {
        state->loop.post([state, done = std::move(done), result = std::move(result)]() mutable {
            if (!state->closed) {
                done(std::move(result));
            }
        });
    }

    static void answer_all(const std::shared_ptr<State>& state,
                           GroupVersion& entry,
                           const std::optional<Error>& error) {
        entry.fetching = false;
        if (!error) {
            entry.fetched = state->loop.now();
        }
        bool missing = false;
        for (auto& [wanted, done] : std::exchange(entry.waiting, {})) {
            if (error) {
                answer_soon(state, std::move(done), fail(*error));
            } else if (const auto found = entry.kinds.find(wanted.kind);
                       found != entry.kinds.end()) {
                answer_soon(state, std::move(done), found->second);
            } else {
                missing = true;
                answer_soon(state, std::move(done), fail(not_served(wanted)));
            }
        }
        entry.missing = missing ? entry.missing + 1 : 0;
    }

    // How long an answer that lacked something is believed.
    static std::chrono::seconds missing_ttl(const GroupVersion& entry) {
        auto ttl = kMissingTtl;
        for (int i = 1; i < entry.missing && ttl < kMissingTtlMax; ++i) {
            ttl = std::min(2 * ttl, kMissingTtlMax);
        }
        return ttl;
    }

    static void take_one(const std::shared_ptr<State>& state,
                         const GroupVersionKind& gvk,
                         const Result<net::HttpResponse>& answer) {
        GroupVersion& entry = state->group_versions[gvk.api_version()];
        std::optional<Error> error;
        if (answer) {
            if (const auto list = json::parse(answer.value().body)) {
                entry.kinds = parse_resource_list(list.value(), gvk);
            } else {
                error = Error{Code::unavailable, list.error().message, {}};
            }
        } else if (answer.error().code == Code::not_found) {
            entry.kinds.clear();
        } else {
            error = answer.error();
        }
        if (error) {
            error = with_context(*error, "discovery of " + gvk.api_version());
        }
        answer_all(state, entry, error);
    }

    // What this answer cannot settle is asked for one by one.
    static void take_aggregated(const std::shared_ptr<State>& state,
                                bool of_core,
                                const Result<net::HttpResponse>& answer) {
        All& all = of_core ? state->core : state->groups;
        all = All::answered;
        std::map<std::string, DiscoveredVersion> found;
        bool complete = false;
        if (answer && is_aggregated(net::find_header(answer.value().headers, "Content-Type"))) {
            const auto list =
                json::parse(answer.value().body, {json::kDepthMax, kDiscoveryBytesMax});
            if (list) {
                complete = true;
                found = parse_aggregated(list.value(), [&](const std::string& api_version) {
                    return state->group_versions.contains(api_version);
                });
            }
        }
        const bool away = !answer && (answer.error().code == Code::unavailable ||
                                      answer.error().code == Code::overloaded ||
                                      answer.error().code == Code::timeout);
        if (away) {
            all = All::unasked;
        }
        for (auto& [api_version, entry] : state->group_versions) {
            if (!entry.fetching || entry.waiting.empty() ||
                (api_version.find('/') == std::string::npos) != of_core) {
                continue;
            }
            const auto version = found.find(api_version);
            if (away) {
                answer_all(
                    state, entry, with_context(answer.error(), "discovery of " + api_version));
            } else if (!complete || (version != found.end() && version->second.stale)) {
                fetch_one(state, entry.waiting.front().first);
            } else {
                entry.kinds = version == found.end() ? Kinds{} : std::move(version->second.kinds);
                answer_all(state, entry, std::nullopt);
            }
        }
    }

    static void fetch_one(const std::shared_ptr<State>& state, const GroupVersionKind& gvk) {
        const std::string target =
            (gvk.group.empty() ? "/api/" : "/apis/" + gvk.group + "/") + gvk.version;
        state->fetch(target,
                     "",
                     [weak = std::weak_ptr(state), gvk](const Result<net::HttpResponse>& answer) {
                         if (const auto alive = weak.lock(); alive && !alive->closed) {
                             take_one(alive, gvk, answer);
                         }
                     });
    }

    static void begin(const std::shared_ptr<State>& state, const GroupVersionKind& gvk) {
        const bool of_core = gvk.group.empty();
        All& all = of_core ? state->core : state->groups;
        if (all == All::answered) {
            fetch_one(state, gvk);
            return;
        }
        if (all == All::asked) {
            return;
        }
        all = All::asked;
        state->fetch(
            of_core ? "/api" : "/apis",
            std::string(kAggregatedAccept),
            [weak = std::weak_ptr(state), of_core](const Result<net::HttpResponse>& answer) {
                if (const auto alive = weak.lock(); alive && !alive->closed) {
                    take_aggregated(alive, of_core, answer);
                }
            });
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
    if (entry.fetched && state_->loop.now() < *entry.fetched + State::missing_ttl(entry)) {
        State::answer_soon(state_, std::move(done), fail(not_served(gvk)));
        return;
    }
    entry.waiting.emplace_back(gvk, std::move(done));
    if (!std::exchange(entry.fetching, true)) {
        State::begin(state_, gvk);
    }
}

void Resources::forget(const GroupVersionKind& gvk) {
    if (const auto found = state_->group_versions.find(gvk.api_version());
        found != state_->group_versions.end()) {
        found->second.kinds.erase(gvk.kind);
        found->second.fetched.reset();
        found->second.missing = 0;
    }
}

}  // namespace capstan::kube
