// JSON values as block YAML, in the bytes that Go's sigs.k8s.io/yaml writes.
//
// Keys sorted, list items not indented, text quoted only where YAML would read it as
// something else. Thread: any.
#pragma once

#include "capstan/json.hpp"

#include <string>

namespace capstan::etcd {

// Requires: an object of objects, lists and scalars; text on one line. The
// result ends with a newline.
std::string to_yaml(const json::Value& object);

}  // namespace capstan::etcd
