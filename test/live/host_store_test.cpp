// The S3 store as the plugin has it, over capstan.http/1 of a real host, against a real server;
// plugins/steward-bridge/store/real_s3_test.py starts one and says where it is.
#include "plugins/steward-bridge/store/host_transport.hpp"
#include "plugins/steward-bridge/store/s3_store.hpp"
#include "plugins/steward-bridge/store/store_contract_test.hpp"
#include "plugins/steward-bridge/stream/host_digest.hpp"
#include "test/live/live_world.hpp"

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

class HostStore : public ::testing::Test {
protected:
    HostStore() { world.boot(); }
    // Runs `body` on a worker of the host with a store whose bucket is there.
    void with_store(const std::string& bucket, const std::function<void(ObjectStore&)>& body) {
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
            const S3Parts parts{[&variables](const std::string& name) {
                                    const auto found = variables.find(name);
                                    return found == variables.end() ? std::string() : found->second;
                                },
                                "",
                                variable("CAPSTAN_S3_ENDPOINT"),
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
    const std::size_t mib = asked.empty() ? 48 : std::strtoull(asked.c_str(), nullptr, 10);
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
