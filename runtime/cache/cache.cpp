#include "runtime/cache/cache.hpp"

#include "runtime/cache/informer.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace capstan::cache {

struct Cache::State : std::enable_shared_from_this<Cache::State> {
    State(net::Loop& l, kube::Client& c, CacheOptions o)
        : loop(l), client(c), options(std::move(o)) {}

    struct Entry {
        std::shared_ptr<Informer> informer;  // shared with its callbacks under way
        std::size_t handles{0};
    };

    net::Loop& loop;
    kube::Client& client;
    CacheOptions options;
    std::map<WatchSpec, Entry> entries;  // loop only

    mutable std::shared_mutex mutex;  // guards views
    std::unordered_map<GroupVersionKind, std::vector<std::shared_ptr<View>>> views;

    std::vector<std::shared_ptr<View>> views_of(const GroupVersionKind& gvk) const {
        const std::shared_lock lock(mutex);
        const auto found = views.find(gvk);
        return found == views.end() ? std::vector<std::shared_ptr<View>>{} : found->second;
    }
    void release(const WatchSpec& spec) {
        const auto found = entries.find(spec);
        if (found == entries.end() || --found->second.handles > 0) {
            return;
        }
        const auto informer = found->second.informer;
        entries.erase(found);
        informer->stop();
        const std::unique_lock lock(mutex);
        const auto kind = views.find(spec.gvk);
        std::erase(kind->second, informer->view());
        if (kind->second.empty()) {
            views.erase(kind);
        }
    }
};

namespace {

class Handle final : public WatchHandle {
public:
    Handle(std::shared_ptr<Informer> informer, std::uint64_t id, std::function<void()> release)
        : informer_(std::move(informer)), id_(id), release_(std::move(release)) {}
    ~Handle() override {
        informer_->unsubscribe(id_);
        release_();
    }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;

    const WatchSpec& spec() const noexcept override { return informer_->view()->spec; }
    WatchState state() const override { return informer_->state(); }
    std::shared_ptr<const Store> store() const override {
        return {informer_->view(), &informer_->view()->store};
    }
    bool delivered() const noexcept override { return informer_->delivered(id_); }

private:
    const std::shared_ptr<Informer> informer_;
    const std::uint64_t id_;
    const std::function<void()> release_;
};

Result<std::shared_ptr<View>> make_view(const Clock& clock, const WatchSpec& spec) {
    auto view = std::make_shared<View>(clock);
    view->spec = spec;
    CAPSTAN_TRY(view->labels, kube::LabelSelector::parse(spec.label_selector));
    CAPSTAN_TRY(view->fields, kube::FieldSelector::parse(spec.field_selector));
    for (const kube::FieldTerm& term : view->fields.terms()) {
        const bool is_name = term.field == "metadata.name";
        view->metadata_fields =
            view->metadata_fields && (is_name || term.field == "metadata.namespace");
        if (is_name && term.equal) {
            view->only_name = term.value;
        }
    }
    return view;
}

// False: the watch has no first state to read, or leaves the object out. It will not show a write
// to it, and the versions of its events need not come past that of the write.
bool shows(const View& view, const ObjectKey& key) {
    const bool selects = !view.labels.empty() || !view.fields.empty();
    return view.covers(key) && view.synced &&
           (!selects || !view.metadata_fields || view.store.get(key) != nullptr ||
            !view.store.why_unreadable(key).empty());
}

std::string named(const GroupVersionKind& gvk) {
    return gvk.to_string();
}

}  // namespace

Cache::Cache(net::Loop& loop, kube::Client& client, CacheOptions options)
    : state_(std::make_shared<State>(loop, client, std::move(options))) {
    client.on_server_back([weak = state_->weak_from_this()] {
        if (const auto state = weak.lock()) {
            for (const auto& [spec, entry] : state->entries) {
                entry.informer->server_back();
            }
        }
    });
}

Cache::~Cache() {
    CAPSTAN_CHECK(state_->entries.empty(), "a watch handle outlives its cache");
}

void Cache::prefer_whole_lists(bool prefer) {
    state_->options.reflector.whole_list = prefer;
}

