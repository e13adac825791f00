// How many files and sockets this process may have open, and what of it listeners may take.
#pragma once

#include <cstddef>

namespace capstan::cli {

// Of all descriptors one listener's connections may take this share: four listeners leave half of
// them to the API server, to files and to plugins.
inline constexpr std::size_t kListenerShare = 8;
inline constexpr std::size_t kListenerConnectionsMin = 16;

// Raises the soft limit to the hard one, which costs nothing; where that is refused it stays. The
// limit from then on.
std::size_t raise_descriptor_limit() noexcept;
// `usual`: where descriptors are no matter.
std::size_t listener_connections(std::size_t descriptors, std::size_t usual) noexcept;

}  // namespace capstan::cli
