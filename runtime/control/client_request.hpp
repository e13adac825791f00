// One live request of a plugin before it is sent: parsed, resolved, and within the manifest's
// permissions. Internal to runtime/control.
#pragma once

#include "runtime/control/call.hpp"
#include "runtime/control/host_tables.hpp"
#include "runtime/kube/client.hpp"

#include <chrono>
#include <memory>
#include <string_view>

namespace capstan::control {

// The call, and what is asked.
struct Asked {
    std::shared_ptr<CallState> call;
    GroupVersionKind gvk;
    kube::Resource resource;
};

// The call's own deadline, or `usual` from now when that is earlier.
MonotonicTime request_deadline(const CallState& call,
                               std::chrono::nanoseconds usual = kube::kCallTimeout);

// Fills `asked`. On refusal *rc says what to return; nothing but discovery was sent. [worker]
bool permit(Asked& asked,
            capstan_call* handle,
            capstan_str gvk_text,
            std::string_view verb,
            std::string_view name,
            std::string_view sub,
            capstan_rc* rc);

}  // namespace capstan::control
