// For tests: makes stores out of written-down histories, and reads databases back whole.
#pragma once

#include "plugins/steward-bridge/bolt/reader.hpp"
#include "plugins/steward-bridge/bolt/writer.hpp"
#include "plugins/steward-bridge/restore/mvcc.hpp"
#include "plugins/steward-bridge/snapshot/compression.hpp"
#include "plugins/steward-bridge/snapshot/delta_event.hpp"
#include "plugins/steward-bridge/snapshot/delta_writer.hpp"
#include "plugins/steward-bridge/snapshot/payload.hpp"
#include "plugins/steward-bridge/snapshot/trailer.hpp"
#include "plugins/steward-bridge/stream/testing_digest.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace capstan::steward {

// A directory that goes with the test.
class TestDirectory {
public:
    TestDirectory() {
        std::string name = testing::TempDir() + "restore-XXXXXX";
        path_ = ::mkdtemp(name.data());
    }
    ~TestDirectory() { std::filesystem::remove_all(path_); }
    TestDirectory(const TestDirectory&) = delete;
    TestDirectory& operator=(const TestDirectory&) = delete;

    std::string path(const std::string& below = {}) const {
        return below.empty() ? path_ : path_ + "/" + below;
    }
    std::vector<std::string> entries() const {
        std::vector<std::string> names;
        for (const auto& entry : std::filesystem::directory_iterator(path_)) {
            names.push_back(entry.path().filename().string());
        }
        return names;
    }

private:
    std::string path_;
};

// bucket -> key -> value; a bucket that is not there is no entry.
using Database = std::map<std::string, std::map<std::string, std::string>>;

inline Database read_database(const std::string& path) {
    Database found;
    const auto reader = bolt::Reader::open(path);
    if (!reader) {
        ADD_FAILURE() << path << ": " << reader.error().message;
        return found;
    }
    const auto checked = reader.value()->check();
    EXPECT_TRUE(checked) << checked.error().message;
    const auto buckets = reader.value()->buckets();
    for (const bolt::Bucket& bucket : buckets.value()) {
        auto& pairs = found[bucket.name];
        bolt::Cursor cursor(*reader.value(), bucket);
        for (auto more = cursor.first(); more && more.value(); more = cursor.next()) {
            pairs.emplace(bolt::text(cursor.key()), bolt::text(cursor.value()));
        }
    }
    return found;
}

// What a client sees at the newest revision, from the bucket `key` alone.
struct Live {
    std::int64_t create_revision{0}, mod_revision{0}, version{0}, lease{0};
    std::string value;

    friend bool operator==(const Live&, const Live&) = default;
};
using LiveKeys = std::map<std::string, Live>;

inline LiveKeys live_keys(const Database& database) {
    LiveKeys live;
    for (const auto& [key, value] : database.at("key")) {
        const auto pair = mvcc::decode_key_value(value).value();
        if (mvcc::decode_revision(key)->tombstone) {
            live.erase(std::string(pair.key));
        } else {
            live[std::string(pair.key)] = {pair.create_revision,
                                           pair.mod_revision,
                                           pair.version,
                                           pair.lease,
                                           std::string(pair.value)};
        }
    }
    return live;
}

// Events of a history as entries of the bucket `key`, by revision. Sub revisions count the events
// of a revision.
inline std::map<std::string, std::string> key_entries(const std::vector<DeltaEvent>& events) {
    std::map<std::string, std::string> entries;
    std::int64_t main = 0, sub = 0;
    for (const DeltaEvent& event : events) {
        sub = event.mod_revision == main ? sub + 1 : 0;
        main = event.mod_revision;
        std::string message;
        mvcc::KeyValue pair;
        pair.key = event.key;
        if (!event.deleted) {
            pair = {
                event.key, event.create_revision, main, event.version, event.value, event.lease};
        }
        mvcc::encode_key_value(pair, message);
        entries[mvcc::encode_revision({main, sub, event.deleted})] = message;
    }
    return entries;
}

class TestFileSink final : public Sink {
public:
    explicit TestFileSink(const std::string& path) : file_(path, std::ios::binary) {}
    Result<void> write(std::span<const std::uint8_t> bytes) override {
        file_.write(reinterpret_cast<const char*>(bytes.data()),
                    static_cast<std::streamsize>(bytes.size()));
        return ok();
    }
    Result<void> finish() override {
        file_.close();
        return ok();
    }

private:
    std::ofstream file_;
};

inline std::string file_content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// Puts snapshots below `store`/v2.
class TestStore {
public:
    explicit TestStore(std::string store) : store_(std::move(store)) {
        std::filesystem::create_directories(store_ + "/v2");
    }

    // A full of these buckets; `revision` is that of its name.
    void add_full(std::int64_t revision, const Database& database, int second = 1) {
        const std::string scratch = store_ + "/scratch";
        {
            auto writer = bolt::Writer::create(scratch, 4096).value();
            for (const auto& [name, pairs] : database) {
                ASSERT_TRUE(writer->begin_bucket(name));
                for (const auto& [key, value] : pairs) {
                    ASSERT_TRUE(writer->put(bolt::bytes(key), bolt::bytes(value)));
                }
            }
            ASSERT_TRUE(writer->finish());
        }
        add("Full-0-" + std::to_string(revision) + "-" + std::to_string(second),
            file_content(scratch));
        std::filesystem::remove(scratch);
    }

    // `events`: from the first of a revision to the last of one.
    void add_delta(const std::vector<DeltaEvent>& events,
                   Compression compression = Compression::none,
                   int second = 1) {
        const std::string name = store_ + "/v2/Incr-" +
                                 std::to_string(events.front().mod_revision) + "-" +
                                 std::to_string(events.back().mod_revision) + "-" +
                                 std::to_string(second) + std::string(suffix(compression));
        auto payload =
            create_delta(std::make_unique<TestFileSink>(name), compression, digests_).value();
        DeltaWriter writer(*payload, events.front().mod_revision);
        for (const DeltaEvent& event : events) {
            DeltaChange change;
            change.deleted = event.deleted;
            change.key = event.key;
            change.value = event.value;
            change.create_revision = event.create_revision;
            change.mod_revision = event.mod_revision;
            change.version = event.version;
            change.lease = event.lease;
            change.leases = &event.leases;
            ASSERT_TRUE(writer.add(change));
        }
        writer.settle();
        ASSERT_TRUE(writer.finish());
    }

private:
    void add(const std::string& name, const std::string& payload) {
        TestFileSink file(store_ + "/v2/" + name);
        TrailerSink trailer(file, digests_.sha256().value());
        ASSERT_TRUE(trailer.write(bolt::bytes(payload)));
        ASSERT_TRUE(trailer.finish());
    }

    const std::string store_;
    TestingDigests digests_;
};

}  // namespace capstan::steward
