// When to list, when to watch, when to wait: the decisions that keep one watched selection up to
// date. No I/O, no clock.
//
// The driver performs the one action last returned, feeds what happens, and calls on_timer() when
// deadline() has passed. An action that is no `keep` replaces the one before it: its requests are
// dropped. Time is monotonic and handed in; so clock jumps do not matter. Source: client-go
// tools/cache/reflector.go, with consistent first lists and never a step back. Thread: [io].
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::cache {

struct ReflectorOptions {
    // try streaming the first state; falls back for good when the server cannot
    bool watch_list{true};
    // Before that, one list without pages: half the work of a stream for a server that sends such a
    // list while it encodes it (Kubernetes 1.33), all in memory for an older one. Not asked for
    // again once one was refused or cut. docs/adr/0003-whole-lists.md
    bool whole_list{false};
    std::chrono::seconds watch_timeout_min{300};  // asked of the server, random in between
    std::chrono::seconds watch_timeout_max{600};
    std::chrono::seconds watch_grace{10};       // past the timeout: the connection is dropped
    std::chrono::seconds initial_end_min{30};   // the end bookmark must come within this,
    std::chrono::seconds initial_end_quiet{5};  // or while events keep coming at least this often
    std::chrono::milliseconds backoff_first{800};
    std::chrono::milliseconds backoff_max{30'000};
    // Instead, while no answer comes or one that costs the server nothing (forbidden).
    std::chrono::milliseconds cheap_backoff_max{10'000};
    std::chrono::seconds backoff_reset{120};  // this long without trouble
    std::chrono::seconds reset_after{120};    // older lists for this long: the world was reset
};

inline constexpr int kWatchFailuresMax = 5;            // without progress; then a list is tried
inline constexpr std::chrono::seconds kShortWatch{1};  // shorter without any event: back off
inline constexpr std::chrono::seconds kIdleMin{60};    // silence tolerated in any case
inline constexpr std::chrono::seconds kBackSpread{1};  // all watches of a server come back within
inline constexpr int kCadenceBookmarks = 3;            // gaps seen before silence means anything

enum class LogLevel : std::uint8_t { debug, info, warn, error };
struct LogLine {
    LogLevel level{LogLevel::debug};
    std::string message;  // constant text
    std::string error;    // code and text, or ""
    bool operator==(const LogLine&) const = default;
};

struct Action {
    enum class Kind : std::uint8_t {
        keep,   // go on with what is running
        list,   // one page
        watch,  // open a stream
        wait,   // nothing runs until deadline()
    };
    Kind kind{Kind::keep};
    std::string resource_version;     // list: "" consistent, else NotOlderThan; watch: start
    std::string continue_token;       // list
    bool send_initial_events{false};  // watch: collect into a shadow
    bool by_list{false};              // with it: by one list; the stream ends after it
    bool new_shadow{false};  // list (first page) or watch: throw away a shadow begun before
    // Beside the watch: does the server still have what we know at resource_version? on_checked()
    bool check{false};
    std::chrono::seconds timeout{0};  // watch
    // with new_shadow: "first", "expired", "error", "older", "fallback"; static
    std::string_view reason;
    std::vector<LogLine> log;
};

// What to do with the data that came with an input.
enum class Verdict : std::uint8_t {
    ignore,
    collect,  // add to the shadow
    commit,   // add to the shadow, then replace the store by it at resource_version()
    apply,    // to the store; a bookmark moves its version
};

struct Step {
    Verdict verdict{Verdict::ignore};
    bool reset{false};  // commit: accept older versions (the server's data was set back)
    bool first{false};  // commit: the first one
    Action action;
};

enum class EventKind : std::uint8_t {
    added,
    modified,
    deleted,
    bookmark,
    initial_end,
    undecodable
};

// For readiness and metrics.
// degraded: forbidden, kind missing, or failing for more than a moment.
enum class Phase : std::uint8_t { idle, syncing, live, degraded };

class ReflectorFsm {
public:
    using Random = std::function<double()>;  // [0, 1)

    ReflectorFsm(ReflectorOptions options, Random random);

    Action start(MonotonicTime now);
    // A list page: `continue_token` empty on the last one.
    Step on_page(MonotonicTime now,
                 std::string_view resource_version,
                 std::string_view continue_token);
    Action on_list_error(MonotonicTime now, const Error& error);
    Action on_watch_open(MonotonicTime now);
    void on_watch_bytes(MonotonicTime now);
    Step on_watch_event(MonotonicTime now, EventKind kind, std::string_view resource_version);
    // The stream ended: ok, an ERROR event, a refused head, a cut.
    Action on_watch_end(MonotonicTime now, const Result<void>& result);
    Action on_timer(MonotonicTime now);
    // What a check found. true: nothing that contradicts what we know. An error: its own.
    Action on_checked(MonotonicTime now, const Result<bool>& known);
    // The server answers others again: who waits because it did not tries soon. True: deadline()
    // has changed.
    bool on_server_back(MonotonicTime now);

    MonotonicTime deadline() const noexcept { return deadline_; }  // kNever: none
    Phase phase() const noexcept;
    bool synced() const noexcept { return synced_; }  // a first state was committed
    const std::string& resource_version() const noexcept { return last_version_; }
    // The last error while degraded; nullopt otherwise.
    const std::optional<Error>& trouble() const noexcept { return trouble_; }

private:
    enum class State : std::uint8_t { idle, waiting, listing, streaming, opening, watching };
    enum class Next : std::uint8_t { snapshot, watch };

    static std::string text_of(const Error& error);
    Action begin_snapshot(MonotonicTime now, std::string_view reason);
    Action begin_list(MonotonicTime now, std::string continue_token);
    Action begin_watch(MonotonicTime now);
    Action fall_back_to_list(MonotonicTime now, LogLevel level, std::string message);
    Action fall_back_to_stream(MonotonicTime now, LogLevel level, const Error& error);
    Action back_off(MonotonicTime now,
                    Next next,
                    std::string_view reason,
                    const Error& error,
                    std::string message);
    std::optional<Action> ask_consistent(MonotonicTime now, const Error& error);
    Action stream_failed(MonotonicTime now, const Result<void>& result);
    Action watch_failed(MonotonicTime now, const Error& error);
    Action watch_ended(MonotonicTime now);
    Step commit(MonotonicTime now, std::string_view resource_version);
    void settle(MonotonicTime now, Action& action);
    void note_bookmark(MonotonicTime now);
    void advance(std::string_view resource_version, bool bookmark);
    void arm();

    const ReflectorOptions options_;
    const Random random_;
    State state_{State::idle};
    Next next_{Next::snapshot};
    MonotonicTime deadline_{kNever};
    bool watch_list_{true};
    bool whole_list_{false};
    bool synced_{false};
    // the next snapshot at "" because the last version is gone or not served
    bool consistent_only_{false};
    // The stream before broke: a server that is another one, or whose data was set back, takes a
    // watch from a version that it does not know and stays silent.
    bool doubtful_{false};
    bool other_data_{false};  // the next snapshot is taken as it is
    std::string last_version_;
    std::string resume_version_;  // everything up to it is known; where the next stream begins
    std::string asked_version_;   // of the snapshot under way
    std::string list_version_;    // of its first page
    std::string_view reason_{"first"};
    std::optional<Error> trouble_;
    int failures_{0};                    // consecutive, of one sort; drives the back-off
    bool unreachable_{false};            // their sort: nobody answered, not an answer we dislike
    int stuck_{0};                       // watch failures without progress
    MonotonicTime fine_since_{kNever};   // no trouble since; kNever while there is
    MonotonicTime older_since_{kNever};  // lists have been older than what is known since
    // One stream:
    MonotonicTime opened_{0};
    MonotonicTime hard_deadline_{kNever};
    MonotonicTime last_bytes_{0};
    MonotonicTime last_bookmark_{kNever};
    bool any_event_{false};
    // Learned over streams:
    int bookmark_gaps_{0};
    MonotonicTime cadence_{0};  // longest gap between two bookmarks of one stream
};

}  // namespace capstan::cache
