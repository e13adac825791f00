#include "plugins/steward-bridge/snapshot/chain.hpp"

#include "plugins/steward-bridge/snapshot/damaged.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

std::vector<SnapshotRecord> snapshots(const std::vector<std::string>& names) {
    std::vector<ListedObject> objects;
    for (const std::string& name : names) {
        objects.push_back({.key = "p/v2/" + name});
    }
    SnapshotListing listing = read_listing(objects);
    EXPECT_TRUE(listing.skipped.empty());
    return listing.snapshots;
}

std::string names(const std::vector<SnapshotRecord>& records) {
    std::string text;
    for (const SnapshotRecord& record : records) {
        text += (text.empty() ? "" : " ") + record.name;
    }
    return text;
}

std::string error_of(const std::vector<SnapshotRecord>& all, const ChainOptions& options = {}) {
    const auto chain = choose_chain(all, options);
    return chain ? "no error" : chain.error().message;
}

TEST(Chain, FollowsRevisions) {
    const auto all = snapshots({"Full-0-20-3", "Incr-21-25-4", "Incr-26-40-5", "Incr-11-20-2"});
    const auto chain = choose_chain(all);
    ASSERT_TRUE(chain) << chain.error().message;
    EXPECT_EQ(names(chain.value().deltas), "Incr-21-25-4 Incr-26-40-5");
    EXPECT_EQ(chain.value().base_revision, 20);
    EXPECT_EQ(chain.value().reaches, 40);
    EXPECT_FALSE(chain.value().gap);
    EXPECT_TRUE(chain.value().redundant.empty());
    EXPECT_TRUE(chain.value().unreachable.empty());
}

TEST(Chain, TakesOverlapsAndLeavesOutWhatAddsNothing) {
    // Two leaders wrote from the same start; one delta holds all of another.
    const auto chain = choose_chain(snapshots({"Full-0-20-3",
                                               "Incr-15-23-4",
                                               "Incr-21-25-4",
                                               "Incr-21-30-5",
                                               "Incr-26-28-5",
                                               "Incr-29-40-6"}))
                           .value();
    EXPECT_EQ(names(chain.deltas), "Incr-21-30-5 Incr-29-40-6");
    EXPECT_EQ(names(chain.redundant), "Incr-15-23-4 Incr-21-25-4 Incr-26-28-5");
    EXPECT_EQ(chain.reaches, 40);
}

TEST(Chain, EndsAtAGap) {
    const auto all = snapshots({"Full-0-20-3", "Incr-21-25-4", "Incr-29-40-5", "Incr-41-44-6"});
    const Chain chain = chain_from(all[0], all);
    EXPECT_EQ(chain.reaches, 25);
    EXPECT_EQ(chain.gap, (RevisionGap{26, 28}));
    EXPECT_EQ(names(chain.unreachable), "Incr-29-40-5 Incr-41-44-6");
    const std::string error = error_of(all);
    EXPECT_NE(error.find("revisions 26 to 28 are in no snapshot, between p/v2/Incr-21-25-4 and "
                         "p/v2/Incr-29-40-5"),
              std::string::npos)
        << error;
    EXPECT_NE(error.find("--to-revision 25"), std::string::npos) << error;
    const auto up_to = choose_chain(all, {.to_revision = 25}).value();
    EXPECT_EQ(names(up_to.deltas), "Incr-21-25-4");
    EXPECT_FALSE(up_to.gap);
}

// What is inside a full may be newer than its name: then there is no gap.
TEST(Chain, CountsFromTheRevisionInside) {
    const auto all = snapshots({"Full-0-20-3", "Incr-21-25-4", "Incr-29-40-5"});
    const auto chain = choose_chain(all, {.base_revisions = {{"p/v2/Full-0-20-3", 28}}}).value();
    EXPECT_EQ(names(chain.deltas), "Incr-29-40-5");
    EXPECT_EQ(chain.base_revision, 28);
    EXPECT_FALSE(choose_chain(all, {.base_revisions = {{"p/v2/Full-0-20-3", 27}}}));
    // And a full that is already beyond the revision wanted is no base for it.
    EXPECT_FALSE(
        choose_chain(all, {.to_revision = 25, .base_revisions = {{"p/v2/Full-0-20-3", 28}}}));
}

TEST(Chain, FallsBackOnlyToAFullThatLeadsAsFar) {
    const std::string newest = "p/v2/Full-0-40-6";
    const auto whole =
        snapshots({"Full-0-20-3", "Incr-21-25-4", "Incr-26-40-5", "Full-0-40-6", "Incr-41-50-7"});
    EXPECT_EQ(choose_chain(whole).value().full.name, "Full-0-40-6");
    const auto older = choose_chain(whole, {.damaged = {{newest, "digest"}}});
    ASSERT_TRUE(older) << older.error().message;
    EXPECT_EQ(older.value().full.name, "Full-0-20-3");
    EXPECT_EQ(names(older.value().deltas), "Incr-21-25-4 Incr-26-40-5 Incr-41-50-7");
    // As existing writers do it: what came right before a full is in no delta.
    const auto usual =
        snapshots({"Full-0-20-3", "Incr-21-25-4", "Incr-26-38-5", "Full-0-40-6", "Incr-41-50-7"});
    const std::string error = error_of(usual, {.damaged = {{newest, "its digest is wrong"}}});
    EXPECT_NE(error.find(newest + ": its digest is wrong"), std::string::npos) << error;
    EXPECT_NE(error.find("--to-revision 38 restores what is whole, from p/v2/Full-0-20-3"),
              std::string::npos)
        << error;
    // The newest full alone, damaged: what it held counts as skipped.
    EXPECT_FALSE(choose_chain(snapshots({"Full-0-20-3", "Incr-21-25-4", "Full-0-40-6"}),
                              {.damaged = {{newest, "digest"}}}));
}

