// Who may read /metrics and /debug: the API server is asked, as kube-rbac-proxy and
// controller-runtime's filter do.
//
// A bearer token is reviewed (TokenReview, 10 s), then the request (SubjectAccessReview of its path
// and its method in lower case). Answers are kept: that of a good token for kTokenTtl, of another
// for kUnknownTokenTtl, a permission for kAllowedTtl, a refusal for kRefusedTtl, at most
// kReviewsKept of each; tokens as digests. A review that fails is repeated with back-off,
// kReviewTries times in all.
//
// Who sends many bogus tokens costs the API server little and starves nobody: what is known needs
// no review, equal requests share one, at most kReviewsInFlight are under way, and
// kReviewsReserved more for tokens that were good the last time. Thread: [io].
#pragma once

#include "capstan/clock.hpp"
#include "runtime/kube/client.hpp"
#include "runtime/net/loop.hpp"
#include "runtime/obs/log.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace capstan::cli {

inline constexpr std::chrono::minutes kTokenTtl{1};
inline constexpr std::chrono::seconds kUnknownTokenTtl{5};
inline constexpr std::chrono::minutes kAllowedTtl{5};
inline constexpr std::chrono::seconds kRefusedTtl{30};
inline constexpr std::chrono::seconds kReviewTimeout{10};
inline constexpr std::chrono::milliseconds kReviewPauseFirst{500};
inline constexpr double kReviewPauseFactor = 1.5;
inline constexpr double kReviewPauseJitter = 0.2;
inline constexpr int kReviewTries = 5;
inline constexpr std::size_t kReviewsKept = 1000;
inline constexpr std::size_t kReviewsInFlight = 8;
inline constexpr std::size_t kReviewsReserved = 4;
inline constexpr std::size_t kSharersMax = 64;         // requests that wait for one review
inline constexpr std::size_t kTokenBytesMax = 16'384;  // longer ones are refused unasked

class OpsAuth {
public:
    // 200: go on. 401: no token, or not one of the API server's. 403: not allowed. 500: it could
    // not be found out. 429: too many reviews at once. `text`: for the answer; names what is
    // missing.
    using Done = std::function<void(int status, std::string text)>;

    // `random`: [0, 1). Client and loop are borrowed; outlive *this.
    OpsAuth(net::Loop& loop, kube::Client& client, obs::Log log, std::function<double()> random);
    ~OpsAuth();  // no Done follows
    OpsAuth(const OpsAuth&) = delete;
    OpsAuth& operator=(const OpsAuth&) = delete;

    // `authorization`: the header's value. `done` once, perhaps before this returns.
    void check(std::string_view authorization,
               std::string_view method,
               std::string_view path,
               Done done);

private:
    struct Review;
    struct State;
    std::shared_ptr<State> state_;  // shared with reviews under way
};

}  // namespace capstan::cli
