#include "runtime/local/apiserver/api_server.hpp"

#include "runtime/local/apiserver/crd.hpp"
#include "runtime/local/apiserver/server_state.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

constexpr std::size_t kCollectorRoundsMax = 64;  // per tick: 64 x kCollectedMax objects

json::Value namespace_object(std::string_view name) {
    return {{"apiVersion", "v1"},
            {"kind", "Namespace"},
            {"metadata", {{"name", name}}},
            {"spec", {{"finalizers", json::list({"kubernetes"})}}},
            {"status", {{"phase", "Active"}}}};
}

}  // namespace

std::uint64_t Generator::next() noexcept {
    state_ += 0x9e3779b97f4a7c15ULL;  // splitmix64
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
    return mixed ^ (mixed >> 31);
}

std::string Generator::uid() {
    static constexpr std::string_view kHex = "0123456789abcdef";
    std::uint64_t words[2] = {next(), next()};
    words[0] = (words[0] & 0xffffffffffff0fffULL) | 0x4000ULL;              // version 4
    words[1] = (words[1] & 0x3fffffffffffffffULL) | 0x8000000000000000ULL;  // variant 10
    std::string out;
    for (int i = 0; i < 32; ++i) {
        if (i == 8 || i == 12 || i == 16 || i == 20) {
            out += '-';
        }
        out += kHex[(words[i / 16] >> (60 - 4 * (i % 16))) & 0xf];
    }
    return out;
}

std::string Generator::suffix() {
    static constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
    std::string out;
    for (std::uint64_t bits = next(); out.size() < 5; bits /= kLetters.size()) {
        out += kLetters[bits % kLetters.size()];
    }
    return out;
}

ApiServer::State::State(const Clock& server_clock, ApiServerOptions server_options)
    : clock(server_clock),
      options(std::move(server_options)),
      generator(options.seed),
      hub(clock, {options.history_events_max, options.history_age_max}),
      collector(store) {}

Result<void> ApiServer::State::start() {
    if (!options.data_dir.empty()) {
        CAPSTAN_TRY(persistence,
                    Persistence::open(options.data_dir,
                                      options.durability == Durability::machine,
                                      store,
                                      options.on_notice));
        store.set_journal(
            [this](const std::vector<Change>& changes) { return persistence->append(changes); });
    }
    // Another run with the same seed must not hand out the same uids again.
    generator = Generator(options.seed ^ (store.revision() * 0x2545f4914f6cdd1dULL));
    for (const auto& [key, crd] : store.objects(kCrdStorage)) {
        register_crd(crd->value);
    }
    CAPSTAN_TRY(bootstrap());
    hub.set_floor(store.revision());
    hub.compact(store.revision());
    collector.note_all();
    return ok();
}

Result<void> ApiServer::State::bootstrap() {
    std::vector<json::Value> wanted;
    for (const std::string_view name :
         {"default", "kube-system", "kube-public", "kube-node-lease"}) {
        wanted.push_back(namespace_object(name));
    }
    for (json::Value& object : bootstrap_rbac()) {
        wanted.push_back(std::move(object));
    }
    const ApiRequest system{.user = {"system:apiserver", {std::string(kGroupMasters)}}};
    store.begin();
    for (json::Value& object : wanted) {
        const json::View view(object);
        const KindPtr kind = registry.find_kind(GroupVersionKind::from_api_version(
            view["apiVersion"].string_or(""), view["kind"].string_or("")));
        const std::string ns(view["metadata"]["namespace"].string_or(""));
        const std::string key = object_key(ns, view["metadata"]["name"].string_or(""));
        if (!kind || store.find(kind->storage, key)) {
            continue;
        }
        Call call{system,
                  {},
                  kind,
                  {},
                  false,
                  false,
                  FieldValidation::ignore,
                  "kube-apiserver",
                  to_rfc3339(clock.wall_now()),
                  {}};
        call.info.ns = ns;
        if (auto created = create_object(call, std::move(object), true); !created) {
            store.rollback();
            return fail(Code::internal, "bootstrap of " + key + ": " + created.error().message);
        }
    }
    if (auto done = commit(); !done) {
        return fail(Code::unavailable, done.error().message);
    }
    return ok();
}

void ApiServer::State::register_crd(const json::Value& crd) {
    const std::string name{json::View(crd)["metadata"]["name"].string_or("")};
    for (const json::Value& condition : json::View(crd)["status"]["conditions"].array()) {
        const json::View view(condition);
        if (view["type"].string_or("") == "Established" && view["status"].string_or("") == "True") {
            registry.set_crd(name, kinds_of_crd(crd));
            return;
        }
    }
}

Answer<void> ApiServer::State::commit() {
    auto committed = store.commit();
    if (!committed) {
        return refuse(internal_error("the write was not stored and has no effect: " +
                                     committed.error().message));
    }
    const std::vector<Change>& changes = committed.value();
    for (const Change& change : changes) {
        if (change.resource != kCrdStorage) {
            continue;
        }
        if (change.after) {
            register_crd(change.after->value);
            continue;
        }
        const json::View spec = json::View(change.before->value)["spec"];
        registry.erase_crd(change.key);
        hub.end_all(storage_id(spec["group"].string_or(""), spec["names"]["plural"].string_or("")));
    }
    hub.publish(changes);
    for (const Change& change : changes) {
        collector.note(change);
    }
    if (persistence) {
        persistence->compact_if_large(store);
    }
    return boost::outcome_v2::success();
}

