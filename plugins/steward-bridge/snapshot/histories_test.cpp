#include "plugins/steward-bridge/snapshot/histories.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

using std::chrono::seconds;

// A full or delta is "Full-…" or "Incr-…", a mark "history-…".
SnapshotListing listing_of(const std::vector<std::string>& names) {
    std::vector<ListedObject> objects;
    for (const std::string& name : names) {
        objects.push_back({.key = (name.starts_with("h") ? "p/capstan/" : "p/v2/") + name});
    }
    return read_listing(objects);
}

std::string names(const SnapshotListing& listing) {
    std::string text;
    for (const SnapshotRecord& record : listing.snapshots) {
        text += (text.empty() ? "" : " ") + record.name;
    }
    return text;
}

WallTime at(std::int64_t second) {
    return WallTime(seconds(second));
}

// Up to revision 120, set back to 100 at second 5000, up to 110, set back to 90 at 9000.
const std::vector<std::string> kSetBackTwice{"Full-0-80-1000",
                                             "Incr-81-100-1020",
                                             "Incr-101-120-1040",
                                             "history-100-5000",
                                             "Full-0-100-5000",
                                             "Incr-101-110-5020",
                                             "history-90-9000",
                                             "Full-0-90-9000",
                                             "Incr-91-95-9020"};

TEST(Histories, ArePartedByMarks) {
    const auto histories = histories_of(listing_of(kSetBackTwice));
    ASSERT_EQ(histories.size(), 3u);
    EXPECT_EQ(histories[0].name, "first");
    EXPECT_EQ(names(histories[0].listing), "Full-0-80-1000 Incr-81-100-1020 Incr-101-120-1040");
    EXPECT_EQ(histories[0].end, 120);
    EXPECT_EQ(histories[0].until, at(5000));
    EXPECT_FALSE(histories[0].since);
    EXPECT_EQ(histories[1].name, "history-100-5000");
    EXPECT_EQ(names(histories[1].listing), "Full-0-100-5000 Incr-101-110-5020");
    EXPECT_EQ(histories[2].name, "history-90-9000");
    EXPECT_EQ(histories[2].newest_full()->name, "Full-0-90-9000");
    EXPECT_EQ(histories[2].since, at(9000));
    EXPECT_FALSE(histories[2].until);
}

TEST(Histories, WithoutMarksAreOneWithEverything) {
    const auto histories =
        histories_of(listing_of({"Incr-21-30-5", "Full-0-20-9", "Full-0-90-7.zst", "notes"}));
    ASSERT_EQ(histories.size(), 1u);
    EXPECT_EQ(names(histories[0].listing), "Full-0-20-9 Incr-21-30-5");
    EXPECT_EQ(histories[0].listing.skipped.size(), 2u);
    EXPECT_EQ(histories[0].end, 90) << "also what cannot be read";
    EXPECT_EQ(histories_of({}).size(), 1u);
}

TEST(Histories, KeepWhatCannotBeReadWhereItBelongs) {
    const auto histories =
        histories_of(listing_of({"Full-0-99-10.zst", "history-5-20", "Full-0-5-20", "junk"}));
    EXPECT_EQ(histories[0].end, 99);
    EXPECT_EQ(histories[1].end, 5);
    EXPECT_EQ(histories[1].listing.skipped.size(), 1u);
}

// Rows of names alone; whether they contradict each other. A day is 86400.
struct DoubtRow {
    const char* name;
    std::vector<std::string> names;
    bool doubt;
};

class DoubtIn : public testing::TestWithParam<DoubtRow> {};

