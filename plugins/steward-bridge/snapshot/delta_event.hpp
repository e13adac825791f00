// One change of a key, as a delta snapshot holds it.
#pragma once

#include "capstan/clock.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::steward {

// A lease seen for the first time in this object: what a restore needs to keep the key expiring.
struct DeltaLease {
    std::int64_t id{0};
    std::int64_t ttl_seconds{0};  // as granted

    friend bool operator==(const DeltaLease&, const DeltaLease&) = default;
};

// As read: key and value are raw bytes. The buffers are used again for the next event.
struct DeltaEvent {
    bool deleted{false};
    std::string key;
    std::string value;                // empty when deleted
    std::int64_t create_revision{0};  // 0 when deleted
    std::int64_t mod_revision{0};
    std::int64_t version{0};  // 0 when deleted
    std::int64_t lease{0};
    std::vector<DeltaLease> leases;

    friend bool operator==(const DeltaEvent&, const DeltaEvent&) = default;
};

// For writing: borrowed until the call returns.
struct DeltaChange {
    bool deleted{false};
    // Key and value are base64 already, as etcd's JSON gateway sends them.
    bool base64{false};
    std::string_view key;
    std::string_view value;
    std::int64_t create_revision{0};
    std::int64_t mod_revision{0};
    std::int64_t version{0};
    std::int64_t lease{0};
    WallTime time{};  // when the event was processed; readers ignore it
    const std::vector<DeltaLease>* leases{nullptr};
};

}  // namespace capstan::steward
