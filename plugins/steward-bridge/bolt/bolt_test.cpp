#include "plugins/steward-bridge/bolt/reader.hpp"
#include "plugins/steward-bridge/bolt/writer.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>

namespace capstan::steward::bolt {
namespace {

using Pairs = std::map<std::string, std::string>;
using Buckets = std::map<std::string, Pairs>;

class Bolt : public testing::Test {
protected:
    Bolt() {
        std::string name = testing::TempDir() + "bolt-XXXXXX";
        directory_ = ::mkdtemp(name.data());
        path_ = directory_ + "/db";
    }
    ~Bolt() override { std::filesystem::remove_all(directory_); }

    void write(const Buckets& buckets, std::uint32_t page_size) {
        std::filesystem::remove(path_);
        auto writer = Writer::create(path_, page_size);
        ASSERT_TRUE(writer) << writer.error().message;
        for (const auto& [name, pairs] : buckets) {
            ASSERT_TRUE(writer.value()->begin_bucket(name));
            for (const auto& [key, value] : pairs) {
                ASSERT_TRUE(writer.value()->put(bytes(key), bytes(value)));
            }
        }
        ASSERT_TRUE(writer.value()->finish());
    }

    Result<Buckets> read() {
        Buckets found;
        CAPSTAN_TRY(const auto reader, Reader::open(path_));
        CAPSTAN_TRY(reader->check());
        CAPSTAN_TRY(const auto buckets, reader->buckets());
        for (const Bucket& bucket : buckets) {
            Pairs& pairs = found[bucket.name];
            Cursor cursor(*reader, bucket);
            CAPSTAN_TRY(bool more, cursor.first());
            while (more) {
                pairs.emplace(text(cursor.key()), text(cursor.value()));
                CAPSTAN_TRY(more, cursor.next());
            }
        }
        return found;
    }

