#include "runtime/cli/descriptors.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace capstan::cli {

std::size_t raise_descriptor_limit() noexcept {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 0;
    }
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        limit.rlim_cur = before;
    }
    return limit.rlim_cur;
}

std::size_t listener_connections(std::size_t descriptors, std::size_t usual) noexcept {
    return std::min(usual, std::max(kListenerConnectionsMin, descriptors / kListenerShare));
}

}  // namespace capstan::cli