Result<std::unique_ptr<WatchHandle>> Cache::watch(WatchRequest request) {
    auto found = state_->entries.find(request.spec);
    if (found == state_->entries.end()) {
        if (state_->entries.size() >= kWatchesMax) {
            return fail(Code::too_large, "more than " + std::to_string(kWatchesMax) + " watches");
        }
        auto view = make_view(state_->loop, request.spec);
        if (!view) {
            return fail(with_context(view.error(), "watch of " + named(request.spec.gvk)));
        }
        for (const IndexSpec& index : request.indexes) {
            CAPSTAN_TRY(view.value()->store.add_index(index));
        }
        auto informer =
            std::make_shared<Informer>(state_->loop, state_->client, state_->options, view.value());
        found = state_->entries.emplace(request.spec, State::Entry{informer, 0}).first;
        {
            const std::unique_lock lock(state_->mutex);
            state_->views[request.spec.gvk].push_back(view.value());
        }
        informer->start();
    } else {
        for (const IndexSpec& index : request.indexes) {
            CAPSTAN_TRY(found->second.informer->view()->store.add_index(index));
        }
    }
    ++found->second.handles;
    const auto& informer = found->second.informer;
    const std::uint64_t id =
        informer->subscribe(std::move(request.on_event), std::move(request.on_state));
    auto release = [state = state_, spec = request.spec] { state->release(spec); };
    return std::unique_ptr<WatchHandle>(std::make_unique<Handle>(informer, id, std::move(release)));
}

Result<ObjectPtr> Cache::get(const GroupVersionKind& gvk, const ObjectKey& key) const {
    ObjectPtr newest;
    bool watched = false;
    bool synced = true;
    std::string unreadable;
    for (const auto& view : state_->views_of(gvk)) {
        if (!view->covers(key)) {
            continue;
        }
        watched = true;
        synced = synced && view->synced;
        unreadable = unreadable.empty() ? view->store.why_unreadable(key) : unreadable;
        ObjectPtr object = view->store.get(key);
        const bool newer =
            object && (!newest || kube::compare_resource_versions(object->resource_version(),
                                                                  newest->resource_version()) == 1);
        newest = newer ? std::move(object) : newest;
    }
    if (newest) {
        return newest;
    }
    if (!watched) {
        return fail(Code::invalid, named(gvk) + " " + key.to_string() + " is not watched");
    }
    if (!synced) {
        return fail(Code::unavailable, named(gvk) + " is not synced yet");
    }
    if (!unreadable.empty()) {
        return fail(Code::unavailable, named(gvk) + " cannot be read: " + unreadable);
    }
    return fail(Code::not_found, named(gvk) + " " + key.to_string() + " is not there");
}

Result<std::vector<ObjectPtr>> Cache::list(const GroupVersionKind& gvk,
                                           const ListQuery& query) const {
    for (const auto& view : state_->views_of(gvk)) {
        if (!view->covers_all(query.ns)) {
            continue;
        }
        if (!view->synced) {
            return fail(Code::unavailable, named(gvk) + " is not synced yet");
        }
        if (const std::string missing = view->store.why_not_whole(query); !missing.empty()) {
            return fail(Code::unavailable, "list of " + named(gvk) + " is not whole: " + missing);
        }
        return view->store.list(query);
    }
    return fail(
        Code::invalid,
        named(gvk) + " is not watched as a whole" + (query.ns.empty() ? "" : " in " + query.ns));
}

void Cache::note_write(const GroupVersionKind& gvk, const ObjectPtr& written) {
    for (const auto& view : state_->views_of(gvk)) {
        const bool selected = view->covers(written->key()) && view->labels.matches(*written) &&
                              view->metadata_fields && view->fields.matches(*written);
        if (!selected) {
            continue;
        }
        if (auto projected = Object::make(written->parse(), view->spec.projection, &gvk)) {
            view->store.overlay(std::move(projected).value());
        }
    }
}

void Cache::note_delete(const GroupVersionKind& gvk, const ObjectKey& key, std::string_view uid) {
    for (const auto& view : state_->views_of(gvk)) {
        if (view->covers(key)) {
            view->store.overlay_removed(key, uid);
        }
    }
}

bool Cache::reached(const GroupVersionKind& gvk, const ObjectKey& key, std::string_view rv) const {
    const auto views = state_->views_of(gvk);
    return std::all_of(views.begin(), views.end(), [&](const auto& view) {
        return !shows(*view, key) || view->store.reached(key, rv);
    });
}

std::vector<std::pair<WatchSpec, WatchState>> Cache::states() const {
    std::vector<std::pair<WatchSpec, WatchState>> all;
    for (const auto& [spec, entry] : state_->entries) {
        all.emplace_back(spec, entry.informer->state());
    }
    return all;
}

}  // namespace capstan::cache
