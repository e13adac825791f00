#include "plugins/steward-bridge/commands/outlook.hpp"

namespace capstan::steward {

Outlook outlook_of(const SnapshotListing& listing, const HistoryWish& wish) {
    Outlook out;
    const auto chosen = choose_history(listing, wish);
    if (!chosen) {
        out.problem = chosen.error().message;
        return out;
    }
    ChainOptions options;
    options.skipped = chosen.value().history.listing.skipped;
    options.to_revision = chosen.value().to_revision;
    auto chain = choose_chain(chosen.value().history.listing.snapshots, options);
    if (chain) {
        out.chain = std::move(chain).value();
    } else {
        out.problem = chain.error().message;
    }
    return out;
}

}  // namespace capstan::steward
