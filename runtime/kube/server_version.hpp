// What /version says about an API server. Thread: any.
#pragma once

#include "capstan/error.hpp"

#include <string_view>

namespace capstan::kube {

struct ServerVersion {
    int major{0};
    int minor{0};

    // Sends a list while it encodes it, item by item, from memory it has anyway (gate
    // StreamingCollectionEncodingToJSON). An older one builds the whole text first.
    bool streams_lists() const noexcept { return major > 1 || (major == 1 && minor >= 33); }
};

// The body of GET /version. Vendors write "34+". Errors: invalid.
Result<ServerVersion> parse_server_version(std::string_view body);

}  // namespace capstan::kube
