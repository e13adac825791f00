// JSON Patch (RFC 6902). Pure; thread: any.
#pragma once

#include "runtime/local/apiserver/status.hpp"

#include "capstan/json.hpp"

#include <cstddef>

namespace capstan::local {

inline constexpr std::size_t kPatchOperationsMax = 10'000;
// of all copy operations of one patch together, as in the API server
inline constexpr std::size_t kPatchCopyBytesMax = 3u * 1024 * 1024;

// Applies all operations or none. Errors: 400 (not a patch document), 413 (too many operations),
// 422 (an operation failed: `test` differs, path absent), as kube-apiserver answers.
Answer<json::Value> apply_json_patch(const json::Value& object, const json::Value& patch);

}  // namespace capstan::local
