// One line of a watch stream, decoded. Thread: any.
#pragma once

#include "capstan/error.hpp"
#include "runtime/kube/client.hpp"

#include <string_view>

namespace capstan::kube {

// Errors end the stream: unavailable (no JSON), or the error that an ERROR event carries.
Result<WatchEvent> decode_watch_line(std::string_view line,
                                     const GroupVersionKind& gvk,
                                     const Projection& projection);

}  // namespace capstan::kube
