// The JSON of a delta snapshot, arriving in pieces. The first byte seeds their sizes.
#include "plugins/steward-bridge/snapshot/delta_reader.hpp"
#include "plugins/steward-bridge/snapshot/delta_writer.hpp"
#include "plugins/steward-bridge/stream/testing_streams.hpp"
#include "test/fuzz/fuzz.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace capstan::steward {
namespace {

using fuzz::require;

class PieceSource final : public Source {
public:
    PieceSource(std::string_view text, std::uint32_t seed) : pieces_(text, seed) {}
    Result<std::size_t> read(std::span<std::uint8_t> into) override {
        if (piece_.empty() && !pieces_.next(piece_)) {
            return std::size_t{0};
        }
        const std::size_t count = std::min(into.size(), piece_.size());
        std::memcpy(into.data(), piece_.data(), count);
        piece_.remove_prefix(count);
        return count;
    }

private:
    fuzz::Pieces pieces_;
    std::string_view piece_;
};

struct Read {
    std::vector<DeltaEvent> events;
    std::string error;
};

Read read(Source& source) {
    DeltaReader reader(source, "delta");
    Read all;
    DeltaEvent event;
    while (true) {
        const auto more = reader.next(event);
        if (!more) {
            all.error = more.error().message;
            require(!all.error.empty(), "a refusal says why");
            return all;
        }
        if (!more.value()) {
            return all;
        }
        all.events.push_back(event);
    }
}

void check_written(const std::vector<DeltaEvent>& events) {
    TextSink sink;
    DeltaWriter writer(sink, events.front().mod_revision);
    for (const DeltaEvent& event : events) {
        const auto added = writer.add({.deleted = event.deleted,
                                       .key = event.key,
                                       .value = event.value,
                                       .create_revision = event.create_revision,
                                       .mod_revision = event.mod_revision,
                                       .version = event.version,
                                       .lease = event.lease,
                                       .leases = &event.leases});
        require(added.has_value(), "what was read can be written");
    }
    writer.settle();
    require(writer.finish().has_value(), "and finished");
    TextSource source(sink.text);
    const Read again = read(source);
    require(again.error.empty() && again.events == events, "and read back");
}

}  // namespace
}  // namespace capstan::steward

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace capstan::steward;
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const std::string_view text = input.substr(size > 0 ? 1 : 0);
    TextSource whole{std::string(text)};
    const Read expected = read(whole);
    PieceSource pieces(text, size > 0 ? data[0] : 0);
    const Read cut = read(pieces);
    capstan::fuzz::require(cut.events == expected.events, "pieces give the same events");
    capstan::fuzz::require(cut.error == expected.error, "and the same error");
    if (expected.error.empty() && !expected.events.empty()) {
        check_written(expected.events);
    }
    return 0;
}
