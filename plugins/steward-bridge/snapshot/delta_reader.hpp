// Reads the payload of a delta snapshot, one event at a time, from a stream of any length.
//
// A scanner, no tree: what is not needed is skipped, nothing but the present event is kept. What is
// accepted is what existing readers accept and what cannot be misunderstood: white space, unknown
// members, prev_kv, escapes, null for absent; a member twice or a string for a number is damage.
// Memory: 256 KiB and the event.
#pragma once

#include "plugins/steward-bridge/snapshot/delta_event.hpp"
#include "plugins/steward-bridge/snapshot/delta_scanner.hpp"
#include "plugins/steward-bridge/stream/stream.hpp"

#include "capstan/error.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace capstan::steward {

// Of one decoded key or value. etcd refuses requests above its limit (1.5 MiB by default); gRPC
// messages end at 2 GiB.
inline constexpr std::size_t kDeltaValueBytesMax = std::size_t{1} << 30;

inline constexpr std::size_t kDeltaLeasesMax = 1024;  // of one event; a writer has one

struct DeltaRange {
    std::int64_t start{0};  // 0: not known, not checked
    std::int64_t last{0};
};

class DeltaReader {
public:
    // `from` is borrowed; `range` is what the object's name promises.
    DeltaReader(Source& from, std::string object, DeltaRange range = {});

    // False: the end, everything was right. Once the payload is read from a TrailerSource, the
    // digest is right as well. Errors: damaged(), with the offset in the payload, for text that is
    // no such array, revisions that fall or leave one out, or that are not those of the name.
    // too_large: a value above kDeltaValueBytesMax. An error is final.
    Result<bool> next(DeltaEvent& event);

    std::uint64_t events() const noexcept { return events_; }
    std::int64_t last_revision() const noexcept { return last_; }  // 0 before the first event

private:
    bool read_event(DeltaEvent& event);
    bool read_etcd_event(DeltaEvent& event);
    bool read_key_value(DeltaEvent& event);
    bool read_leases(DeltaEvent& event);
    bool read_lease(DeltaLease& lease);
    bool check(const DeltaEvent& event);
    bool check_end();

    DeltaScanner scanner_;
    const DeltaRange range_;
    std::uint64_t events_{0};
    std::int64_t last_{0};
    bool begun_{false};
    bool ended_{false};
};

}  // namespace capstan::steward
