// LZW: any bytes are read without harm, and any bytes come back after packing.
#include "plugins/steward-bridge/snapshot/lzw.hpp"
#include "plugins/steward-bridge/stream/testing_streams.hpp"
#include "test/fuzz/fuzz.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace capstan::steward {
namespace {

using fuzz::require;

// Of what is unpacked; a code makes at most 3,839 bytes.
constexpr std::size_t kUnpackedBytesMax = std::size_t{1} << 20;

struct Unpacked {
    std::string text;
    std::string error;
};

Unpacked unpack(std::string_view bytes, std::size_t piece, std::size_t read_piece) {
    TextSource from(std::string(bytes), piece);
    LzwSource source(from, "object");
    Unpacked out;
    std::string buffer(read_piece, '\0');
    while (out.text.size() < kUnpackedBytesMax) {
        const auto count =
            source.read({reinterpret_cast<std::uint8_t*>(buffer.data()), buffer.size()});
        if (!count) {
            out.error = count.error().message;
            break;
        }
        if (count.value() == 0) {
            break;
        }
        out.text.append(buffer, 0, count.value());
    }
    return out;
}

}  // namespace
}  // namespace capstan::steward

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace capstan::steward;
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const Unpacked whole = unpack(bytes, size + 1, 4096);
    const Unpacked cut = unpack(bytes, 3, 4096);
    capstan::fuzz::require(cut.text == whole.text && cut.error == whole.error,
                           "pieces change nothing");
    TextSink packed;
    LzwSink sink(packed);
    (void)sink.write({data, size / 2});
    (void)sink.write({data + size / 2, size - size / 2});
    (void)sink.finish();
    const Unpacked back = unpack(packed.text, 1000, 77);
    capstan::fuzz::require(back.error.empty() && back.text == bytes, "packed bytes come back");
    return 0;
}
