// Columns of builtin kinds. Private to table*.cpp.
#pragma once

#include "runtime/local/apiserver/table.hpp"

#include <span>

namespace capstan::local {

struct Column {
    const char* name;
    const char* type;  // "string", "integer", "date"
    int priority;      // 0: always shown; 1: with -o wide
    json::Value (*cell)(const json::View& object, WallTime now);
};

// Empty for kinds without columns of their own. Static.
std::span<const Column> builtin_columns(const GroupVersionKind& gvk);

json::Value pod_ready(const json::View& pod, WallTime now);
json::Value pod_status(const json::View& pod, WallTime now);
json::Value pod_restarts(const json::View& pod, WallTime now);

// Age of the RFC 3339 time `text`: "<unknown>" when empty or malformed.
std::string since(std::string_view text, WallTime now);

}  // namespace capstan::local
