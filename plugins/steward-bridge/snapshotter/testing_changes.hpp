// For tests: what a watch of etcd brings.
#pragma once

#include "plugins/steward-bridge/snapshotter/delta_buffer.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace capstan::steward {

// The first write of a key.
inline DeltaChange first_write(std::string key, std::string value, std::int64_t revision) {
    DeltaChange change;
    change.key = std::move(key);
    change.value = std::move(value);
    change.create_revision = revision;
    change.mod_revision = revision;
    change.version = 1;
    return change;
}

}  // namespace capstan::steward
