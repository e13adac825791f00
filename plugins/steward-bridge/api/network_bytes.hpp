// Bytes that went over the network of this process, as etcd-backup-restore counts them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace capstan::steward {

struct NetworkBytes {
    std::uint64_t received{0}, transmitted{0};  // over all interfaces
};
// `text`: of /proc/<pid>/net/dev; lines it does not understand count nothing.
NetworkBytes parse_network_bytes(std::string_view text);
std::string network_exposition(const NetworkBytes& bytes);  // Prometheus text 0.0.4

}  // namespace capstan::steward
