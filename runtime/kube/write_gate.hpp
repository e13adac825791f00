// Who may say no to a write just before it is put on the wire: leader election.
//
// A Client with a gate asks it for each request but GET and HEAD, at the last moment, so also for a
// request that is sent again and for one that waited for discovery. Reviews (of tokens and of
// access) change nothing and pass. Thread: any.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"

#include <string_view>

namespace capstan::kube {

class WriteGate {
public:
    virtual ~WriteGate() = default;
    // Until when the write may be under way; the caller gives it up by then. Errors: cancelled
    // (it must not be sent).
    virtual Result<MonotonicTime> admit() noexcept = 0;
};

// False for what a gate need not be asked about.
bool changes_something(std::string_view method, std::string_view target) noexcept;

}  // namespace capstan::kube
