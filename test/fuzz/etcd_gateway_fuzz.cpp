// Lines of etcd's JSON gateway, of a watch and of a snapshot, as the steward backs them up.
#include "plugins/steward-bridge/snapshotter/delta_buffer.hpp"
#include "plugins/steward-bridge/snapshotter/gateway_json.hpp"
#include "plugins/steward-bridge/stream/testing_digest.hpp"
#include "plugins/steward-bridge/stream/testing_streams.hpp"
#include "test/fuzz/fuzz.hpp"

#include <algorithm>
#include <string>

namespace capstan::steward {
namespace {

using fuzz::require;

constexpr WallTime kNow{std::chrono::seconds(1'800'000'000)};

void check_snapshot_line(std::string_view line) {
    std::string fast, slow;
    std::uint64_t fast_left = 0, slow_left = 0;
    if (!read_snapshot_line(line, fast, fast_left)) {
        return;
    }
    // A space in front is the same text, and read by way of a tree.
    const bool read = read_snapshot_line(" " + std::string(line), slow, slow_left).has_value();
    require(!read || (slow == fast && slow_left == fast_left), "both ways read the same");
}

std::unique_ptr<DeltaBuffer> buffer_from(std::int64_t start, Digests& digests) {
    const DeltaBuffer::Options options{Compression::none, 300};
    return DeltaBuffer::create(start,
                               options,
                               digests,
                               [](std::int64_t id) {
                                   return id % 2 == 0 ? std::optional<std::int64_t>(60)
                                                      : std::nullopt;
                               })
        .value();
}

// What readers refuse of a delta is not what the writer has to know: a put without a version.
bool sound(const WatchMessage& message) {
    return std::all_of(
        message.changes.begin(), message.changes.end(), [](const DeltaChange& change) {
            return change.mod_revision > 0 &&
                   (change.deleted || (change.version > 0 && change.create_revision > 0 &&
                                       change.create_revision <= change.mod_revision));
        });
}

void check_sealed(DeltaBuffer& buffer, Digests& digests) {
    const auto sealed = buffer.seal(kNow);
    require(sealed.has_value(), "a settled buffer can be sealed");
    std::string bytes;
    for (const std::string& piece : sealed.value().bytes.pieces()) {
        bytes += piece;
    }
    const auto verified = verify_snapshot(
        std::make_unique<TextSource>(std::move(bytes)), sealed.value().record, digests);
    require(verified.has_value(), "what was sealed can be read");
    require(verified.value().events == sealed.value().events, "with all its events");
}

}  // namespace
}  // namespace capstan::steward

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace capstan::steward;
    TestingDigests digests;
    std::unique_ptr<DeltaBuffer> buffer = buffer_from(5, digests);
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string_view line = text.substr(begin, end - begin);
        begin = end + 1;
        check_snapshot_line(line);
        const auto message = parse_watch_line(line);
        if (!message || !sound(message.value())) {
            continue;
        }
        std::size_t at = 0;
        do {
            if (!buffer->add(message.value(), at, kNow)) {
                buffer = buffer_from(5, digests);
                break;
            }
            if (at < message.value().changes.size()) {
                const std::int64_t next = buffer->last_revision() + 1;
                check_sealed(*buffer, digests);
                buffer = buffer_from(next, digests);
            }
        } while (at < message.value().changes.size());
    }
    if (!buffer->empty() && buffer->settled()) {
        check_sealed(*buffer, digests);
    }
    return 0;
}
