#include "plugins/steward-bridge/data/data_aside.hpp"
#include "plugins/steward-bridge/data/data_directory.hpp"
#include "plugins/steward-bridge/data/data_owner.hpp"
#include "plugins/steward-bridge/data/testing_data.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <tuple>
#include <utility>

namespace capstan::steward {
namespace {

TEST_F(DataDirectoryTest, KnowsWhatIsWholeAndWhose) {
    make();
    for (const Depth depth : {Depth::sanity, Depth::full}) {
        const DataDirectory found = look(depth);
        EXPECT_EQ(found.state, State::valid) << found.reason;
        EXPECT_EQ(found.member_id, cluster_.self().hex_id());
        EXPECT_EQ(found.revision, kKeys + 1);
    }
}

TEST_F(DataDirectoryTest, TakesNothingStoredForMissing) {
    EXPECT_EQ(look().state, State::missing);
    fs::create_directories(member_ + "/wal");
    fs::create_directories(member_ + "/snap");
    EXPECT_EQ(look().state, State::missing);
    write(member_ + "/snap/db", "");  // etcd makes it before the log
    EXPECT_EQ(look().state, State::missing);
    ASSERT_TRUE(write_owner_notes(data_, {"ns", "m"}));
    EXPECT_EQ(look().state, State::missing);
}

TEST_F(DataDirectoryTest, NeedsLogAndDatabase) {
    make();
    fs::remove_all(member_ + "/wal");
    EXPECT_EQ(look().state, State::invalid);
    EXPECT_NE(look().reason.find("write-ahead log"), std::string::npos);
    make();
    fs::remove(member_ + "/snap/db");
    EXPECT_EQ(look().state, State::invalid);
    make();
    write(member_ + "/snap/db", "");
    EXPECT_EQ(look(Depth::sanity).state, State::invalid);
    make();
    fs::resize_file(member_ + "/snap/db", 3 * 4096);
    EXPECT_EQ(look(Depth::sanity).state, State::invalid);
}

TEST_F(DataDirectoryTest, ToleratesWhatACrashLeaves) {
    make();
    const std::string whole = read(wal());
    write(wal(), whole + std::string(4096, '\0'));  // room that was reserved
    EXPECT_EQ(look().state, State::valid) << look().reason;
    write(wal(), whole + std::string("\x40\0\0\0\0\0\0\0", 8) + std::string(20, 'x'));  // cut off
    EXPECT_EQ(look().state, State::valid) << look().reason;
    // a whole frame of which a sector never reached the disk
    std::string torn = whole + std::string("\0\x08\0\0\0\0\0\0", 8);
    torn += std::string(512, 'x') + std::string(1536, '\0');
    write(wal(), torn);
    EXPECT_EQ(look().state, State::valid) << look().reason;
    make();
    flip(member_ + "/snap/db", 20);  // one meta page
    EXPECT_EQ(look().state, State::valid) << look().reason;
}

TEST_F(DataDirectoryTest, FindsDamageInTheLog) {
    make();
    const std::size_t size = read(wal()).size();
    for (const std::size_t at : {size / 3, size / 2, size - 20}) {
        make();
        flip(wal(), at);
        const DataDirectory found = look();
        EXPECT_EQ(found.state, State::invalid) << at;
        EXPECT_TRUE(found.damaged);
        EXPECT_NE(found.reason.find(wal()), std::string::npos) << found.reason;
    }
    make();
    fs::copy(wal(), member_ + "/wal/0000000000000002-0000000000000009.wal");
    EXPECT_NE(look().reason.find("a file is missing"), std::string::npos) << look().reason;
}

TEST_F(DataDirectoryTest, FindsDamageInTheDatabaseOnlyWhenItReadsAll) {
    make();
    // the header of some leaf in the middle
    flip(member_ + "/snap/db", 4 * 4096 + 8);
    EXPECT_EQ(look(Depth::full).state, State::invalid);
    EXPECT_NE(look(Depth::full).reason.find("page"), std::string::npos);
    EXPECT_FALSE(look(Depth::full).member_id.empty());  // still known whose it is
}

TEST_F(DataDirectoryTest, WantsLogSnapshotAndDatabaseOfOneLife) {
    make(0);  // the snapshot is of entry 1
    EXPECT_EQ(look(Depth::sanity).state, State::invalid);
    EXPECT_NE(look().reason.find("newest snapshot"), std::string::npos) << look().reason;
    // a snapshot that a leader sent lies ready
    write(member_ + "/snap/0000000000000001.snap.db", "x");
    EXPECT_EQ(look(Depth::sanity).state, State::valid);
    make(99);
    EXPECT_EQ(look(Depth::sanity).state, State::invalid);
    EXPECT_NE(look().reason.find("the log ends"), std::string::npos) << look().reason;
    make();
    flip(snap(), 40);  // the log still has everything from the beginning
    EXPECT_EQ(look().state, State::valid) << look().reason;
    make();
    fs::rename(snap(), member_ + "/snap/0000000000000001-0000000000000007.snap");
    EXPECT_EQ(look().state, State::valid) << look().reason;
    fs::rename(wal(),
               member_ + "/wal/0000000000000001-0000000000000002.wal");  // older ones are gone
    EXPECT_EQ(look().state, State::invalid);
}

TEST_F(DataDirectoryTest, LeavesARunningEtcdAlone) {
    make();
    const int fd = ::open((member_ + "/snap/db").c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
    EXPECT_EQ(look().state, State::in_use);
    ::close(fd);
    EXPECT_EQ(look().state, State::valid);
}

TEST_F(DataDirectoryTest, FingerprintChangesWithTheContent) {
    make();
    const std::string before = fingerprint_of(data_);
    EXPECT_EQ(fingerprint_of(data_), before);
    write(member_ + "/snap/new", "x");
    EXPECT_NE(fingerprint_of(data_), before);
    EXPECT_EQ(fingerprint_of(root_ + "/nowhere"), "");
}

TEST_F(DataDirectoryTest, MovesAsideAndKeepsTheNewest) {
    make();
    const WallTime noon = *parse_rfc3339("2026-11-30T12:00:00Z");
    const auto first = move_aside(data_, noon);
    ASSERT_TRUE(first);
    EXPECT_EQ(first.value(), root_ + "/member.damaged-20261130T120000Z");
    EXPECT_TRUE(fs::exists(first.value() + "/snap/db"));
    EXPECT_EQ(look().state, State::missing);
    EXPECT_EQ(move_aside(data_, noon).value(), "");  // nothing is left to move
    make();
    EXPECT_EQ(move_aside(data_, noon).value(), first.value() + "-1");
    make();
    const auto last = move_aside(data_, noon + std::chrono::hours(1));
    EXPECT_EQ(list_aside(data_).size(), 3U);
    EXPECT_EQ(remove_aside(data_, 1), 2U);
    EXPECT_EQ(list_aside(data_), std::vector<std::string>{last.value()});
    EXPECT_GT(free_bytes(data_), 0U);
    for (int number = 1; number < 12; ++number) {
        make();
        // a clock that was set back makes nothing older
        EXPECT_EQ(move_aside(data_, noon).value(), last.value() + "-" + std::to_string(number));
        EXPECT_EQ(remove_aside(data_, 1), 1U);
    }
    EXPECT_EQ(list_aside(data_), std::vector<std::string>{last.value() + "-11"});
}

TEST_F(DataDirectoryTest, NotesWhoseItIsBesideTheData) {
    ASSERT_TRUE(write_owner_notes(data_, {"ns", "m-0"}));
    EXPECT_EQ(read_owner_notes(data_).value().note, "ns/m-0");
    EXPECT_EQ(read_owner_notes(data_).value().safe_guard, "ns");
    write(root_ + "/safe_guard", "other\n");
    ASSERT_TRUE(write_owner_notes(data_, {"ns", "m-0"}));
    EXPECT_EQ(read_owner_notes(data_).value().safe_guard, "other");  // never overwritten
    EXPECT_TRUE(check_writable(data_));
    EXPECT_FALSE(check_writable(root_ + "/nowhere/new.etcd"));
}

// What speaks for whom.
struct OwnerRow {
    const char* name;
    const char* note;
    const char* record;  // "id@cluster"
    const char* data;    // likewise, of the log
    const char* own;     // id in the list; "-": the list is not known
    DataOwner expected;
};
class Owner : public testing::TestWithParam<OwnerRow> {};

TEST_P(Owner, IsJudged) {
    const OwnerRow& row = GetParam();
    const auto split = [](std::string_view text) {
        const std::size_t at = text.find('@');
        return at == std::string_view::npos
                   ? std::pair<std::string, std::string>{}
                   : std::pair{std::string(text.substr(0, at)), std::string(text.substr(at + 1))};
    };
    DataDirectory data;
    data.state = State::valid;
    std::tie(data.member_id, data.cluster_id) = split(row.data);
    OwnerFacts facts;
    facts.note = row.note;
    std::tie(facts.record_id, facts.record_cluster) = split(row.record);
    facts.list_known = std::string_view(row.own) != "-";
    facts.cluster_id = "c";
    facts.own_id = facts.list_known ? row.own : "";
    facts.other_ids = {"2", "3"};
    const OwnerVerdict verdict = judge_owner(data, facts, {"ns", "m"});
    EXPECT_EQ(verdict.owner, row.expected);
    EXPECT_EQ(verdict.message.empty(), row.expected != DataOwner::foreign);
    EXPECT_EQ(verdict.volume_id.empty(), row.expected != DataOwner::foreign);
}

INSTANTIATE_TEST_SUITE_P(
    DataOwner,
    Owner,
    testing::Values(
        OwnerRow{"alone_nothing_known", "", "", "1@c", "-", DataOwner::unknown},
        OwnerRow{"alone_as_recorded", "", "1@c", "1@c", "-", DataOwner::mine},
        OwnerRow{"alone_other_member", "", "1@c", "2@c", "-", DataOwner::foreign},
        OwnerRow{"alone_other_cluster", "", "1@c", "1@d", "-", DataOwner::foreign},
        OwnerRow{"alone_noted_newer_than_record", "ns/m", "1@c", "9@d", "-", DataOwner::mine},
        OwnerRow{"noted_other", "ns/n", "1@c", "1@c", "1", DataOwner::foreign},
        OwnerRow{"noted_other_namespace", "other/m", "", "1@c", "-", DataOwner::foreign},
        OwnerRow{"listed", "", "", "1@c", "1", DataOwner::mine},
        OwnerRow{"listed_under_a_newer_id", "", "1@c", "1@c", "9", DataOwner::earlier_life},
        OwnerRow{"removed", "", "1@c", "1@c", "", DataOwner::earlier_life},
        OwnerRow{"swapped", "ns/m", "1@c", "2@c", "1", DataOwner::foreign},
        OwnerRow{"swapped_not_listed", "", "", "2@c", "", DataOwner::foreign},
        OwnerRow{"own_data_of_a_cluster_before", "", "1@d", "1@d", "", DataOwner::earlier_life},
        OwnerRow{
            "noted_data_of_a_cluster_before", "ns/m", "1@c", "1@d", "1", DataOwner::earlier_life},
        OwnerRow{"unknown_data_of_a_cluster_before", "", "", "1@d", "", DataOwner::earlier_life},
        OwnerRow{"listed_with_data_of_another_cluster", "", "1@c", "7@d", "1", DataOwner::foreign},
        OwnerRow{"log_says_nothing", "", "1@c", "", "1", DataOwner::unknown},
        OwnerRow{"log_says_nothing_noted", "ns/m", "1@c", "", "1", DataOwner::mine}),
    [](const auto& row) { return row.param.name; });

TEST(DataOwner, HeedsTheSafeGuard) {
    DataDirectory data;
    data.state = State::valid;
    OwnerFacts facts;
    facts.safe_guard = "other";
    EXPECT_EQ(judge_owner(data, facts, {"ns", "m"}).owner, DataOwner::foreign);
    facts.safe_guard = "ns";
    EXPECT_EQ(judge_owner(data, facts, {"ns", "m"}).owner, DataOwner::unknown);
    data.state = State::missing;
    facts.safe_guard = "other";
    EXPECT_EQ(judge_owner(data, facts, {"ns", "m"}).owner, DataOwner::unknown);
}

}  // namespace
}  // namespace capstan::steward
