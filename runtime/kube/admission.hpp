// One question of the API server to an admission webhook, and its answer, as values: what the
// webhook server (runtime/webhook) and the plugins' side (runtime/control) say to each other.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace capstan::kube {

struct AdmissionQuestion {
    json::Value request;  // `request` of the AdmissionReview
    bool dry_run{false};
    MonotonicTime deadline{kNever};
};

struct AdmissionAnswer {
    bool allowed{false};
    int code{0};  // of a denial: 400 to 599; 0: 403
    std::string message, reason;
    json::Value patch;  // RFC 6902 operations; null: none
    std::vector<std::string> warnings;
    std::vector<std::pair<std::string, std::string>> audit;
};

// Once, on the loop. Errors: overloaded (too many wait), unavailable (the plugin does not run),
// timeout (no answer by the deadline), any other: the handler failed.
using AdmissionDone = std::function<void(Result<AdmissionAnswer>)>;
// Called on the loop; returns at once.
using AdmissionHandler = std::function<void(AdmissionQuestion, AdmissionDone)>;

}  // namespace capstan::kube
