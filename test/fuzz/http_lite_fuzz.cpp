// The launcher's small HTTP reader, over bytes that arrive bit by bit, and its addresses.
#include "launcher/http_lite.hpp"
#include "test/fuzz/fuzz.hpp"

#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace capstan::launcher;
    using capstan::fuzz::require;
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    // The answer is taken as soon as it is complete; bytes after it change nothing.
    constexpr std::size_t kStepsMax = 64;
    const std::size_t stride = 1 + size / kStepsMax;
    Reply early;
    for (std::size_t part = 0; part <= size && early.status == 0; part += stride) {
        early = parse_reply(std::string(bytes.substr(0, part)), false);
    }
    const Reply late = parse_reply(std::string(bytes), false);
    if (early.status != 0) {
        require(late.status == early.status && late.body == early.body,
                "what follows an answer does not change it");
    }
    const Reply closed = parse_reply(std::string(bytes), true);
    if (late.status != 0) {
        require(closed.status == late.status && closed.body == late.body,
                "a complete answer needs no end");
    }
    require(closed.body.size() <= kBodyBytesMax || closed.status == 0, "bodies are limited");
    Address address;
    if (parse_address(bytes, address)) {
        require(address.port != 0, "an address has a port");
        Address again;
        const std::string port = std::to_string(address.port);
        require(parse_address((address.host.empty() ? "" : "[" + address.host + "]") + ":" + port,
                              again) &&
                    again.host == address.host && again.port == address.port,
                "an address is read back");
    }
    return 0;
}
