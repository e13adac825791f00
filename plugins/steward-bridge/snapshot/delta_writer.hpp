// Writes the payload of a delta snapshot: a JSON array of events, no white space anywhere.
//
// An object never ends inside a revision, else its last revision would be restored in part: only
// the next revision, or settle(), says that one is complete. Memory: 64 KiB.
#pragma once

#include "plugins/steward-bridge/snapshot/delta_event.hpp"
#include "plugins/steward-bridge/stream/stream.hpp"

#include "capstan/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace capstan::steward {

// What existing tools can restore as one revision: the operations of a transaction, and key and
// value bytes of a message.
inline constexpr std::uint64_t kOthersOperationsMax = 10'240;
inline constexpr std::uint64_t kOthersRevisionBytesMax = std::uint64_t{2} * 1024 * 1024;

class DeltaWriter {
public:
    // `to` is borrowed. `start`: the revision the first event must have, the last of the snapshot
    // before plus one.
    DeltaWriter(Sink& to, std::int64_t start);

    // Errors: invalid (the revision falls or leaves one out, no key, text that is not base64):
    // nothing was written. Those of the sink: give the object up.
    Result<void> add(const DeltaChange& change);

    // All events of last_revision() have been added.
    void settle() noexcept { settled_ = true; }

    // Where a watch that broke off starts again. Events of an incomplete revision that are written
    // already are then skipped: etcd sends them again in the same order.
    std::int64_t resume_revision() noexcept;

    // Ends the array and finishes the sink. Errors: invalid (no events, or the last revision is
    // not settled; nothing was done).
    Result<void> finish();

    std::int64_t start_revision() const noexcept { return start_; }
    std::int64_t last_revision() const noexcept { return last_; }  // start - 1: no event yet
    bool settled() const noexcept { return settled_; }
    std::uint64_t events() const noexcept { return events_; }
    std::uint64_t bytes() const noexcept { return bytes_; }  // so far, without the end
    // A revision in it is over these limits: a full right after it keeps other tools able to
    // restore.
    bool beyond_other_tools() const noexcept { return beyond_other_tools_; }

private:
    Result<void> check(const DeltaChange& change) const;
    void count(const DeltaChange& change);
    Result<void> put(std::string_view text);
    Result<void> put_member(std::string_view name, std::int64_t value);
    Result<void> put_base64(std::string_view data, bool encoded);
    Result<void> put_key_value(const DeltaChange& change);
    Result<void> put_leases(const DeltaChange& change);
    Result<void> flush();

    Sink& to_;
    const std::int64_t start_;
    std::int64_t last_;
    bool settled_{true};
    bool finished_{false};
    std::uint64_t events_{0};
    std::uint64_t of_revision_{0};     // events of last_ written
    std::uint64_t revision_bytes_{0};  // of their keys and values
    std::uint64_t to_skip_{0};         // of these, still to come a second time
    bool beyond_other_tools_{false};
    std::uint64_t bytes_{0};
    std::string buffer_;
};

}  // namespace capstan::steward
