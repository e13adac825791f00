#include "plugins/steward-bridge/snapshot/compression.hpp"

#include "plugins/steward-bridge/stream/testing_digest.hpp"
#include "plugins/steward-bridge/stream/testing_streams.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

std::string packed(Compression compression, std::string_view text, std::size_t piece = 1000) {
    TextSink sink;
    auto filter = compress(compression, sink).value();
    for (std::size_t at = 0; at < text.size(); at += piece) {
        EXPECT_TRUE(filter->write(bytes_of(text.substr(at, piece))));
    }
    EXPECT_FALSE(sink.finished);
    EXPECT_TRUE(filter->finish());
    EXPECT_TRUE(sink.finished);
    return sink.text;
}

Result<std::string> unpacked(Compression compression,
                             const std::string& bytes,
                             std::size_t piece = 0,
                             std::size_t read_piece = 4096) {
    TextSource source(bytes, piece);
    CAPSTAN_TRY(auto filter, decompress(compression, source, "Incr-1"));
    return read_all(*filter, read_piece);
}

std::string error_of(Compression compression, const std::string& bytes) {
    const auto text = unpacked(compression, bytes);
    if (text) {
        return "no error";
    }
    EXPECT_EQ(text.error().code, Code::invalid);
    EXPECT_TRUE(text.error().message.starts_with("Incr-1 is damaged: ")) << text.error().message;
    EXPECT_TRUE(text.error().message.find("capstan backup verify") != std::string::npos);
    return text.error().message;
}

std::string mixed(std::size_t size) {
    return noise(size / 2, 7) + std::string(size - size / 2, 'x');
}

class EveryCompression : public testing::TestWithParam<Compression> {};

TEST_P(EveryCompression, GivesBackWhatWasWritten) {
    for (const std::size_t size : {0, 1, 100, 70'000, 400'000}) {
        const std::string text = mixed(size);
        const std::string bytes = packed(GetParam(), text, 60'001);
        EXPECT_EQ(unpacked(GetParam(), bytes, 0, 64 * 1024).value(), text) << size;
        EXPECT_EQ(unpacked(GetParam(), bytes, 4097, 77).value(), text) << size;
    }
    EXPECT_EQ(unpacked(GetParam(), packed(GetParam(), mixed(500), 1), 1, 1).value(), mixed(500));
}

TEST_P(EveryCompression, NoticesEveryTruncation) {
    if (GetParam() == Compression::none) {
        return;  // the trailer notices
    }
    const std::string bytes = packed(GetParam(), mixed(300));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        EXPECT_NE(error_of(GetParam(), bytes.substr(0, size)), "no error") << size;
    }
    EXPECT_NE(error_of(GetParam(), bytes + '\0'), "no error");
    EXPECT_NE(error_of(GetParam(), bytes + "trailing garbage"), "no error");
}

TEST_P(EveryCompression, PassesOnWhatTheSourceReports) {
    TextSource source("", 1);
    source.fail_at_end({Code::unavailable, "the store is gone", {}});
    auto filter = decompress(GetParam(), source, "x").value();
    const auto text = read_all(*filter);
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, Code::unavailable);
    EXPECT_EQ(text.error().message, "the store is gone");
}

INSTANTIATE_TEST_SUITE_P(
    Compression,
    EveryCompression,
    testing::Values(Compression::none, Compression::gzip, Compression::zlib, Compression::lzw));

TEST(Compression, KnowsSuffixesAndPolicies) {
    EXPECT_EQ(compression_of_suffix(""), Compression::none);
    EXPECT_EQ(compression_of_suffix(".gz"), Compression::gzip);
    EXPECT_EQ(compression_of_suffix(".Z"), Compression::lzw);
    EXPECT_EQ(compression_of_suffix(".zlib"), Compression::zlib);
    EXPECT_EQ(compression_of_suffix(".z"), std::nullopt);
    EXPECT_EQ(suffix(Compression::lzw), ".Z");
    EXPECT_EQ(compression_of_policy("lzw").value(), Compression::lzw);
    EXPECT_NE(compression_of_policy("zstd").error().message.find("gzip, zlib, lzw"),
              std::string::npos);
}

// FLG 0, MTIME 0, XFL 0, OS 255; and the zlib header of the default level.
TEST(Compression, WritesTheHeadersReadersKnow) {
    EXPECT_EQ(to_hex(packed(Compression::gzip, "a").substr(0, 10)), "1f8b08000000000000ff");
    EXPECT_EQ(to_hex(packed(Compression::zlib, "a").substr(0, 2)), "789c");
}

