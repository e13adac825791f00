#include "runtime/obs/line_writer.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace capstan::obs {
namespace {

using namespace std::chrono_literals;

std::array<int, 2> one_page_pipe() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    EXPECT_GT(::fcntl(ends[1], F_SETPIPE_SZ, 4096), 0);
    EXPECT_EQ(::fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    return ends;
}

// The pipe is read only when the test says so.
struct LineWriterTest : testing::Test {
    LineWriterTest() { ::signal(SIGPIPE, SIG_IGN); }
    ~LineWriterTest() override {
        close_reader();
        ::close(ends[1]);
    }
    void close_reader() {
        if (ends[0] >= 0) {
            ::close(std::exchange(ends[0], -1));
        }
    }
    // What is in the pipe now.
    std::string read() const {
        std::string text;
        std::array<char, 8192> piece{};
        for (ssize_t got = 0; (got = ::read(ends[0], piece.data(), piece.size())) > 0;) {
            text.append(piece.data(), static_cast<std::size_t>(got));
        }
        return text;
    }
    std::string read_all() {
        std::string text;
        for (std::string more = read(); !more.empty(); more = read()) {
            text += more;
            writer.flush(0ms);
        }
        return text;
    }
    std::array<int, 2> ends{one_page_pipe()};
    LineWriter writer{ends[1],
                      [](std::uint64_t count) { return "dropped " + std::to_string(count); }};
};

TEST_F(LineWriterTest, WritesAtOnceWhatIsRead) {
    writer.write("one");
    EXPECT_EQ(read(), "one\n");
    writer.write("two");
    EXPECT_EQ(read(), "two\n");
}

TEST_F(LineWriterTest, AReaderThatSleepsLosesNothingThatFits) {
    std::string wanted;
    for (int i = 0; i < 1000; ++i) {
        const std::string line = std::to_string(i) + std::string(100, 'x');
        wanted += line + "\n";
        writer.write(line);
    }
    EXPECT_TRUE(read_all() == wanted);
    writer.write("next");
    EXPECT_EQ(read(), "next\n");
}

TEST_F(LineWriterTest, ALineLongerThanThePipeGoesOutInPieces) {
    const std::string line(8000, 'y');
    writer.write(line);
    EXPECT_TRUE(read_all() == line + "\n");
}

TEST_F(LineWriterTest, WhatDoesNotFitIsDroppedAndCounted) {
    const std::string line(999, 'z');
    for (int i = 0; i < 1000; ++i) {
        writer.write(line);
    }
    const std::string text = read_all();
    EXPECT_LE(text.size(), kWaitingBytesMax + kPieceBytesMax + 100);
    const auto lines = static_cast<std::uint64_t>(std::count(text.begin(), text.end(), 'z')) / 999;
    EXPECT_TRUE(text.ends_with("z\ndropped " + std::to_string(1000 - lines) + "\n"));
    writer.write("next");
    EXPECT_EQ(read(), "next\n");
}

TEST_F(LineWriterTest, FlushGivesUpInTime) {
    writer.write(std::string(8000, 'w'));
    const auto begun = std::chrono::steady_clock::now();
    writer.flush(20ms);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 5s);
}

TEST_F(LineWriterTest, AReaderThatLeftIsNobodyToTell) {
    writer.write(std::string(8000, 'v'));
    close_reader();
    for (int i = 0; i < 1000; ++i) {
        writer.write(std::string(999, 'u'));
    }
    writer.flush(10s);
}

}  // namespace
}  // namespace capstan::obs
