// What a manifest says of its plugin's configuration: a part of JSON schema, checked before any
// code of the plugin runs.
//
// Keywords: type (one or several), properties, required, additionalProperties (false or a schema),
// items, enum, minimum, maximum; description, title, default and examples are for people. Thread:
// any.
#pragma once

#include "capstan/json.hpp"

#include <string>
#include <vector>

namespace capstan::plugin {

// What is wrong with a schema itself: "/properties/a/patern: unknown keyword".
std::vector<std::string> schema_problems(const json::Value& schema);
// What is wrong with `config`, each beginning with its place: "/images/etc: unknown; there are
// alpine, capstan, etcd". Requires: schema_problems() has found none.
std::vector<std::string> config_problems(const json::Value& schema, const json::Value& config);

}  // namespace capstan::plugin
