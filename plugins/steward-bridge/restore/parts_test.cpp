// The small parts restoring is made of, against known values.
#include "plugins/steward-bridge/restore/cluster.hpp"
#include "plugins/steward-bridge/restore/crc32c.hpp"
#include "plugins/steward-bridge/restore/history.hpp"
#include "plugins/steward-bridge/restore/key_hash.hpp"
#include "plugins/steward-bridge/restore/mvcc.hpp"
#include "plugins/steward-bridge/restore/protobuf.hpp"
#include "plugins/steward-bridge/restore/raft_files.hpp"
#include "plugins/steward-bridge/restore/sha1.hpp"
#include "plugins/steward-bridge/restore/sorted_runs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

namespace capstan::steward {
namespace {

std::string hex(std::string_view bytes) {
    std::string text;
    for (const char c : bytes) {
        text += "0123456789abcdef"[static_cast<std::uint8_t>(c) >> 4];
        text += "0123456789abcdef"[static_cast<std::uint8_t>(c) & 15];
    }
    return text;
}

std::span<const std::uint8_t> bytes(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string sha1_hex(std::string_view of) {
    const auto digest = sha1(of);
    return hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

TEST(Sha1, GivesTheValuesOfFips180) {
    EXPECT_EQ(sha1_hex(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    EXPECT_EQ(sha1_hex("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    EXPECT_EQ(sha1_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    EXPECT_EQ(sha1_hex(std::string(1'000'000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST(Crc32c, GivesTheValueOfRfc3720AndRunsOn) {
    EXPECT_EQ(crc32c(0, bytes("123456789")), 0xE3069283u);
    EXPECT_EQ(crc32c(0, bytes(std::string(32, '\0'))), 0x8A9136AAu);
    EXPECT_EQ(crc32c(crc32c(0, bytes("1234")), bytes("56789")), 0xE3069283u);
    EXPECT_EQ(crc32c(7, {}), 7u);
}

TEST(Protobuf, WritesAndReadsFields) {
    std::string message;
    protobuf::Writer writer(message);
    writer.number(1, 300);
    writer.number(2, 0);
    writer.number_always(3, 0);
    writer.bytes(4, "ab");
    writer.bytes(5, "");
    writer.number(6, ~std::uint64_t{0});
    EXPECT_EQ(hex(message),
              "08ac02180022026162"
              "30ffffffffffffffffff01");
    protobuf::Reader reader(message);
    EXPECT_EQ(reader.next().value()->value, 300u);
    EXPECT_EQ(reader.next().value()->number, 3u);
    EXPECT_EQ(reader.next().value()->bytes, "ab");
    EXPECT_EQ(reader.next().value()->value, ~std::uint64_t{0});
    EXPECT_FALSE(reader.next().value());
}

TEST(Protobuf, RefusesWhatIsCutOff) {
    for (const std::string_view message : {"\x08",
                                           "\x08\xff",
                                           "\x22\x05"
                                           "abcd",
                                           "\x0d"
                                           "abc",
                                           "\x0b"}) {
        protobuf::Reader reader(message);
        EXPECT_FALSE(reader.next()) << hex(message);
    }
}

TEST(Mvcc, RevisionsAreKeysOfSeventeenBytes) {
    const mvcc::Revision put{258, 3, false}, tombstone{258, 3, true};
    EXPECT_EQ(hex(mvcc::encode_revision(put)), "00000000000001025f0000000000000003");
    EXPECT_EQ(hex(mvcc::encode_revision(tombstone)), "00000000000001025f000000000000000374");
    EXPECT_EQ(mvcc::decode_revision(mvcc::encode_revision(put)), put);
    EXPECT_EQ(mvcc::decode_revision(mvcc::encode_revision(tombstone)), tombstone);
    const std::string good = mvcc::encode_revision(put);
    EXPECT_FALSE(mvcc::decode_revision(good.substr(1)));
    EXPECT_FALSE(mvcc::decode_revision(good + "x"));
    EXPECT_FALSE(mvcc::decode_revision(""));
    EXPECT_FALSE(mvcc::decode_revision(std::string(17, 'x')));
}

TEST(Mvcc, KeyValuesAreEtcdsMessages) {
    std::string message;
    mvcc::encode_key_value({"k", 2, 3, 2, "v", -1}, message);
    EXPECT_EQ(hex(message),
              "0a016b10021803200"
              "22a017630ffffffffffffffffff01");
    const auto back = mvcc::decode_key_value(message).value();
    EXPECT_EQ(back.key, "k");
    EXPECT_EQ(back.create_revision, 2);
    EXPECT_EQ(back.mod_revision, 3);
    EXPECT_EQ(back.version, 2);
    EXPECT_EQ(back.value, "v");
    EXPECT_EQ(back.lease, -1);
    mvcc::KeyValue tombstone;
    tombstone.key = "k";
    mvcc::encode_key_value(tombstone, message);
    EXPECT_EQ(hex(message), "0a016b");
    EXPECT_EQ(hex(mvcc::encode_lease({7, 60})), "0807103c");
}

TEST(Cluster, HasTheIdsEtcdComputes) {
    const auto one =
        make_cluster("default", "default=http://localhost:2380", "etcd-cluster").value();
    EXPECT_EQ(one.self().hex_id(), "8e9e05c52164694d");
    EXPECT_EQ(hex(mvcc::encode_number(one.id)), "cdf818194e3a8c32");
    EXPECT_EQ(
        one.self().json(),
        R"({"id":10276657743932975437,"peerURLs":["http://localhost:2380"],"name":"default"})");
    EXPECT_EQ(conf_state_json(one), R"({"voters":[10276657743932975437],"auto_leave":false})");
}

TEST(Cluster, OrdersMembersByIdAndUrlsByText) {
    const auto three = make_cluster("b",
                                    "a=https://a:2380,b=https://b:2380,c=https://c:2380,"
                                    "b=http://b:1",
                                    "token")
                           .value();
    ASSERT_EQ(three.members.size(), 3u);
    EXPECT_TRUE(std::is_sorted(three.members.begin(),
                               three.members.end(),
                               [](const auto& x, const auto& y) { return x.id < y.id; }));
    EXPECT_EQ(three.self().name, "b");
    EXPECT_EQ(three.self().peer_urls, (std::vector<std::string>{"http://b:1", "https://b:2380"}));
    EXPECT_EQ(committed_index(three), 3u);
}

TEST(Cluster, SaysWhatIsWrongWithAnInitialCluster) {
    for (const char* wrong : {"a",
                              "=http://a:1",
                              "a=a:1",
                              "a=ftp://a:1",
                              "a=http://a",
                              "a=http://a:1/x",
                              "a=http://:1",
                              "a=http://a:",
                              "a=http://a:1,,"}) {
        EXPECT_FALSE(make_cluster("a", wrong, "t")) << wrong;
    }
    EXPECT_NE(make_cluster("b", "a=http://a:1", "t").error().message.find("no member called \"b\""),
              std::string::npos);
    EXPECT_NE(make_cluster("a", "a=http://a:1,b=http://a:1", "t").error().message.find("same peer"),
              std::string::npos);
}

// The frames of a log, checked as etcd checks them: type of record -> data.
std::vector<std::pair<std::uint64_t, std::string>> decode_log(std::string_view log) {
    std::vector<std::pair<std::uint64_t, std::string>> records;
    std::uint32_t sum = 0;
    while (!log.empty()) {
        std::uint64_t frame = 0;
        for (std::size_t i = 8; i-- > 0;) {
            frame = frame << 8 | static_cast<std::uint8_t>(log[i]);
        }
        const std::size_t size = frame & 0xFFFFFFFFFFFFFF;
        const std::size_t padding = frame >> 63 != 0 ? frame >> 56 & 7 : 0;
        EXPECT_EQ((size + padding) % 8, 0u);
        protobuf::Reader record(log.substr(8, size));
        const auto type = record.next().value(), crc = record.next().value(),
                   data = record.next().value();
        records.emplace_back(type->value, data ? data->bytes : std::string_view());
        sum = crc32c(sum, bytes(records.back().second));
        EXPECT_EQ(crc->value, sum);
        log.remove_prefix(8 + size + padding);
    }
    return records;
}

TEST(RaftFiles, TheLogAddsEachMemberAndMarksTheSnapshot) {
    const auto two = make_cluster("b", "a=http://a:1,b=http://b:1", "t").value();
    const auto records = decode_log(encode_log(two));
    std::vector<std::uint64_t> types;
    for (const auto& record : records) {
        types.push_back(record.first);
    }
    EXPECT_EQ(types, (std::vector<std::uint64_t>{4, 1, 5, 2, 2, 3, 5}));
    EXPECT_EQ(hex(records[2].second), "08001000");
    protobuf::Reader state(records[5].second);
    EXPECT_EQ(state.next().value()->value, 1u);                 // term
    EXPECT_EQ(state.next().value()->value, two.members[0].id);  // vote
    EXPECT_EQ(state.next().value()->value, 2u);                 // commit
    protobuf::Reader metadata(records[1].second);
    EXPECT_EQ(metadata.next().value()->value, two.self().id);
    EXPECT_EQ(metadata.next().value()->value, two.id);
}

TEST(RaftFiles, TheSnapshotHasItsChecksum) {
    const auto one = make_cluster("a", "a=http://a:1", "t").value();
    const std::string encoded = encode_snapshot(one);
    protobuf::Reader file(encoded);
    const auto crc = file.next().value(), data = file.next().value();
    EXPECT_EQ(crc->value, crc32c(0, bytes(data->bytes)));
    protobuf::Reader snapshot(data->bytes);
    const std::string_view store = snapshot.next().value()->bytes;
    EXPECT_NE(store.find("/0/members/" + one.self().hex_id() + "/raftAttributes"),
              std::string_view::npos);
}

TEST(History, AcceptsWhatContinues) {
    History history;
    history.put("a", 2, 3);
    EXPECT_TRUE(history.check_put("a", 2, 10, 4));
    EXPECT_TRUE(history.check_erase("a"));
    EXPECT_TRUE(history.check_put("a", 12, 12, 1));
    EXPECT_TRUE(history.check_put("new", 13, 13, 1));
}

TEST(History, RefusesWhatBelongsElsewhere) {
    History history;
    history.put("a", 2, 3);
    history.put("gone", 2, 1);
    history.erase("gone");
    EXPECT_FALSE(history.check_put("a", 2, 10, 3));
    EXPECT_FALSE(history.check_put("a", 2, 10, 5));
    EXPECT_FALSE(history.check_put("a", 3, 10, 4));
    EXPECT_FALSE(history.check_put("gone", 2, 10, 2));
    EXPECT_FALSE(history.check_put("new", 9, 10, 1));
    EXPECT_FALSE(history.check_put("new", 10, 10, 2));
    EXPECT_FALSE(history.check_erase("gone"));
    EXPECT_FALSE(history.check_erase("new"));
}

TEST(History, KeepsToItsMemoryAndStillFindsAnotherHistory) {
    History history(2048);
    for (int i = 0; i < 100'000; ++i) {
        history.put("key-" + std::to_string(i), i + 2, 1);
    }
    EXPECT_TRUE(history.sampled());
    int refused = 0;
    for (int i = 0; i < 100'000; ++i) {
        const std::string key = "key-" + std::to_string(i);
        ASSERT_TRUE(history.check_put(key, i + 2, 200'000 + i, 2)) << i;
        refused += history.check_put(key, i + 3, 400'000 + i, 3) ? 0 : 1;
    }
    EXPECT_GT(refused, 100);
}

TEST(History, DeletedKeysMakeRoom) {
    History history(1024);
    for (int i = 0; i < 50'000; ++i) {
        const std::string key = "key-" + std::to_string(i);
        ASSERT_TRUE(history.check_put(key, i, i, 1));
        ASSERT_TRUE(history.check_erase(key));
    }
    EXPECT_FALSE(history.sampled());
}

TEST(KeyHash, IsTheSameForTheSameKeyOnly) {
    const KeyHash hash, other;
    std::vector<std::uint64_t> seen;
    for (int i = 0; i < 1000; ++i) {
        const std::string key(static_cast<std::size_t>(i), 'x');
        EXPECT_EQ(hash.of(key), hash.of(key));
        EXPECT_NE(hash.of(key), other.of(key));
        EXPECT_NE(hash.wide(key)[0], hash.wide(key)[1]);
        seen.push_back(hash.of(key));
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

TEST(SortedRuns, SortInMemoryAndOnDiskAlike) {
    const std::string path = testing::TempDir() + "sorted-runs-" + std::to_string(::getpid());
    for (const std::size_t count : {0u, 1u, 1024u, 1025u, 50'000u}) {
        std::mt19937_64 random(count);
        std::vector<KeyRecord> expected, found;
        {
            SortedRuns runs(path, 1);
            for (std::size_t i = 0; i < count; ++i) {
                expected.push_back({{random() % 100, random()}, i});
                ASSERT_TRUE(runs.add(expected.back()));
            }
            ASSERT_TRUE(runs.for_each([&](const KeyRecord& record) { found.push_back(record); }));
            EXPECT_EQ(runs.runs() > 0, count > 1024) << count;
        }
        std::sort(expected.begin(), expected.end());
        EXPECT_EQ(found, expected) << count;
        EXPECT_FALSE(std::filesystem::exists(path));
    }
}

}  // namespace
}  // namespace capstan::steward
