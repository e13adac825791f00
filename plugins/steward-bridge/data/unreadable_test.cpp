// What the system refuses to read is neither damaged nor missing, and nothing replaces it.
#include "plugins/steward-bridge/data/data_aside.hpp"
#include "plugins/steward-bridge/data/data_owner.hpp"
#include "plugins/steward-bridge/data/testing_data.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <filesystem>
#include <string>

namespace capstan::steward {
namespace {

using UnreadableData = DataDirectoryTest;

// Runs `body` while this process may open only `files` descriptors.
template <class Body>
auto with_files(rlim_t files, const Body& body) {
    rlimit before{};
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit limited{files, before.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limited), 0);
    auto result = body();
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    return result;
}

// Whatever the open or the read is that has no descriptor left: nothing is said about the data.
TEST_F(UnreadableData, TakesNothingForDamagedThatItCouldNotOpen) {
    make();
    int unreadable = 0, whole = 0;
    for (rlim_t files = 0; files < 64 && whole < 3; ++files) {
        const DataDirectory found = with_files(files, [this] { return look(); });
        unreadable += found.state == State::unreadable ? 1 : 0;
        whole += found.state == State::valid ? 1 : 0;
        EXPECT_TRUE(found.state == State::unreadable || found.state == State::valid)
            << files << ": " << found.reason;
        if (found.state == State::unreadable) {
            EXPECT_NE(found.reason.find(data_), std::string::npos) << found.reason;
            EXPECT_FALSE(found.damaged);
        }
    }
    EXPECT_GT(unreadable, 0);
    EXPECT_EQ(whole, 3);
}

TEST_F(UnreadableData, TakesNothingForMissingOrDamagedThatItCannotRead) {
    const auto state_with_loop_at = [this](const std::string& path) {
        make();
        fs::remove_all(path);
        fs::create_symlink(path, path);
        return look().state;
    };
    for (const char* path : {"", "/wal", "/snap", "/snap/db"}) {
        EXPECT_EQ(state_with_loop_at(member_ + path), State::unreadable) << path;
    }
    EXPECT_EQ(state_with_loop_at(wal()), State::unreadable);
    EXPECT_EQ(state_with_loop_at(snap()), State::unreadable);
    // opened, but a read fails
    for (const bool log : {true, false}) {
        make();
        const std::string path = log ? wal() : member_ + "/snap/db";
        fs::remove(path);
        fs::create_directories(path);
        EXPECT_EQ(look().state, State::unreadable) << look().reason;
        EXPECT_NE(look().reason.find(path), std::string::npos) << look().reason;
    }
    fs::remove_all(member_ + "/wal");
    EXPECT_EQ(look().state, State::unreadable)
        << "an unused database cannot be told: " << look().reason;
}

TEST_F(UnreadableData, OverwritesNoNoteThatItCannotRead) {
    make();
    ASSERT_TRUE(write_owner_notes(data_, {"ns", "m"}));
    const auto read = with_files(3, [this] { return read_owner_notes(data_); });
    ASSERT_FALSE(read);
    EXPECT_NE(read.error().code, Code::not_found);
    EXPECT_FALSE(with_files(3, [this] { return write_owner_notes(data_, {"other", "m"}); }));
    EXPECT_EQ(read_owner_notes(data_).value().note, "ns/m");
    const std::string note = member_ + "/capstan-member";
    fs::remove(note);
    fs::create_symlink(note, note);
    EXPECT_FALSE(write_owner_notes(data_, {"ns", "m"}));
    EXPECT_TRUE(fs::is_symlink(note));
}

TEST_F(UnreadableData, SaysWhenItCannotTellWhatIsToBeMovedAside) {
    make();
    fs::remove_all(member_);
    fs::create_symlink(member_, member_);
    EXPECT_FALSE(move_aside(data_, *parse_rfc3339("2026-11-30T12:00:00Z")));
}

}  // namespace
}  // namespace capstan::steward