TEST(Compression, ReadsConcatenatedGzipMembersOfOthers) {
    const std::string foreign =
        from_hex("1f8b08084ed50c6b02ff6e616d652e6a736f6e004bcb2f4acd4ccf530000631dc6d208000000");
    const std::string bytes = packed(Compression::gzip, "one ") + packed(Compression::gzip, "") +
                              foreign + packed(Compression::gzip, "three");
    EXPECT_EQ(unpacked(Compression::gzip, bytes).value(), "one foreign three");
    EXPECT_EQ(unpacked(Compression::gzip, bytes, 1, 3).value(), "one foreign three");
    const std::string tail = error_of(Compression::gzip, bytes + std::string(16, '\0'));
    EXPECT_NE(tail.find("no gzip member follow"), std::string::npos) << tail;
    const std::string half = error_of(Compression::gzip, bytes + bytes.substr(0, 5));
    EXPECT_NE(half.find("ends too early"), std::string::npos) << half;
}

TEST(Compression, NoticesFlippedBits) {
    for (const Compression kind : {Compression::gzip, Compression::zlib}) {
        std::string bytes = packed(kind, mixed(300));
        bytes[bytes.size() - 1] = static_cast<char>(bytes.back() ^ 1);
        EXPECT_NE(error_of(kind, bytes).find("stream at byte"), std::string::npos);
    }
    EXPECT_NE(error_of(Compression::zlib, from_hex("78bb00000001")).find("dictionary"),
              std::string::npos);
    EXPECT_NE(error_of(Compression::gzip, "").find("empty (0 bytes)"), std::string::npos);
    EXPECT_NE(error_of(Compression::lzw, "").find("empty (0 bytes)"), std::string::npos);
}

struct LzwRow {
    const char* name;
    const char* text;
    const char* hex;
};
class LzwVectors : public testing::TestWithParam<LzwRow> {};

TEST_P(LzwVectors, BothWays) {
    EXPECT_EQ(to_hex(packed(Compression::lzw, GetParam().text, 3)), GetParam().hex);
    EXPECT_EQ(unpacked(Compression::lzw, from_hex(GetParam().hex)).value(), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(Lzw,
                         LzwVectors,
                         testing::Values(LzwRow{"empty", "", "000302"},
                                         LzwRow{"one", "a", "00c30404"},
                                         LzwRow{"repeated", "aaaaaaaaaa", "00c3081c483020"},
                                         LzwRow{"words",
                                                "TOBEORNOTTOBEORTOBEORNOT",
                                                "00a93c1152e48914274fa80824687061c183090302"}),
                         [](const auto& row) { return row.param.name; });

TEST(Lzw, SurvivesFullTables) {
    std::string text(20'000, '\0');
    std::uint32_t x = 12345;
    for (std::size_t i = 0; i < text.size(); ++i) {
        x = x * 1664525u + 1013904223u;
        text[i] = static_cast<char>((x >> 24) & (i % 3 == 0 ? 7u : 255u));
    }
    const std::string bytes = packed(Compression::lzw, text);
    EXPECT_EQ(bytes.size(), 23'694u);
    TestingDigests digests;
    const Sha256 digest = sha256_of(digests, bytes_of(bytes)).value();
    EXPECT_EQ(to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()}),
              "b0a59069bb83830789ec0f1cf19be839aebd68008f3b950dad4e69baa04fa510");
    EXPECT_EQ(unpacked(Compression::lzw, bytes, 13, 97).value(), text);
}

// Some writers never clear a full table: codes stay as they are.
TEST(Lzw, ReadsOnWithAFullTable) {
    std::string codes;  // packed by hand: 12-bit codes come after 3,838 literals
    std::uint32_t bits = 0;
    unsigned count = 0, width = 9, high = 257;
    const auto put = [&](unsigned code) {
        bits |= code << count;
        for (count += width; count >= 8; count -= 8, bits >>= 8) {
            codes += static_cast<char>(bits);
        }
        if (high < 4095 && ++high == 1u << width && width < 12) {
            ++width;
        }
    };
    std::string text;
    for (int i = 0; i < 5000; ++i) {
        put(static_cast<unsigned>(i % 251));
        text += static_cast<char>(i % 251);
    }
    put(4095);
    text += text.substr(4095 - 258, 2);
    put(257);
    codes += static_cast<char>(bits);
    EXPECT_EQ(unpacked(Compression::lzw, codes).value(), text);
}

TEST(Lzw, RefusesCodesNotDefinedYet) {
    // Clear, then 300: only 256 and 257 exist beside the literals.
    EXPECT_NE(error_of(Compression::lzw, from_hex("0059020000")).find("lzw code 300"),
              std::string::npos);
}

}  // namespace
}  // namespace capstan::steward
