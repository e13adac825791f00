// A watch stream: the way it is cut into chunks must not change what comes out of it.
//
// Input: one byte that seeds the cuts, one that chooses the longest line, then the stream.
#include "runtime/kube/line_splitter.hpp"
#include "runtime/kube/watch_event.hpp"
#include "test/fuzz/fuzz.hpp"

#include <string>
#include <vector>

namespace capstan::kube {
namespace {

using fuzz::require;

struct Seen {
    std::vector<std::string> lines;
    std::string rest;
    bool too_large{false};
    bool operator==(const Seen&) const = default;
};

Seen split(std::string_view stream, std::uint32_t seed, bool whole, std::size_t line_bytes_max) {
    Seen seen;
    LineSplitter splitter(line_bytes_max);
    const auto keep = [&](std::string_view line) {
        seen.lines.emplace_back(line);
        return true;
    };
    fuzz::Pieces pieces(stream, seed);
    std::string_view piece = stream;
    while (whole || pieces.next(piece)) {
        // A copy: the splitter must not keep views of what it was fed.
        const std::string bytes(piece);
        if (!splitter.feed(bytes, keep)) {
            seen.too_large = true;
            require(splitter.rest().empty(), "a splitter that gave up is empty");
            return seen;
        }
        if (whole) {
            break;
        }
    }
    seen.rest = splitter.rest();
    return seen;
}

void decode(const std::string& line) {
    static const GroupVersionKind gvk{"apps", "v1", "StatefulSet"};
    const auto whole = decode_watch_line(line, gvk, Projection::none());
    const auto less = decode_watch_line(line, gvk, Projection{});
    Projection narrow;
    narrow.keep = {"/spec/replicas", "/status"};
    const auto least = decode_watch_line(line, gvk, narrow);
    if (!json::parse(line, {.bytes_max = kWatchLineBytesMax})) {
        return;  // the quick way does not look into what it drops (compact_copy.hpp)
    }
    require(whole.has_value() == less.has_value() && whole.has_value() == least.has_value(),
            "what is dropped does not decide whether a line is an event");
    if (!whole) {
        require(!whole.error().message.empty(), "a refusal says why");
        return;
    }
    require(whole.value().type == less.value().type, "nor of which type");
    require(whole.value().resource_version == less.value().resource_version, "nor its version");
    const ObjectPtr object = whole.value().object;
    if (!object) {
        return;
    }
    require(less.value().object->name() == object->name() &&
                least.value().object->uid() == object->uid(),
            "nor its names");
    require(less.value().object->bytes().size() <= object->bytes().size(), "less is not more");
    const json::Value tree = object->parse();
    require(json::dump(tree) == object->bytes(), "an object keeps compact JSON");
    const auto again = Object::decode(object->bytes(), Projection::none());
    require(again && again.value()->bytes() == object->bytes(), "and is read back the same");
    (void)object->label("app");
    (void)object->string_fields("/spec/*/name");
    (void)object->field("/metadata/ownerReferences/0/uid");
}

}  // namespace
}  // namespace capstan::kube

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace capstan::kube;
    capstan::fuzz::Input input(data, size);
    const std::uint32_t seed = input.byte();
    constexpr std::size_t kLimits[] = {kWatchLineBytesMax, 8, 64, 1000};
    const std::size_t limit = kLimits[input.below(4)];
    const Seen whole = split(input.rest(), seed, true, limit);
    const Seen cut = split(input.rest(), seed, false, limit);
    capstan::fuzz::require(whole == cut, "chunking does not change the lines");
    for (const std::string& line : whole.lines) {
        decode(line);
    }
    return 0;
}
