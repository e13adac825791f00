// Tables (meta.k8s.io/v1 Table): the columns `kubectl get` prints. Pure; thread: any.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

// ?includeObject=; the default is metadata
enum class IncludeObject : std::uint8_t { none, metadata, object };
IncludeObject parse_include_object(std::string_view text);  // "" and unknown words: metadata

// `list_or_object`: a list (has "items") or one object, of kind `gvk`. `printer_columns`:
// additionalPrinterColumns of the CRD version, nullptr for builtin kinds and CRDs without; kinds
// without columns of their own get NAME and AGE.
json::Value to_table(const GroupVersionKind& gvk,
                     const json::Value& list_or_object,
                     const json::Value* printer_columns,
                     IncludeObject include,
                     WallTime now);

// "42s", "3m12s", "5h", "2d3h" as kubectl's HumanDuration; "<invalid>" for the future beyond 2 s.
std::string age_text(std::chrono::nanoseconds age);

inline constexpr std::size_t kJsonPathStepsMax = 64;

// The JSONPath subset of printer columns: .a.b, ['a'], [0], [-1], [*], [?(@.type=="Ready")] (== !=
// < <= > >= or existence), escaped dots, with or without braces. Of several results the first
// counts, as the real server prints. nullptr: nothing there. Errors: invalid (the path does not
// parse, or uses .. or a slice).
Result<const json::Value*> json_path_first(const json::Value& root, std::string_view path);

}  // namespace capstan::local
