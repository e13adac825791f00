// Inside of Cache: one watched selection, driven by its reflector. Not for other folders.
#pragma once

#include "runtime/cache/cache.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <string>

namespace capstan::cache {

// What readers of other threads may touch: constant but for the store, which locks itself, and two
// atomics.
struct View {
    explicit View(const Clock& clock) : store(clock) {}

    WatchSpec spec;
    kube::LabelSelector labels;
    kube::FieldSelector fields;
    std::string only_name;       // from metadata.name=…; empty: all
    bool metadata_fields{true};  // `fields` can be evaluated on an object as the server does
    Store store;
    std::atomic<bool> synced{false};

    bool covers(const ObjectKey& key) const noexcept {
        return (spec.ns.empty() || spec.ns == key.ns) &&
               (only_name.empty() || only_name == key.name);
    }
    bool covers_all(std::string_view ns) const noexcept {
        return (spec.ns.empty() || spec.ns == ns) && labels.empty() && fields.empty();
    }
};

class Informer : public std::enable_shared_from_this<Informer> {
public:
    Informer(net::Loop& loop,
             kube::Client& client,
             const CacheOptions& options,
             std::shared_ptr<View> view);

    void start();
    void stop();  // nothing is called after this
    void server_back();
    // Replays what is there, then delivers. Returns the subscription's id.
    std::uint64_t subscribe(Subscriber on_event, StateChanged on_state);
    void unsubscribe(std::uint64_t id);
    bool delivered(std::uint64_t id) const;
    WatchState state() const;
    const std::shared_ptr<View>& view() const noexcept { return view_; }

private:
    struct Subscription {
        Subscriber on_event;
        StateChanged on_state;
        bool active{false};  // has been given what was there
        bool delivered{false};
    };

    void perform(Action action);
    void open_list(const Action& action);
    void open_watch(const Action& action);
    void on_page(Result<kube::ListPage> page);
    void on_event(kube::WatchEvent event);
    void on_unreadable(const Step& step, kube::Unreadable one);
    void open_check(const std::string& version);
    bool known(const kube::ListPage& page, std::string_view version) const;
    void take(Step step, ObjectPtr object, EventKind kind, std::string_view version);
    void commit(const Step& step);
    void deliver(const std::vector<Event>& events);
    void activate(std::uint64_t id);
    void rearm();
    void tell_state();
    void note_end(std::string_view reason);  // of a stream
    std::string reason() const;

    net::Loop& loop_;
    kube::Client& client_;
    CacheObserver* const observer_;
    const std::shared_ptr<View> view_;
    ReflectorFsm fsm_;
    std::string group_resource_;  // for messages; the kind until discovery has answered
    std::string_view verb_{"list"};
    MonotonicTime last_event_{kNever};
    MonotonicTime last_bytes_{kNever};
    bool watching_{false};  // a stream is open or opening
    std::string wrong_;     // objects that cannot be read
    kube::CallHandle call_;
    kube::CallHandle check_;  // beside a watch
    std::unique_ptr<net::Timer> timer_;
    MonotonicTime timer_at_{kNever};
    Shadow shadow_;
    std::vector<kube::Unreadable> unreadable_;  // beside the shadow
    // shared with deliveries under way
    std::map<std::uint64_t, std::shared_ptr<Subscription>> subscriptions_;
    std::uint64_t sequence_{0};
    bool running_{false};
    std::string told_;  // state last told
};

}  // namespace capstan::cache
