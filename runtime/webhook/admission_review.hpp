// AdmissionReview on the wire: admission.k8s.io/v1 and v1beta1, parsed and answered.
//
// Source: Kubernetes' admission/v1 API. Pure; thread: any (values).
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "runtime/kube/admission.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace capstan::webhook {

inline constexpr std::size_t kReviewBytesMax = 7u * 1024 * 1024;  // of a request
inline constexpr std::size_t kWarningBytesMax = 256;              // of one; the rest is cut
inline constexpr std::size_t kWarningsBytesMax = 4096;            // of all; later ones are left out
inline constexpr std::size_t kMessageBytesMax = 8 * 1024;         // of a denial
inline constexpr std::chrono::seconds kTimeoutDefault{10};
inline constexpr std::chrono::seconds kTimeoutMax{30};
// The part of the time limit that is kept for the way back: a tenth, at most this.
inline constexpr std::chrono::milliseconds kAnswerMarginMax{500};

// What an answer needs of its question.
struct ReviewId {
    std::string api_version{"admission.k8s.io/v1"};
    std::string uid;
};

struct Review {
    ReviewId id;
    json::Value request;  // an object
    bool dry_run{false};
};

// `id` is filled as far as it can be read, also on failure. Errors: invalid.
Result<Review> parse_review(std::string_view body, ReviewId& id);

// The whole answer, in the version asked, with the uid echoed.
std::string render_review(const ReviewId& id, const kube::AdmissionAnswer& answer);
// Not allowed, because something failed: "allowed": false with this code.
std::string render_failure(const ReviewId& id, int code, std::string_view message);

// How long a handler may take, from the query of the request ("timeout=10s"): absent or malformed
// is the default, and the margin is taken off.
std::chrono::nanoseconds handler_time(std::string_view query);

// RFC 4648, with padding. Requires: below 1 GiB.
std::string to_base64(std::string_view bytes);

}  // namespace capstan::webhook
