// When to try a request again: 1, 2, 4, 8, 16 s apart, up to half of it shorter by chance, or as
// long as the store asks.
#pragma once

#include "plugins/steward-bridge/store/transport.hpp"

#include <chrono>

namespace capstan::steward {

inline constexpr int kTriesMax = 6;
inline constexpr std::chrono::seconds kRetryFirst{1};
inline constexpr std::chrono::seconds kRetryAskedMax{60};  // asked for longer: the caller's turn

class Backoff {
public:
    explicit Backoff(Pace& pace) noexcept : pace_(pace) {}

    // Waits; false at once: no try is left, or `asked` is too long. Errors: cancelled.
    Result<bool> wait(std::chrono::milliseconds asked = {});
    void succeeded() noexcept { tries_ = 1; }

private:
    Pace& pace_;
    int tries_{1};
};

}  // namespace capstan::steward
