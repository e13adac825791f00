// One line of a watch stream, decoded. Thread: any.
#pragma once

#include "capstan/error.hpp"
#include "runtime/kube/client.hpp"

#include <string_view>

namespace capstan::kube {

// An object that cannot be read is one event all the same (WatchEvent). Errors end the stream:
// unavailable (no JSON value, or cut off), or the error that an ERROR event carries.
Result<WatchEvent> decode_watch_line(std::string_view line,
                                     const GroupVersionKind& gvk,
                                     const Projection& projection);
// An added or modified object that cannot be read.
WatchEvent undecodable(Unreadable found);

}  // namespace capstan::kube