ApiServer::ApiServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
ApiServer::~ApiServer() = default;

Result<std::unique_ptr<ApiServer>> ApiServer::create(const Clock& clock, ApiServerOptions options) {
    auto state = std::make_unique<State>(clock, std::move(options));
    CAPSTAN_TRY(state->start());
    // tidy: allow new, private constructor
    return std::unique_ptr<ApiServer>(new ApiServer(std::move(state)));
}

ApiResponse ApiServer::handle(const ApiRequest& request) {
    if (request.body.size() > kBodyBytesMax) {
        return to_response(
            too_large("Request entity too large: limit is " + std::to_string(kBodyBytesMax)));
    }
    auto call = state_->prepare(request);
    if (!call) {
        return to_response(call.error());
    }
    auto answer = call.value().kind ? state_->dispatch(call.value())
                                    : state_->non_resource(request, call.value().info);
    ApiResponse response = answer ? std::move(answer).assume_value() : to_response(answer.error());
    for (const std::string& warning : call.value().warnings) {
        response.headers.emplace_back("Warning", "299 - " + json::dump(warning));
    }
    if (request.method == "HEAD") {
        response.body.clear();
    }
    state_->woken();
    return response;
}

bool ApiServer::is_watch(const ApiRequest& request) {
    const auto info = parse_request(request.method, request.target);
    return info && info.value().is_resource && info.value().verb == "watch";
}

WatchStart ApiServer::open_watch(const ApiRequest& request, WatchSink sink) {
    WatchStart start;
    auto call = state_->prepare(request);
    if (!call) {
        start.refused = to_response(call.error());
        return start;
    }
    if (!call.value().kind || call.value().info.verb != "watch") {
        start.refused = to_response(bad_request("not a watch"));
        return start;
    }
    auto handle = state_->watch(call.value(), std::move(sink));
    if (handle) {
        start.handle = std::move(handle).assume_value();
    } else {
        start.refused = to_response(handle.error());
    }
    state_->woken();
    return start;
}

bool ApiServer::is_pod_log(const ApiRequest& request) {
    const auto info = parse_request(request.method, request.target);
    return info && info.value().is_resource && info.value().verb == "get" &&
           info.value().group.empty() && info.value().resource == "pods" &&
           info.value().subresource == "log";
}

PodLogCheck ApiServer::check_pod_log(const ApiRequest& request) {
    PodLogCheck check;
    auto call = state_->prepare(request);
    if (!call) {
        check.refused = to_response(call.error());
        return check;
    }
    auto wanted = state_->pod_log(call.value());
    if (wanted) {
        check.allowed = true;
        check.request = std::move(wanted).assume_value();
    } else {
        check.refused = to_response(wanted.error());
    }
    return check;
}

void ApiServer::tick() {
    State& state = *state_;
    const ApiRequest system{.method = "DELETE",
                            .user = {"system:apiserver", {std::string(kGroupMasters)}}};
    const auto call_for = [&](const ObjectAddress& at) {
        Call call{system,
                  {},
                  state.registry.by_storage(at.resource),
                  {},
                  false,
                  false,
                  FieldValidation::ignore,
                  "kube-controller-manager",
                  to_rfc3339(state.clock.wall_now()),
                  {}};
        const std::size_t slash = at.key.find('/');
        call.info.ns = slash == std::string::npos ? std::string() : at.key.substr(0, slash);
        call.info.name = slash == std::string::npos ? at.key : at.key.substr(slash + 1);
        call.info.resource = call.kind ? call.kind->plural : at.resource;
        call.info.verb = "delete";
        return call;
    };
    const CollectorActions actions{[&](const ObjectAddress& at) {
                                       Call call = call_for(at);
                                       if (call.kind && state.store.find(at.resource, at.key)) {
                                           // refused by a full disk: the next start sees the orphan
                                           // again
                                           (void)state.remove(call);
                                       }
                                   },
                                   [&](const ObjectAddress& at, json::Value updated) {
                                       Call call = call_for(at);
                                       const StoredPtr live = state.store.find(at.resource, at.key);
                                       if (!call.kind || !live) {
                                           return;
                                       }
                                       state.store.begin();
                                       const auto stored =
                                           state.store_update(call, live, std::move(updated), true);
                                       if (!stored) {
                                           state.store.rollback();
                                       } else {
                                           (void)state.commit();
                                       }
                                   }};
    for (std::size_t round = 0; round < kCollectorRoundsMax && !state.collector.idle(); ++round) {
        state.collector.run(actions);
    }
    state.hub.tick(state.store.revision());
}

MonotonicTime ApiServer::next_tick() const {
    return state_->collector.idle() ? state_->hub.next_tick() : state_->clock.now();
}

void ApiServer::set_wake(std::function<void()> wake) {
    state_->wake = std::move(wake);
}
void ApiServer::compact_history() {
    state_->hub.compact(state_->store.revision());
}
std::uint64_t ApiServer::revision() const {
    return state_->store.revision();
}

std::string ApiServer::read(std::string_view resource,
                            std::string_view ns,
                            std::string_view name) const {
    const StoredPtr found = state_->store.find(resource, object_key(ns, name));
    return found ? found->text : std::string();
}

}  // namespace capstan::local
