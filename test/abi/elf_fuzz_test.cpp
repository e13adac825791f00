// Damaged plugins never crash the reader: seeded mutations of good files, also run under
// AddressSanitizer. What the reader still accepts must stay within its limits.
#include "test/abi/abi_fixture.hpp"

#include <algorithm>
#include <cstring>
#include <random>

namespace capstan::plugin {
namespace {

class MemorySource final : public ByteSource {
public:
    explicit MemorySource(const std::string& bytes) : bytes_(bytes) {}
    std::uint64_t size() const noexcept override { return bytes_.size(); }
    Result<void> read_at(std::uint64_t offset, std::span<std::byte> out) const override {
        if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
            ADD_FAILURE() << "read of " << out.size() << " bytes at " << offset << " of "
                          << bytes_.size();
            return fail(Code::invalid, "past the end");
        }
        std::copy_n(bytes_.data() + offset, out.size(), reinterpret_cast<char*>(out.data()));
        return ok();
    }

private:
    const std::string& bytes_;
};

// A few changes, more often where the tables are: headers at the start, notes and dynamic
// data in the first pages.
std::string mutated(const std::string& good, std::mt19937_64& random) {
    std::string bytes = good;
    const std::size_t changes = 1 + random() % 4;
    for (std::size_t i = 0; i < changes; ++i) {
        const std::size_t near =
            std::min<std::size_t>(bytes.size(), random() % 2 == 0 ? 1024 : 8192);
        const std::size_t area = random() % 3 == 0 ? bytes.size() : near;
        const std::size_t at = random() % area;
        switch (random() % 4) {
            case 0: bytes[at] = static_cast<char>(random()); break;
            case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8))); break;
            case 2:
                for (std::size_t k = at; k < std::min(at + 8, bytes.size()); ++k) {
                    bytes[k] = static_cast<char>(0xff);
                }
                break;
            default:
                std::memset(bytes.data() + at, 0, std::min<std::size_t>(4, bytes.size() - at));
                break;
        }
    }
    if (random() % 8 == 0) {
        bytes.resize(random() % bytes.size());
    }
    return bytes;
}

TEST(ElfFuzz, ReadsDamagedFilesWithinItsBounds) {
    const char* given = std::getenv("CAPSTAN_SEED");
    const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
    SCOPED_TRACE("CAPSTAN_SEED=" + std::to_string(seed));
    RecordProperty("seed", std::to_string(seed));
    std::mt19937_64 random(seed);
    std::size_t accepted = 0;
    constexpr int kRounds = 6000;
    for (const char* name : {"minimal", "two-notes"}) {
        const std::string good = read_bytes(test_plugin(name));
        ASSERT_GT(good.size(), 4096U);
        for (int i = 0; i < kRounds / 2; ++i) {
            const std::string bytes = mutated(good, random);
            const auto facts = read_elf(MemorySource(bytes));
            if (facts) {
                ++accepted;
                EXPECT_LE(facts.value().manifest.size(), kNoteBytesMax);
                EXPECT_LE(facts.value().needed.size(), kNeededMax);
                Problems problems;
                parse_manifest(facts.value().manifest, {}, problems);
            } else {
                EXPECT_FALSE(facts.error().message.empty());
            }
        }
    }
    EXPECT_GT(accepted, 0U);
    EXPECT_LT(accepted, static_cast<std::size_t>(kRounds));
}

TEST(ElfFuzz, RefusesHugeTablesWithoutReadingThem) {
    std::string bytes = read_bytes(test_plugin("minimal"));
    for (const std::size_t offset : {std::size_t{32}, std::size_t{64 + 8}, std::size_t{64 + 32}}) {
        std::string broken = bytes;
        broken.replace(offset, 8, std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8));
        EXPECT_FALSE(read_elf(MemorySource(broken))) << offset;
    }
}

}  // namespace
}  // namespace capstan::plugin
