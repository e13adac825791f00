// The S3 store as the plugin has it, over capstan.http/1 of a real host on loopback: against the
// fake server, or the real one that plugins/steward-bridge/store/real_s3_test.py has started.
#include "plugins/steward-bridge/store/fake_s3.hpp"
#include "plugins/steward-bridge/store/host_transport.hpp"
#include "plugins/steward-bridge/store/s3_store.hpp"
#include "plugins/steward-bridge/store/store_contract_test.hpp"
#include "plugins/steward-bridge/stream/host_digest.hpp"
#include "plugins/steward-bridge/stream/testing_digest.hpp"
#include "runtime/net/http_server.hpp"
#include "test/live/live_world.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

namespace capstan::test {
namespace {

using namespace steward;
using namespace steward::testing;

std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

// Highest resident memory of this process so far.
std::size_t peak_kib() {
    std::ifstream status("/proc/self/status");
    std::string word;
    std::size_t kib = 0;
    while (status >> word) {
        if (word == "VmHWM:") {
            status >> kib;
        }
    }
    return kib;
}

// The fake server behind a real one. Everything of it on the loop.
class ServedS3 {
public:
    explicit ServedS3(net::IoLoop& loop) {
        fake_.keys = {"capstan", "capstan-secret", {}};
        fake_.region = "us-east-1";
        server_ = net::make_http_server(loop, {}, [this](std::shared_ptr<net::ServerExchange> e) {
                      e->read_all(64u * 1024 * 1024, [this, e](const Result<std::string>& body) {
                          if (body) {
                              answer(*e, body.value());
                          }
                      });
                  }).value();
    }
    std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }

private:
    void answer(net::ServerExchange& e, const std::string& body) {
        HttpRequest request;
        request.method = e.method();
        request.url = endpoint() + e.target();
        for (const auto& [name, value] : e.headers()) {
            std::string lower = name;
            std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
                return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
            });
            if (lower != "host" && lower != "content-length" && lower != "connection") {
                request.headers.emplace_back(lower, value);
            }
        }
        const auto exchange = fake_.open(request, 0).value();
        STORE_OK(exchange->write(body));
        HttpHead head = exchange->head().value();
        std::string text;
        std::vector<char> buffer(64 * 1024);
        while (const std::size_t n = exchange->read(buffer).value()) {
            text.append(buffer.data(), n);
        }
        if (request.method == "HEAD") {  // the server counts what it does not send
            text.resize(std::stoul(std::string(header_of(head.headers, "content-length"))));
        }
        e.respond(head.status, std::move(head.headers), std::move(text));
    }

    TestingDigests digests_;
    FakePace pace_;
    FakeS3 fake_{digests_, pace_};
    std::unique_ptr<net::HttpServer> server_;
};

class HostStore : public ::testing::Test {
protected:
    HostStore() {
        world.boot();
        if (variable("CAPSTAN_S3_ENDPOINT").empty()) {
            served = std::make_unique<ServedS3>(*world.loop);
        }
    }
    // The fake one has a single bucket.
    std::string bucket_of(const std::string& name) const { return served ? "bucket" : name; }
    // Runs `body` on a worker of the host with a store whose bucket is there.
    void with_store(const std::string& name, const std::function<void(ObjectStore&)>& body) {
        const std::string bucket = bucket_of(name);
        const std::string endpoint = served ? served->endpoint() : variable("CAPSTAN_S3_ENDPOINT");
        ASSERT_TRUE(world.on_worker([&](capstan_call* handle) {
            const HostTables tables(world.host);
            Call call(tables, handle);
            HostDigests digests(tables);
            HostTransport transport(call);
            HostPace pace(call);
            const std::map<std::string, std::string> variables{
                {"AWS_REGION", "us-east-1"},
                {"AWS_ACCESS_KEY_ID", "capstan"},
                {"AWS_SECRET_ACCESS_KEY", "capstan-secret"},
                {"AWS_CA_BUNDLE", variable("CAPSTAN_S3_CA")}};
            const S3Parts parts{[&variables](const std::string& key) {
                                    const auto found = variables.find(key);
                                    return found == variables.end() ? std::string() : found->second;
                                },
                                "",
                                endpoint,
                                digests,
                                transport,
                                pace};
            auto access = S3Access::open(parts, bucket);
            STORE_OK(access);
            S3Client client(access.value(), parts, bucket);
            STORE_OK(client.send({"CreateBucket", "PUT"}));
            const auto store = S3Store::connect(parts, {bucket, kPartBytesMin});
            STORE_OK(store);
            body(*store.value());
        }));
    }

    LiveWorld world;
    std::unique_ptr<ServedS3> served;
};

TEST_F(HostStore, DoesWhatEveryStoreDoes) {
    with_store("host-contract", [](ObjectStore& store) { expect_store_contract(store); });
}

TEST_F(HostStore, FencesLetOneIn) {
    with_store("host-fences", [](ObjectStore& store) { expect_fences(store); });
}

TEST_F(HostStore, CheckFindsNothing) {
    with_store("host-check",
               [](ObjectStore& store) { EXPECT_TRUE(check_store(store, "p", "t").ok()); });
}

// CAPSTAN_S3_MIB sets the size; the figures are printed.
TEST_F(HostStore, LargeObjectNeedsTheMemoryOfAPart) {
    const std::string asked = variable("CAPSTAN_S3_MIB");
    const std::size_t mib =
        asked.empty() ? (served ? 16 : 48) : std::strtoull(asked.c_str(), nullptr, 10);
    const std::string piece = pattern(1024 * 1024);
    with_store("host-large", [&](ObjectStore& store) {
        const auto sink = store.create("l/v2/Full", {});
        STORE_OK(sink);
        for (std::size_t i = 0; i < 12; ++i) {  // buffers of any size are there now
            STORE_OK(sink.value()->write(bytes_of(piece)));
        }
        const std::size_t before = peak_kib();
        const MonotonicTime start = world.loop->now();
        for (std::size_t i = 12; i < mib; ++i) {
            STORE_OK(sink.value()->write(bytes_of(piece)));
        }
        STORE_OK(sink.value()->finish());
        const MonotonicTime written = world.loop->now();
        const auto source = store.open({"l/v2/Full"}, 0);
        STORE_OK(source);
        std::vector<std::uint8_t> buffer(64 * 1024);
        std::size_t bytes = 0;
        while (true) {
            const auto n = source.value()->read(buffer);
            STORE_OK(n);
            if (n.value() == 0) {
                break;
            }
            ASSERT_EQ(buffer[0], static_cast<std::uint8_t>(piece[bytes % piece.size()]));
            bytes += n.value();
        }
        EXPECT_EQ(bytes, mib * piece.size());
        if (served) {
            return;  // it is in this process and keeps everything
        }
        const auto seconds = [](MonotonicTime time) {
            return std::chrono::duration<double>(time).count();
        };
        std::printf("%zu MiB: up %.1f MiB/s, down %.1f MiB/s, %zu KiB more at the highest\n",
                    mib,
                    static_cast<double>(mib - 12) / seconds(written - start),
                    static_cast<double>(mib) / seconds(world.loop->now() - written),
                    peak_kib() - before);
        EXPECT_LT(peak_kib() - before, 8u * 1024);
    });
}

}  // namespace
}  // namespace capstan::test
