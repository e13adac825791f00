#include "plugins/steward-bridge/snapshot/trailer.hpp"

#include "plugins/steward-bridge/stream/testing_digest.hpp"
#include "plugins/steward-bridge/stream/testing_streams.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

std::string sealed(std::string_view payload) {
    TestingDigests digests;
    TextSink sink;
    TrailerSink filter(sink, digests.sha256().value());
    for (std::size_t at = 0; at < payload.size(); at += 1000) {
        EXPECT_TRUE(filter.write(bytes_of(payload.substr(at, 1000))));
    }
    EXPECT_TRUE(filter.finish());
    EXPECT_TRUE(sink.finished);
    return sink.text;
}

Result<std::string> opened(const std::string& bytes,
                           TrailerOptions options = {},
                           std::size_t piece = 0,
                           std::size_t read_piece = 4096) {
    TestingDigests digests;
    TextSource source(bytes, piece);
    TrailerSource filter(source, digests.sha256().value(), "Full-1", options);
    return read_all(filter, read_piece);
}

void expect_error(const std::string& bytes, const char* what, TrailerOptions options = {}) {
    const auto text = opened(bytes, options);
    ASSERT_FALSE(text) << what;
    EXPECT_EQ(text.error().code, Code::invalid);
    EXPECT_TRUE(text.error().message.starts_with("Full-1 is damaged: "));
    EXPECT_NE(text.error().message.find(what), std::string::npos) << text.error().message;
}

TEST(Trailer, StandsBehindThePayload) {
    EXPECT_EQ(to_hex(sealed("abc")),
              "616263"
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Trailer, IsCheckedAndTakenOff) {
    for (const std::size_t size : {1, 31, 32, 33, 65'503, 65'504, 65'536, 200'000}) {
        const std::string payload = noise(size, 3);
        const std::string bytes = sealed(payload);
        EXPECT_EQ(opened(bytes).value(), payload) << size;
        EXPECT_EQ(opened(bytes, {}, 33, 64 * 1024).value(), payload) << size;
        EXPECT_EQ(opened(bytes, {.keep = true}).value(), bytes) << size;
    }
    EXPECT_EQ(opened(sealed("abc"), {.keep = true}, 1, 1).value(), sealed("abc"));
    EXPECT_EQ(opened(sealed("abc"), {}, 1, 1).value(), "abc");
}

TEST(Trailer, NoticesWhatIsWrong) {
    std::string bytes = sealed(noise(1024, 5));
    for (const std::size_t at : {std::size_t{0}, std::size_t{1023}, bytes.size() - 1}) {
        std::string other = bytes;
        other[at] = static_cast<char>(other[at] ^ 0x10);
        expect_error(other, "SHA-256");
        expect_error(other, "SHA-256", {.keep = true});
    }
    expect_error(bytes.substr(0, 800), "SHA-256");
    expect_error(bytes + "x", "SHA-256");
    expect_error("", "its 0 bytes are too few");
    expect_error(bytes.substr(0, 31), "its 31 bytes are too few");
    expect_error(sealed(""), "its 32 bytes are too few");
}

TEST(Trailer, OfADatabaseStandsBehindWholeSectors) {
    const TrailerOptions database{.database = true};
    EXPECT_EQ(opened(sealed(noise(1024, 1)), database).value(), noise(1024, 1));
    expect_error(sealed(noise(1000, 1)), "size mod 512", database);
    expect_error(sealed(noise(1280, 1)), "size mod 512", database);
    // etcd's stream without its digest: the size tells.
    expect_error(noise(1024, 1), "size mod 512", database);
}

TEST(Trailer, PassesOnWhatTheSourceReports) {
    TestingDigests digests;
    TextSource source(sealed("abc"));
    source.fail_at_end({Code::timeout, "slow", {}});
    TrailerSource filter(source, digests.sha256().value(), "x");
    EXPECT_EQ(read_all(filter).error().code, Code::timeout);
}

}  // namespace
}  // namespace capstan::steward
