// Who owns which field: metadata.managedFields, and the rules of apply and of
// every other write on them.
//
// Source: Kubernetes "Server-Side Apply" and structured-merge-diff's Updater. Field names are
// assumed equal in all versions of a kind. Pure; thread: any.
#pragma once

#include "runtime/local/apiserver/apply_field_set.hpp"
#include "runtime/local/apiserver/apply_typed.hpp"
#include "runtime/local/apiserver/status.hpp"

#include "capstan/json.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

// older Update entries merge into "ancient-changes"
inline constexpr std::size_t kUpdateManagersMax = 10;
inline constexpr std::size_t kManagerBytesMax = 128;

struct ManagedEntry {
    std::string manager;
    bool apply{false};  // operation Apply; else Update
    std::string api_version;
    std::string subresource;
    std::string time;  // RFC 3339, may be empty
    FieldSet set;
};
using ManagedFields = std::vector<ManagedEntry>;

// Entries that do not parse are dropped, as the real server does.
ManagedFields decode_managed_fields(const json::Value& object);
// removes the member when empty
void encode_managed_fields(ManagedFields entries, json::Value& object);

struct WriteIdentity {
    std::string manager;
    std::string api_version;
    std::string subresource;
    std::string time;  // now, RFC 3339
};

// Bookkeeping of create, update and other patches. `live` is null for a create. `updated` may carry
// managedFields of the client's choosing (an empty list or [{}] resets). Sets updated's
// managedFields; when nothing but times would change the old ones stay.
void track_update(const json::Value* live,
                  json::Value& updated,
                  const ObjectSchema& schema,
                  const WriteIdentity& identity);

// Server-side apply of `config` onto `live` (null: create). `reset`: fields the endpoint does
// not write (status on the main one), never owned. Errors: 400, 409 with one
// FieldManagerConflict cause per field.
Answer<json::Value> apply_config(const json::Value* live,
                                 const json::Value& config,
                                 const ObjectSchema& schema,
                                 const WriteIdentity& identity,
                                 bool force,
                                 const FieldSet& reset);

// Equal but for the times inside managedFields: such a write is not stored.
bool same_but_times(const json::Value& a, const json::Value& b);

}  // namespace capstan::local