TEST(Chain, DoesNotUseADamagedDelta) {
    const auto all = snapshots({"Full-0-20-3", "Incr-21-25-4", "Incr-21-30-5", "Incr-26-40-6"});
    const auto around = choose_chain(all, {.damaged = {{"p/v2/Incr-21-30-5", "cut"}}});
    ASSERT_TRUE(around) << around.error().message;
    EXPECT_EQ(names(around.value().deltas), "Incr-21-25-4 Incr-26-40-6");
    const std::string error = error_of(all, {.damaged = {{"p/v2/Incr-26-40-6", "it is cut"}}});
    EXPECT_NE(error.find("p/v2/Incr-26-40-6: it is cut"), std::string::npos) << error;
    EXPECT_NE(error.find("--to-revision 30"), std::string::npos) << error;
}

TEST(Chain, EndsAtTheRevisionWanted) {
    const auto all =
        snapshots({"Full-0-20-3", "Incr-21-25-4", "Incr-26-40-5", "Full-0-40-6", "Incr-41-50-7"});
    const auto chain = choose_chain(all, {.to_revision = 33}).value();
    EXPECT_EQ(chain.full.name, "Full-0-20-3");
    EXPECT_EQ(names(chain.deltas), "Incr-21-25-4 Incr-26-40-5");
    EXPECT_EQ(names(choose_chain(all, {.to_revision = 20}).value().deltas), "");
    EXPECT_EQ(choose_chain(all, {.to_revision = 40}).value().full.name, "Full-0-40-6");
    EXPECT_NE(error_of(all, {.to_revision = 51}).find("beyond 50"), std::string::npos);
    EXPECT_NE(error_of(all, {.to_revision = 19}).find("no full snapshot at or below revision 19"),
              std::string::npos);
}

// An object with an unknown suffix may be the only one that holds its revisions.
TEST(Chain, CountsWhatCannotBeRead) {
    const auto listing = read_listing({{.key = "p/v2/Full-0-20-3.gz"},
                                       {.key = "p/v2/Incr-21-25-4.gz"},
                                       {.key = "p/v2/Incr-21-25-4.final.gz"},
                                       {.key = "p/v2/Incr-26-90-5.gz.part"},
                                       {.key = "p/v2/Full-0-90-5.tmp"},
                                       {.key = "p/v2/Incr-26-90-5.partial"},
                                       {.key = "p/Full-0-90-5.zst"}});
    EXPECT_TRUE(choose_chain(listing.snapshots, {.skipped = listing.skipped}));
    const auto other =
        read_listing({{.key = "p/v2/Full-0-20-3.gz"}, {.key = "p/v2/Full-0-90-5.zst"}});
    EXPECT_EQ(other.skipped[0].last_revision, 90);
    const std::string error = error_of(other.snapshots, {.skipped = other.skipped});
    EXPECT_NE(error.find("p/v2/Full-0-90-5.zst: its suffix"), std::string::npos) << error;
    EXPECT_NE(error.find("--to-revision 20"), std::string::npos) << error;
    EXPECT_TRUE(choose_chain(other.snapshots, {.to_revision = 20, .skipped = other.skipped}));
    // Alone, it is no empty store either.
    const auto alone = read_listing({{.key = "p/v2/Full-0-90-5.zst"}});
    EXPECT_NE(error_of(alone.snapshots, {.skipped = alone.skipped}).find("p/v2/Full-0-90-5.zst"),
              std::string::npos);
}

TEST(Chain, NamesADamagedObjectOnce) {
    const auto all = snapshots({"Full-0-20-3", "Incr-21-25-4"});
    const Error error = damaged("p/v2/Incr-21-25-4", "it is cut");
    EXPECT_EQ(error_of(all, {.damaged = {{"p/v2/Incr-21-25-4", error.message}}}),
              "revision 25 cannot be restored: p/v2/Incr-21-25-4 is damaged: it is cut; "
              "--to-revision 20 restores what is whole, from p/v2/Full-0-20-3");
}

TEST(Chain, NeedsAFull) {
    const auto none = choose_chain({});
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Code::not_found);
    const auto headless = choose_chain(snapshots({"Incr-21-25-4", "Incr-26-30-4"}));
    ASSERT_FALSE(headless);
    EXPECT_EQ(headless.error().code, Code::invalid);
    EXPECT_NE(headless.error().message.find("deltas up to revision 30"), std::string::npos);
    const auto damaged =
        choose_chain(snapshots({"Full-0-20-3"}), {.damaged = {{"p/v2/Full-0-20-3", "it is cut"}}});
    ASSERT_FALSE(damaged);
    EXPECT_NE(damaged.error().message.find("p/v2/Full-0-20-3: it is cut"), std::string::npos);
}

TEST(Chain, EndsAtTheLargestRevision) {
    const auto chain =
        choose_chain(snapshots({"Full-0-1-1", "Incr-2-9223372036854775807-4"})).value();
    EXPECT_EQ(chain.reaches, INT64_MAX);
}

}  // namespace
}  // namespace capstan::steward