TEST_P(DoubtIn, TellsWhatMayBeARollback) {
    const auto histories = histories_of(listing_of(GetParam().names));
    EXPECT_EQ(doubt_in(histories.back()).has_value(), GetParam().doubt);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    DoubtIn,
    testing::Values(
        DoubtRow{"nothing", {}, false},
        DoubtRow{"deltas_alone", {"Incr-2-9-10"}, false},
        DoubtRow{"plain", {"Full-0-20-1000", "Incr-21-30-2000", "Full-0-30-90000"}, false},
        // Etcd at 25, and 30 is stored: somebody else's full in the middle of an older delta.
        DoubtRow{"full_inside_an_older_delta",
                 {"Full-0-20-1000", "Incr-21-30-2000", "Full-0-25-9000"},
                 true},
        DoubtRow{"full_before_an_older_full", {"Full-0-90-1000", "Full-0-25-9000"}, true},
        DoubtRow{"the_same_within_what_clocks_differ",
                 {"Full-0-20-1000", "Incr-21-30-1500", "Full-0-25-2000"},
                 false},
        // At the end of a delta, with new deltas over old ones.
        DoubtRow{"revisions_written_twice",
                 {"Full-0-20-1000",
                  "Incr-21-30-1020",
                  "Incr-31-40-1040",
                  "Full-0-30-9000",
                  "Incr-31-33-9020"},
                 true},
        // A compaction of another tool: made late, by the names of its inputs.
        DoubtRow{"compacted_late",
                 {"Full-0-20-1000",
                  "Incr-21-30-1020",
                  "Incr-31-40-1040",
                  "Full-0-30-9000",
                  "Incr-41-50-9020"},
                 false},
        DoubtRow{"compacted_late_and_collected",
                 {"Incr-31-40-1040", "Full-0-30-9000", "Incr-41-50-9020"},
                 false},
        // The same, with a full of the schedule meanwhile: known once deltas go on behind that.
        DoubtRow{"compacted_very_late", {"Full-0-40-1040", "Full-0-30-9000"}, true},
        DoubtRow{"compacted_very_late_and_passed_over",
                 {"Full-0-40-1040", "Full-0-30-9000", "Incr-41-50-9601"},
                 false},
        // A clock that was ahead for an hour when the full was taken, then right.
        DoubtRow{"clock_set_back", {"Full-0-20-4600", "Incr-21-30-1020", "Incr-31-40-1040"}, false},
        DoubtRow{"full_again_at_its_revision",
                 {"Full-0-20-1000", "Incr-21-30-1020", "Full-0-20-9000"},
                 false},
        DoubtRow{"two_leaders",
                 {"Full-0-20-1000", "Incr-21-30-1020", "Incr-21-25-1021", "Incr-26-40-1041"},
                 false},
        // Whatever it was: a newer full goes further, and is newer by every clock.
        DoubtRow{"long_over",
                 {"Full-0-20-1000", "Incr-21-30-2000", "Full-0-25-9000", "Full-0-50-20000"},
                 false}),
    [](const auto& row) { return row.param.name; });

struct ChoiceRow {
    const char* name;
    HistoryWish wish;
    const char* chosen;  // nullptr: refused
    std::vector<const char*> says;
};

HistoryWish wish(std::string history,
                 std::optional<std::int64_t> revision,
                 std::optional<std::int64_t> second) {
    return {
        std::move(history), false, revision, second ? std::optional(at(*second)) : std::nullopt};
}

class ChooseHistory : public testing::TestWithParam<ChoiceRow> {};

