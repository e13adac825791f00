#include "plugins/steward-bridge/stream/stream.hpp"

#include <vector>

namespace capstan::steward {

Result<std::uint64_t> copy(Source& from, Sink& to) {
    std::vector<std::uint8_t> buffer(std::size_t{64} * 1024);
    std::uint64_t total = 0;
    while (true) {
        CAPSTAN_TRY(const std::size_t n, from.read(buffer));
        if (n == 0) {
            return total;
        }
        CAPSTAN_TRY(to.write(std::span<const std::uint8_t>(buffer.data(), n)));
        total += n;
    }
}

}  // namespace capstan::steward
