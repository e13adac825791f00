// A keyed hash of etcd's keys (SipHash-1-3, two of them side by side for 128 bits), so that nobody
// who may write keys can make two of them fall together. Thread: any.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace capstan::steward {

class KeyHash {
public:
    // With keys nobody knows.
    KeyHash();

    std::uint64_t of(std::string_view key) const;
    std::array<std::uint64_t, 2> wide(std::string_view key) const;

private:
    std::array<std::uint64_t, 4> secret_{};
};

}  // namespace capstan::steward
