#include "plugins/steward-bridge/store/retry.hpp"

#include <algorithm>

namespace capstan::steward {

Result<bool> Backoff::wait(std::chrono::milliseconds asked) {
    if (tries_ >= kTriesMax || asked > kRetryAskedMax) {
        return false;
    }
    const auto full = std::chrono::nanoseconds(kRetryFirst) * (1 << (tries_ - 1));
    const auto count = static_cast<double>(full.count()) * (1.0 - 0.5 * pace_.chance());
    const std::chrono::nanoseconds own(static_cast<std::int64_t>(count));
    ++tries_;
    CAPSTAN_TRY(pace_.sleep(std::max<std::chrono::nanoseconds>(own, asked)));
    return true;
}

}  // namespace capstan::steward