    std::string content() const {
        std::ifstream file(path_, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    void put_content(const std::string& to) const { std::ofstream(path_, std::ios::binary) << to; }

    std::string directory_, path_;
};

Pairs random_pairs(unsigned seed, std::size_t count, std::size_t value_bytes_max) {
    std::mt19937 random(seed);
    Pairs pairs;
    while (pairs.size() < count) {
        std::string key(1 + random() % 40, '\0');
        for (char& c : key) {
            c = static_cast<char>(random());
        }
        pairs[key] = std::string(random() % (value_bytes_max + 1), static_cast<char>(random()));
    }
    return pairs;
}

TEST_F(Bolt, ReadsBackWhatWasWritten) {
    for (const std::uint32_t page_size : {1024u, 4096u, 65536u}) {
        for (const std::size_t count : {0u, 1u, 2u, 50u, 5000u}) {
            const Buckets written = {{"empty", {}},
                                     {"few", random_pairs(1, count, 20)},
                                     {"large", random_pairs(2, count / 10 + 1, 20000)}};
            write(written, page_size);
            const auto found = read();
            ASSERT_TRUE(found) << page_size << " " << count << ": " << found.error().message;
            EXPECT_EQ(found.value(), written) << page_size << " " << count;
        }
    }
}

// bbolt deletes from the file later on, and stops at a branch of one child.
TEST_F(Bolt, EveryBranchHasTwoChildrenOrMore) {
    for (std::size_t count = 100; count < 1500; count += 61) {
        write({{"key", random_pairs(3, count, 60)}}, 1024);
        const std::string file = content();
        const auto* at = reinterpret_cast<const std::uint8_t*>(file.data());
        std::size_t branches = 0;
        for (std::size_t page = 2; page < file.size() / 1024;) {
            const PageHeader header = PageHeader::decode(at + page * 1024);
            if (header.flags == kBranchPage) {
                ++branches;
                EXPECT_GE(header.count, 2) << count;
            }
            page += 1 + header.overflow;
        }
        EXPECT_GT(branches, 0u);
    }
}

TEST_F(Bolt, FindsTheLastKey) {
    for (const std::size_t count : {1u, 30u, 3000u}) {
        const Pairs pairs = random_pairs(4, count, 100);
        write({{"a", {}}, {"b", pairs}}, 1024);
        const auto reader = Reader::open(path_);
        const auto buckets = reader.value()->buckets();
        Cursor empty(*reader.value(), buckets.value()[0]);
        EXPECT_FALSE(empty.last().value());
        EXPECT_FALSE(empty.first().value());
        Cursor cursor(*reader.value(), buckets.value()[1]);
        ASSERT_TRUE(cursor.last().value());
        EXPECT_EQ(text(cursor.key()), pairs.rbegin()->first);
        EXPECT_EQ(text(cursor.value()), pairs.rbegin()->second);
        EXPECT_FALSE(cursor.next().value());
    }
}

TEST_F(Bolt, SeeksTheFirstKeyThatIsNotBelow) {
    for (const std::size_t count : {0u, 1u, 20u, 2000u}) {
        const Pairs pairs = random_pairs(12, count, 90);
        write({{"b", pairs}}, 1024);
        const auto reader = Reader::open(path_);
        const auto buckets = reader.value()->buckets();
        Cursor cursor(*reader.value(), buckets.value()[0]);
        Pairs wanted = random_pairs(13, 500, 0);
        wanted.insert(pairs.begin(), pairs.end());
        for (const auto& [key, value] : wanted) {
            auto expected = pairs.lower_bound(key);
            ASSERT_EQ(cursor.seek(bytes(key)).value(), expected != pairs.end());
            if (expected != pairs.end()) {
                ASSERT_EQ(text(cursor.key()), expected->first);
                ASSERT_EQ(cursor.next().value(), ++expected != pairs.end());
            }
        }
    }
}

TEST_F(Bolt, RefusesKeysThatDoNotRise) {
    auto writer = Writer::create(path_, 4096);
    ASSERT_TRUE(writer.value()->begin_bucket("key"));
    ASSERT_TRUE(writer.value()->put(bytes("b"), bytes("1")));
    EXPECT_FALSE(writer.value()->put(bytes("b"), bytes("2")));
    EXPECT_FALSE(writer.value()->put(bytes("a"), bytes("2")));
    EXPECT_FALSE(writer.value()->put(bytes(""), bytes("2")));
    EXPECT_FALSE(writer.value()->put(bytes(std::string(kKeyBytesMax + 1, 'c')), bytes("2")));
}

TEST_F(Bolt, DoesNotOverwriteAFile) {
    put_content("kept");
    const auto writer = Writer::create(path_, 4096);
    ASSERT_FALSE(writer);
    EXPECT_EQ(writer.error().code, Code::exists);
    EXPECT_EQ(content(), "kept");
}

TEST_F(Bolt, TakesTheOtherMetaWhenOneIsDamaged) {
    const Buckets written = {{"key", random_pairs(5, 300, 50)}};
    for (const std::size_t damaged : {0u, 1024u}) {
        write(written, 1024);
        std::string file = content();
        file[damaged + kPageHeaderBytes + 20] ^= 1;
        put_content(file);
        const auto found = read();
        ASSERT_TRUE(found) << found.error().message;
        EXPECT_EQ(found.value(), written);
    }
    std::string file = content();
    file[kPageHeaderBytes + 20] ^= 1;
    put_content(file);
    EXPECT_EQ(read().error().message, "neither meta page is intact");
}

TEST_F(Bolt, NoticesAFileThatEndsEarly) {
    write({{"key", random_pairs(6, 300, 50)}}, 1024);
    const std::string file = content();
    put_content(file.substr(0, file.size() - 1));
    EXPECT_NE(read().error().message.find("its meta page says"), std::string::npos);
    put_content("");
    EXPECT_EQ(read().error().message, "neither meta page is intact");
}

// Where a page is damaged and what is said of it. The root of bucket "key" is page 4.
struct Damage {
    const char* name;
    std::size_t page, offset;
    std::string bytes;
    const char* message;
};

class BoltDamage : public Bolt, public testing::WithParamInterface<Damage> {};

TEST_P(BoltDamage, IsNamed) {
    const Damage& damage = GetParam();
    write({{"key", {{"a", std::string(800, 'x')}, {"b", std::string(800, 'y')}}}}, 1024);
    std::string file = content();
    file.replace(damage.page * 1024 + damage.offset, damage.bytes.size(), damage.bytes);
    put_content(file);
    const auto found = read();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, Code::invalid);
    EXPECT_NE(found.error().message.find(damage.message), std::string::npos)
        << found.error().message;
}

std::string raw(std::initializer_list<int> values) {
    std::string text;
    for (const int value : values) {
        text += static_cast<char>(value);
    }
    return text;
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    BoltDamage,
    testing::Values(
        Damage{"id", 2, 0, raw({9}), "page 2: calls itself page 9"},
        Damage{"flags", 2, 8, raw({4}), "page 2: is neither a branch nor a leaf"},
        Damage{"overflow", 2, 12, raw({9}), "page 2: overflows beyond the last page"},
        Damage{"count", 2, 10, raw({0xFF, 0xFF}), "page 2: has no room for its elements"},
        Damage{"value", 2, 16 + 12, raw({0xFF, 0xFF}), "page 2: element 0 lies outside of it"},
        Damage{"no_key", 2, 16 + 8, raw({0}), "page 2: element 0 has no key"},
        Damage{"order", 3, 32, raw({'A'}), "page 3: element 0 is not in the order of keys"},
        Damage{"child_missing", 4, 16 + 8, raw({99}), "page 99: does not exist"},
        Damage{"child_meta", 4, 16 + 8, raw({1}), "page 4: leads to page 1"},
        Damage{"circle", 4, 16 + 8, raw({4}), "page 4: is used twice"},
        Damage{"twice", 4, 32 + 8, raw({2}), "page 2: is used twice"}),
    [](const auto& row) { return row.param.name; });

// A loop is found without check() as well, which a restore does not run.
TEST_F(Bolt, ACursorDoesNotRunInCircles) {
    write({{"key", {{"a", std::string(800, 'x')}, {"b", std::string(800, 'y')}}}}, 1024);
    std::string file = content();
    file[4 * 1024 + 16 + 8] = 4;
    put_content(file);
    const auto reader = Reader::open(path_);
    Cursor cursor(*reader.value(), reader.value()->buckets().value()[0]);
    EXPECT_NE(cursor.first().error().message.find("leads in a circle"), std::string::npos);
}

TEST_F(Bolt, NeverCrashesOnDamagedBytes) {
    write({{"key", random_pairs(7, 200, 120)}, {"meta", random_pairs(8, 3, 20)}}, 1024);
    const std::string whole = content();
    std::mt19937 random(9);
    for (int round = 0; round < 1000; ++round) {
        std::string file = whole;
        for (unsigned flips = 1 + random() % 4; flips > 0; --flips) {
            file[2048 + random() % (file.size() - 2048)] = static_cast<char>(random());
        }
        put_content(file);
        const auto found = read();
        EXPECT_TRUE(found || found.error().code == Code::invalid) << found.error().message;
    }
}

std::string bbolt() {
    const char* home = std::getenv("HOME");
    const char* given = std::getenv("CAPSTAN_BBOLT");
    return given != nullptr
               ? given
               : std::string(home == nullptr ? "" : home) + "/.cache/capstan/bbolt/bin/bbolt";
}

TEST_F(Bolt, BboltItselfFindsNothingWrong) {
    if (::access(bbolt().c_str(), X_OK) != 0) {
        GTEST_SKIP() << "there is no bbolt here: GOBIN=~/.cache/capstan/bbolt/bin "
                        "go install go.etcd.io/bbolt/cmd/bbolt@v1.3.11";
    }
    for (const std::size_t count : {0u, 1u, 40u, 4000u}) {
        for (const std::uint32_t page_size : {1024u, 4096u}) {
            write({{"empty", {}},
                   {"key", random_pairs(10, count, 200)},
                   {"large", random_pairs(11, count / 100 + 1, 50000)}},
                  page_size);
            const std::string command =
                bbolt() + " check " + path_ + " >" + directory_ + "/out 2>&1";
            EXPECT_EQ(std::system(command.c_str()), 0) << count << " " << page_size;
        }
    }
}

}  // namespace
}  // namespace capstan::steward::bolt
