// Drives the real ReflectorFsm and the real Store as cache/informer.cpp does, with requests that a
// RandomServer answers, badly at times: errors, lagging replicas, events twice, lost bookmarks,
// broken and expired streams, data set back.
//
// Every list of events of the store is handed on; what it must never say is checked by the caller.
#pragma once

#include "runtime/cache/reflector_fsm.hpp"
#include "runtime/cache/store.hpp"
#include "test/fakes/virtual_loop.hpp"
#include "test/model/random_server.hpp"

#include <functional>
#include <vector>

namespace capstan::model {

class ModelWatcher {
public:
    struct Commit {
        bool reset{false};
        std::uint64_t rv{0};
    };
    struct Listener {
        std::function<void(const Commit&)> before_commit;
        std::function<void(const std::vector<cache::Event>&, bool initial)> on_events;
    };

    ModelWatcher(test::VirtualLoop& loop, RandomServer& server, Random& random, Listener listener);

    void progress();                    // the request under way comes one step further
    void break_off();                   // it fails
    void time_moved();                  // runs the deadline if it has passed
    void calm(bool on) { calm_ = on; }  // from now on nothing goes wrong
    // Nothing to do before the deadline: waiting, or every event has been delivered.
    bool idle() const;
    bool live() const;  // a watch is open and everything was delivered
    const cache::ReflectorFsm& fsm() const { return fsm_; }
    cache::Store& store() { return store_; }

private:
    struct Call {
        enum class Kind : std::uint8_t { none, list, watch } kind{Kind::none};
        cache::Action action;
        Snapshot snapshot;  // list, or initial events
        std::size_t next{0};
        bool begun{false};
        bool initial{false};
        bool silent{false};  // a stream from a version that is yet to come
        std::uint64_t event{0};
    };

    std::uint64_t pick(std::uint64_t n) { return random_() % n; }
    bool unlucky(std::uint64_t one_in) { return !calm_ && pick(one_in) == 0; }
    Error random_error();
    Snapshot snapshot_for(const std::string& asked);
    void perform(cache::Action action);
    void take(cache::Step step, ObjectPtr object, cache::EventKind kind, std::uint64_t rv);
    void list_page();
    void open_watch();
    void initial_event();
    void next_event();
    void end(const Result<void>& result);
    void answer_check();

    test::VirtualLoop& loop_;
    RandomServer& server_;
    Random& random_;
    const Listener listener_;
    cache::ReflectorFsm fsm_;
    cache::Store store_;
    cache::Shadow shadow_;
    Call call_;
    std::string check_;  // its version; empty: none under way
    bool calm_{false};
};

}  // namespace capstan::model
