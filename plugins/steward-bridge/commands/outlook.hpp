// What a restore would make of a backup, by names alone. Pure. Thread: any.
#pragma once

#include "plugins/steward-bridge/snapshot/chain.hpp"
#include "plugins/steward-bridge/snapshot/histories.hpp"

#include <optional>
#include <string>

namespace capstan::steward {

struct Outlook {
    std::optional<Chain> chain;
    std::string problem;  // why there is none
};

Outlook outlook_of(const SnapshotListing& listing, const HistoryWish& wish);

}  // namespace capstan::steward
