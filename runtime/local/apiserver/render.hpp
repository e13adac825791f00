// How a stored object leaves the server: served version, metadata only, table; and the Accept
// header that asks for it.
#pragma once

#include "runtime/local/apiserver/resource_kind.hpp"
#include "runtime/local/apiserver/store.hpp"
#include "runtime/local/apiserver/table.hpp"

#include "capstan/clock.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace capstan::local {

enum class Representation : std::uint8_t { full, metadata, table };

struct RenderOptions {
    Representation as{Representation::full};
    IncludeObject include{IncludeObject::metadata};  // tables only
    WallTime now{};                                  // ages in tables
};

// Representation the Accept header asks for; 406 when it names nothing we speak.
Answer<Representation> parse_accept(std::string_view accept);
bool accepts_aggregated_discovery(std::string_view accept);

// One object's JSON at the version of `kind`. `in_list`: items of builtin lists carry
// no apiVersion and kind.
std::string render_object(const Stored& object,
                          const ResourceKind& kind,
                          const RenderOptions& options);
std::string render_list_item(const Stored& object,
                             const ResourceKind& kind,
                             const RenderOptions& options);
// The object as a value at the version of `kind`.
json::Value value_at_version(const Stored& object, const ResourceKind& kind);

// Between core v1 Event and events.k8s.io/v1 Event.
json::Value event_to_core(json::Value event);
json::Value event_from_core(json::Value event);

}  // namespace capstan::local
