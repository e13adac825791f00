// For tests: an etcd in memory behind EtcdClient, and time that moves when a test moves it.
#pragma once

#include "plugins/steward-bridge/snapshotter/etcd_client.hpp"
#include "plugins/steward-bridge/store/transport.hpp"
#include "plugins/steward-bridge/stream/base64.hpp"
#include "plugins/steward-bridge/stream/testing_digest.hpp"
#include "plugins/steward-bridge/stream/testing_streams.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace capstan::steward {

class TestingTime final : public Pace {
public:
    MonotonicTime mono{std::chrono::hours(1)};
    WallTime wall{std::chrono::seconds(1'800'000'000)};  // 2027-01-15T08:00:00Z

    WallTime wall_now() override { return wall; }
    Result<void> sleep(std::chrono::nanoseconds duration) override {
        advance(duration);
        return ok();
    }
    double chance() override { return 0; }
    void advance(std::chrono::nanoseconds duration) {
        mono += duration;
        wall += duration;
    }
};

// A database with the digest that etcd ends it with.
inline std::string testing_database(std::string content) {
    TestingDigests digests;
    content.resize((content.size() + 511) / 512 * 512);
    const auto digest = sha256_of(digests, bytes_of(content));
    return content.append(reinterpret_cast<const char*>(digest.value().data()), 32);
}

class FakeEtcd final : public EtcdClient {
public:
    explicit FakeEtcd(TestingTime& time) : time_(time) {}

    std::int64_t put(const std::string& key, const std::string& value, std::int64_t lease = 0) {
        return txn({{key, value}}, lease);
    }
    // All in one revision; an empty value deletes.
    std::int64_t txn(const std::vector<std::pair<std::string, std::string>>& changes,
                     std::int64_t lease = 0) {
        ++revision;
        std::string events;
        for (const auto& [key, value] : changes) {
            const std::string mod = ",\"mod_revision\":\"" + std::to_string(revision) + "\"";
            const std::string name = "\"key\":\"" + to_base64(key) + "\"";
            events += events.empty() ? "" : ",";
            if (value.empty()) {
                events += "{\"type\":\"DELETE\",\"kv\":{" + name + mod + "}}";
                continue;
            }
            events += "{\"kv\":{" + name + ",\"create_revision\":\"" + std::to_string(revision) +
                      "\"" + mod + ",\"version\":\"1\",\"value\":\"" + to_base64(value) + "\"" +
                      (lease == 0 ? "" : ",\"lease\":\"" + std::to_string(lease) + "\"") + "}}";
        }
        log[revision] = events;
        return revision;
    }

    Result<EtcdHead> head(bool linearizable) override {
        CAPSTAN_TRY(enter(linearizable ? "head" : "local-head"));
        return EtcdHead{revision, leads};
    }
    Result<EtcdSnapshot> snapshot() override {
        CAPSTAN_TRY(enter("snapshot"));
        std::string database =
            testing_database("revision " + std::to_string(revision) + " " + noise(9000, 7));
        if (damaged_snapshot) {
            database[100] = static_cast<char>(~database[100]);
        }
        const std::uint64_t bytes = database.size();
        if (on_snapshot) {
            on_snapshot();
        }
        return EtcdSnapshot{std::make_unique<TextSource>(std::move(database), 3000), bytes};
    }
    Result<std::unique_ptr<WatchStream>> watch(std::int64_t start) override {
        CAPSTAN_TRY(enter("watch"));
        watched.push_back(start);
        return std::unique_ptr<WatchStream>(std::make_unique<Watch>(*this, start));
    }
    Result<std::optional<std::int64_t>> lease_ttl(std::int64_t id) override {
        if (on_lease) {
            on_lease();
        }
        CAPSTAN_TRY(enter("lease"));
        const auto found = ttls.find(id);
        return found == ttls.end() ? std::optional<std::int64_t>() : std::optional(found->second);
    }

    std::int64_t revision{1};
    std::int64_t compacted{0};
    bool leads{true};
    bool silent{false};  // watches send nothing
    bool damaged_snapshot{false};
    std::int64_t revisions_at_once{1};  // in one answer of the watch
    std::map<std::int64_t, std::int64_t> ttls;
    std::map<std::int64_t, std::string> log;  // events as JSON, by revision
    std::map<std::string, Error> failures;    // by operation, until erased
    std::map<std::string, int> calls;
    std::vector<std::int64_t> watched;
    std::function<void()> on_snapshot, on_lease;
    std::optional<Error> cut;  // the open watch ends with it, once

private:
    class Watch final : public WatchStream {
    public:
        Watch(FakeEtcd& etcd, std::int64_t start) : etcd_(etcd), next_(start) {}
        Result<bool> next(WatchMessage& message, MonotonicTime until) override {
            if (etcd_.cut) {
                return fail(*std::exchange(etcd_.cut, std::nullopt));
            }
            if (next_ <= etcd_.compacted && next_ <= etcd_.revision) {
                return fail(Code::expired, "compacted");
            }
            if (!etcd_.silent && !created_) {
                created_ = true;
                CAPSTAN_TRY(
                    message,
                    parse_watch_line(R"({"result":{"header":{"revision":")" +
                                     std::to_string(etcd_.revision) + R"("},"created":true}})"));
                return true;
            }
            const auto found = etcd_.log.find(next_);
            if (etcd_.silent || found == etcd_.log.end()) {
                etcd_.time_.advance(until - etcd_.time_.mono);
                return false;
            }
            std::string events;
            const std::int64_t last = std::min(etcd_.revision, next_ + etcd_.revisions_at_once - 1);
            for (; next_ <= last; ++next_) {
                events += (events.empty() ? "" : ",") + etcd_.log[next_];
            }
            CAPSTAN_TRY(message,
                        parse_watch_line("{\"result\":{\"header\":{\"revision\":\"" +
                                         std::to_string(etcd_.revision) + "\"},\"events\":[" +
                                         events + "]}}"));
            return true;
        }

    private:
        FakeEtcd& etcd_;
        std::int64_t next_;
        bool created_{false};
    };

    Result<void> enter(const std::string& operation) {
        ++calls[operation];
        const auto found = failures.find(operation);
        return found == failures.end() ? Result<void>(ok()) : Result<void>(fail(found->second));
    }

    TestingTime& time_;
};

}  // namespace capstan::steward
