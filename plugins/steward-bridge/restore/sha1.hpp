// SHA-1, for nothing but the ids etcd derives from it: those of members and of a cluster. No
// safety rests on it. Thread: any.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace capstan::steward {

std::array<std::uint8_t, 20> sha1(std::string_view bytes);

}  // namespace capstan::steward
