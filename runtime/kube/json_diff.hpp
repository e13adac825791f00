// The JSON Patch (RFC 6902) that turns one value into another: add, remove and replace only.
//
// Equal parts are not mentioned, so what a plugin does not know stays as it is. Of an array the
// common beginning and end are left alone; between them items are compared pair by pair. Pure;
// thread: any.
#pragma once

#include "capstan/json.hpp"

namespace capstan::kube {

// Operations in the order in which they apply; an empty array when the two are equal. A number is
// equal to itself in the same spelling class only: 1 and 1.0 differ.
json::Value json_diff(const json::Value& from, const json::Value& to);

}  // namespace capstan::kube
