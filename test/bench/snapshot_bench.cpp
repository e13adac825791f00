// How fast snapshots pass through their formats, in MB of payload per CPU second: one thread,
// streams in memory.
#include "plugins/steward-bridge/snapshot/compression.hpp"
#include "plugins/steward-bridge/snapshot/delta_reader.hpp"
#include "plugins/steward-bridge/snapshot/delta_writer.hpp"
#include "plugins/steward-bridge/stream/testing_streams.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::steward {
namespace {

constexpr std::size_t kPayloadBytes = std::size_t{256} * 1000 * 1000;
constexpr std::size_t kPoolBytes = std::size_t{4} * 1000 * 1000;
constexpr int kRuns = 3;

class NullSink final : public Sink {
public:
    Result<void> write(std::span<const std::uint8_t> bytes) override {
        bytes_ += bytes.size();
        return ok();
    }
    Result<void> finish() override { return ok(); }
    std::size_t bytes() const { return bytes_; }

private:
    std::size_t bytes_{0};
};

// Keys as Kubernetes has them, values of the size given that compress a little.
template <class Each>
void events(std::size_t value_bytes, std::size_t total, Each&& each) {
    const std::size_t half = value_bytes / 2;
    const std::string pool = noise(kPoolBytes, 1);
    std::string value(value_bytes, 'v');
    std::size_t done = 0;
    for (std::int64_t revision = 1; done < total; ++revision) {
        const std::string key =
            "/registry/configmaps/default/item-" + std::to_string(revision % 5000);
        // Half of a value differs from one event to the next.
        value.replace(
            0, half, pool, static_cast<std::size_t>(revision) * 99'991 % (kPoolBytes - half), half);
        each(DeltaChange{.key = key,
                         .value = value,
                         .create_revision = revision,
                         .mod_revision = revision,
                         .version = 1,
                         .time = WallTime(std::chrono::seconds(1'796'003'150))});
        done += (key.size() + value.size()) * 4 / 3 + 170;
    }
}

template <class Work>
void report(const char* name, std::size_t bytes, Work&& work) {
    double best = 0;
    for (int run = 0; run < kRuns; ++run) {
        const std::clock_t begin = std::clock();
        work();
        const double spent =
            static_cast<double>(std::clock() - begin) / static_cast<double>(CLOCKS_PER_SEC);
        best = std::max(best, static_cast<double>(bytes) / 1e6 / spent);
    }
    std::printf("%-34s %8.0f MB/s\n", name, best);
}

std::string payload(std::size_t value_bytes, std::size_t total) {
    TextSink sink;
    DeltaWriter writer(sink, 1);
    events(value_bytes, total, [&](const DeltaChange& change) { (void)writer.add(change); });
    writer.settle();
    (void)writer.finish();
    return std::move(sink.text);
}

void measure_delta(std::size_t value_bytes) {
    const std::string text = payload(value_bytes, kPayloadBytes);
    const std::string size = std::to_string(value_bytes) + " B values";
    report(("read deltas, " + size).c_str(), text.size(), [&] {
        TextSource source(text);
        DeltaReader reader(source, "delta");
        DeltaEvent event;
        while (reader.next(event).value()) {
        }
    });
    report(("write deltas, " + size).c_str(), text.size(), [&] {
        NullSink sink;
        DeltaWriter writer(sink, 1);
        events(value_bytes, kPayloadBytes, [&](const DeltaChange& change) {
            (void)writer.add(change);
        });
    });
}

void measure(Compression compression, const char* name, const std::string& text) {
    TextSink packed;
    auto filter = compress(compression, packed).value();
    (void)filter->write(bytes_of(text));
    (void)filter->finish();
    std::printf("%-34s %8.2f\n",
                (std::string(name) + " ratio").c_str(),
                static_cast<double>(text.size()) / static_cast<double>(packed.text.size()));
    report((std::string(name) + " pack").c_str(), text.size(), [&] {
        NullSink sink;
        auto packing = compress(compression, sink).value();
        (void)packing->write(bytes_of(text));
        (void)packing->finish();
    });
    report((std::string(name) + " unpack").c_str(), text.size(), [&] {
        TextSource source(packed.text);
        NullSink sink;
        auto unpacking = decompress(compression, source, "x").value();
        std::vector<std::uint8_t> buffer(std::size_t{64} * 1024);
        while (const std::size_t count = unpacking->read(buffer).value()) {
            (void)sink.write({buffer.data(), count});
        }
    });
}

}  // namespace
}  // namespace capstan::steward

int main() {
    using namespace capstan::steward;
    for (const std::size_t value_bytes : {16, 256, 4096, 1'000'000}) {
        measure_delta(value_bytes);
    }
    const std::string text = payload(256, kPayloadBytes / 8);
    measure(Compression::gzip, "gzip", text);
    measure(Compression::zlib, "zlib", text);
    measure(Compression::lzw, "lzw", text);
    return 0;
}
