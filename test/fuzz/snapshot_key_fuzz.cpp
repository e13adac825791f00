// Keys of objects in a backup store, one a line.
#include "plugins/steward-bridge/snapshot/chain.hpp"
#include "plugins/steward-bridge/snapshot/histories.hpp"
#include "plugins/steward-bridge/snapshot/retention.hpp"
#include "test/fuzz/fuzz.hpp"

#include <algorithm>
#include <chrono>
#include <string>

namespace capstan::steward {
namespace {

using fuzz::require;

void check(const SnapshotRecord& record) {
    SnapshotRecord plain = record;
    plain.name = snapshot_name(record);
    plain.part = false;
    const auto again = parse_snapshot_key(plain.key());
    require(again.has_value(), "a printed name can be read");
    SnapshotRecord expected = again.value();
    require(expected == plain, "and means the same");
    require(expected.start_revision <= expected.last_revision, "revisions are a range");
    require(!to_rfc3339_nano(record.created).empty(), "the time can be shown");
}

void check_chain(const SnapshotListing& listing) {
    const auto chain = choose_chain(listing.snapshots);
    if (!chain) {
        require(!chain.error().message.empty(), "a refusal says why");
        return;
    }
    std::int64_t reached = chain.value().base_revision;
    for (const SnapshotRecord& delta : chain.value().deltas) {
        require(delta.start_revision - 1 <= reached, "no gap in a chain");
        require(delta.last_revision > reached, "every delta adds something");
        reached = delta.last_revision;
    }
    require(reached == chain.value().reaches, "a chain reaches what its last delta does");
    require(reached == listing.snapshots.back().last_revision, "and that is the newest revision");
}

void check_retention(const SnapshotListing& listing) {
    const WallTime now(std::chrono::seconds(1'796'003'150));
    for (const RetentionPolicy policy :
         {RetentionPolicy::exponential, RetentionPolicy::limit_based}) {
        const auto verdicts = decide_retention(listing, now, {.policy = policy});
        require(verdicts.size() == listing.snapshots.size() + listing.parts.size(),
                "a verdict for each object");
        bool newest = true;
        for (std::size_t i = listing.snapshots.size(); i-- > 0 && newest;) {
            const SnapshotRecord& record = listing.snapshots[i];
            if (history_index(listing, record.created) == listing.marks.size()) {
                require(verdicts[i].keep, "the newest full and what follows it are kept");
                newest = record.kind != SnapshotKind::full;
            }
        }
    }
}

void check_histories(const SnapshotListing& listing) {
    std::size_t snapshots = 0;
    for (const StoredHistory& history : histories_of(listing)) {
        snapshots += history.listing.snapshots.size();
    }
    require(snapshots == listing.snapshots.size(), "every snapshot is of one history");
    const auto chosen = choose_history(listing);
    require(chosen || !chosen.error().message.empty(), "a refusal says why");
}

}  // namespace
}  // namespace capstan::steward

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace capstan::steward;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    std::vector<ListedObject> objects;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        objects.push_back({.key = std::string(text.substr(at, end - at))});
        const auto record = parse_snapshot_key(objects.back().key);
        if (record) {
            capstan::fuzz::require(record.value().key() == objects.back().key,
                                   "a record leads back to its key");
            check(record.value());
        }
        at = end + 1;
    }
    const SnapshotListing listing = read_listing(objects);
    capstan::fuzz::require(listing.snapshots.size() + listing.parts.size() + listing.fences.size() +
                                   listing.marks.size() + listing.skipped.size() ==
                               objects.size(),
                           "no key is lost");
    if (!listing.snapshots.empty()) {
        check_chain(listing);
    }
    check_retention(listing);
    check_histories(listing);
    return 0;
}