TEST_P(ChooseHistory, TakesThePresentOneOrWhatIsClearlyMeant) {
    const ChoiceRow& row = GetParam();
    const auto chosen = choose_history(listing_of(kSetBackTwice), row.wish);
    if (row.chosen != nullptr) {
        ASSERT_TRUE(chosen) << chosen.error().message;
        EXPECT_EQ(chosen.value().history.name, row.chosen);
        return;
    }
    ASSERT_FALSE(chosen) << chosen.value().history.name;
    for (const char* part : row.says) {
        EXPECT_NE(chosen.error().message.find(part), std::string::npos)
            << part << " is not in: " << chosen.error().message;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    ChooseHistory,
    testing::Values(
        ChoiceRow{"the_newest", wish("", {}, {}), "history-90-9000", {}},
        ChoiceRow{"by_name", wish("first", {}, {}), "first", {}},
        ChoiceRow{"by_name_and_revision", wish("first", 100, {}), "first", {}},
        ChoiceRow{"unknown", wish("second", {}, {}), nullptr, {"\"second\"", "history-100-5000"}},
        ChoiceRow{"of_all_three",
                  wish("", 95, {}),
                  nullptr,
                  {"--history",
                   "first (until 1970-01-01T01:23:20Z, up to revision 120)",
                   "history-90-9000 (the present, up to revision 95)"}},
        ChoiceRow{"of_earlier_ones_alone", wish("", 105, {}), nullptr, {"first", "history-100-"}},
        ChoiceRow{"before_any_but_one", wish("", 85, {}), nullptr, {"--history", "first"}},
        ChoiceRow{"beyond_all", wish("", 130, {}), "history-90-9000", {}},
        ChoiceRow{"time_of_the_first", wish("", {}, 1030), "first", {}},
        ChoiceRow{"time_of_the_second", wish("", {}, 6000), "history-100-5000", {}},
        ChoiceRow{"time_near_a_mark", wish("", {}, 8900), nullptr, {"history-100-", "history-90-"}},
        ChoiceRow{"time_near_a_mark_by_name", wish("first", {}, 5001), "first", {}},
        ChoiceRow{"before_everything", wish("", {}, 10), nullptr, {"no snapshot was made by"}}),
    [](const auto& row) { return row.param.name; });

TEST(ChooseHistory, GivesTheRevisionOfATime) {
    const auto all = listing_of(kSetBackTwice);
    EXPECT_EQ(choose_history(all, wish("", {}, 1030)).value().to_revision, 100);
    EXPECT_EQ(choose_history(all, wish("first", {}, 8900)).value().to_revision, 120);
    EXPECT_FALSE(choose_history(all).value().to_revision);
}

TEST(ChooseHistory, TellsWhenThePresentOneIsLeft) {
    const auto all = listing_of(kSetBackTwice);
    EXPECT_EQ(choose_history(all).value().leaves, "");
    EXPECT_EQ(choose_history(all, wish("history-90-9000", 95, {})).value().leaves, "");
    EXPECT_EQ(choose_history(all, wish("history-90-9000", 94, {})).value().leaves,
              "history-90-9000");
    EXPECT_EQ(choose_history(all, wish("first", {}, {})).value().leaves, "history-90-9000");
    const auto one = listing_of({"Full-0-20-1000", "Incr-21-30-1020"});
    EXPECT_TRUE(choose_history(one).value().only);
    EXPECT_EQ(choose_history(one, wish("", 30, {})).value().leaves, "");
    EXPECT_EQ(choose_history(one, wish("", 29, {})).value().leaves, "first");
}

// Etcd was set back, and the full that begins the new history is not there yet.
TEST(ChooseHistory, NeverFallsBackToAnEarlierOne) {
    const auto all = listing_of({"Full-0-80-1000", "Incr-81-120-1020", "history-100-5000"});
    const auto refused = choose_history(all);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::invalid);
    EXPECT_NE(refused.error().message.find("history-100-5000"), std::string::npos);
    EXPECT_NE(refused.error().message.find("first (until"), std::string::npos);
    EXPECT_TRUE(choose_history(all, wish("first", {}, {})));
}

TEST(ChooseHistory, RefusesWhatNamesDoNotTell) {
    const auto all = listing_of({"Full-0-20-1000",
                                 "Incr-21-30-1020",
                                 "Incr-31-40-8800",
                                 "Full-0-25-9000",
                                 "Incr-26-28-9020"});
    const auto refused = choose_history(all);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::invalid);
    for (const char* part : {"p/v2/Full-0-25-9000 was made after p/v2/Incr-21-30-1020",
                             "--history Full-0-25-9000",
                             "--by-revision"}) {
        EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
    }
    EXPECT_FALSE(choose_history(all, wish("", 22, {})));
    const auto by_full = choose_history(all, wish("Full-0-25-9000", {}, {})).value();
    EXPECT_EQ(names(by_full.history.listing), "Full-0-25-9000 Incr-26-28-9020");
    EXPECT_EQ(by_full.leaves, "first");
    ASSERT_EQ(by_full.warnings.size(), 1u);
    EXPECT_NE(by_full.warnings[0].find("p/v2/Incr-31-40-8800"), std::string::npos);
    HistoryWish revisions;
    revisions.by_revision = true;
    EXPECT_EQ(choose_history(all, revisions).value().history.listing.snapshots.size(), 5u);
}

}  // namespace
}  // namespace capstan::steward
