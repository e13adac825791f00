// The bearer token that the stewards of one cluster share while their API has no TLS.
//
// Made once, never rewritten: who wants another one deletes the Secret and asks for a pass. Thread:
// any.
#pragma once

#include "capstan/plugin.hpp"

#include <string_view>

namespace capstan::etcd {

inline constexpr std::string_view kApiTokenKey = "token";

// Creates `secret` with a random token, unless one of that name is there: of the Etcd with
// `owner_uid`, or of a person (without a controller). One of an Etcd of the same name before it is
// replaced.
// Errors: those of the client; unavailable: it belongs to something else.
Result<void> create_api_token(Call& call, json::Value secret, std::string_view owner_uid);

}  // namespace capstan::etcd
