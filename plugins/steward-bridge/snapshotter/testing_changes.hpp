// For tests: what a watch of etcd brings.
#pragma once

#include "plugins/steward-bridge/snapshotter/delta_buffer.hpp"

#include <cstdint>
#include <string_view>

namespace capstan::steward {

// The first write of a key. A change only points at its key and value: they must outlive it.
inline DeltaChange first_write(std::string_view key,
                               std::string_view value,
                               std::int64_t revision) {
    DeltaChange change;
    change.key = key;
    change.value = value;
    change.create_revision = revision;
    change.mod_revision = revision;
    change.version = 1;
    return change;
}

}  // namespace capstan::steward
