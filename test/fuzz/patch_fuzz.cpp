// Patches and server-side apply of the embedded API server, on objects and schemas of any form.
//
// Input: a JSON array [kind of patch, object, patch, …]; see check().
#include "runtime/local/apiserver/apply_managed_fields.hpp"
#include "runtime/local/apiserver/builtin_kinds.hpp"
#include "runtime/local/apiserver/patch_json.hpp"
#include "runtime/local/apiserver/patch_merge.hpp"
#include "runtime/local/apiserver/patch_strategic.hpp"
#include "test/fuzz/fuzz.hpp"

#include <string>
#include <string_view>

namespace capstan::local {
namespace {

using fuzz::require;

constexpr std::string_view kSchema = R"({
  "type": "object",
  "properties": {
    "spec": {"type": "object", "properties": {
      "a": {"type": "integer"},
      "atomic": {"type": "array", "items": {"type": "string"}},
      "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
      "ports": {"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name", "port"],
        "items": {"type": "object", "required": ["name"], "properties": {
          "name": {"type": "string"}, "port": {"type": "integer", "default": 1},
          "hosts": {"type": "array", "x-kubernetes-list-type": "set",
            "items": {"type": "string"}}}}},
      "block": {"type": "object", "x-kubernetes-map-type": "atomic",
        "x-kubernetes-preserve-unknown-fields": true},
      "open": {"type": "object", "additionalProperties": {"type": "string"}},
      "any": {"x-kubernetes-preserve-unknown-fields": true}}},
    "status": {"type": "object", "properties": {"n": {"type": "integer"}}}
  }})";

const SchemaNode* schema() {
    static const StructuralSchema compiled =
        StructuralSchema::compile(json::parse(kSchema).value()).value();
    return compiled.root();
}

void check_json_patch(const json::Value& object, const json::Value& patch) {
    const json::Value before = object;
    const auto patched = apply_json_patch(object, patch);
    require(object == before, "a patch does not touch what it is applied to");
    if (!patched) {
        require(patched.error().code >= 400 && patched.error().code < 500,
                "a bad patch is the client's fault");
    }
}

void check_merge(const json::Value& object, const json::Value& patch) {
    json::Value once = object;
    apply_merge_patch(once, patch);
    json::Value twice = once;
    apply_merge_patch(twice, patch);
    require(once == twice, "a merge patch applied twice changes nothing more");
}

void check_strategic(const json::Value& object, const json::Value& patch) {
    static const SchemaNode* pod = builtin_schema({"", "v1", "Pod"});
    for (const SchemaNode* node : {pod, schema(), static_cast<const SchemaNode*>(nullptr)}) {
        const auto patched = apply_strategic_patch(object, patch, node);
        if (!patched) {
            require(patched.error().code >= 400 && patched.error().code < 500,
                    "a bad patch is the client's fault");
        }
    }
}

void check_field_set(const json::Value& object, const ObjectSchema& shape) {
    const auto set = to_field_set(object, shape);
    if (!set) {
        return;
    }
    require(from_fields_v1(to_fields_v1(set.value())) == set.value(),
            "a field set survives its wire form");
    require(compare(object, object, shape).same(), "an object equals itself");
    require(set.value().difference(set.value()).paths().empty(), "nothing is left of itself");
    require(set.value().intersection(set.value()).paths() == set.value().paths(),
            "and everything is common");
    (void)remove_fields(object, set.value(), shape);
}

// `config` applied by one manager, then again, then by another without force.
void check_apply(const json::Value& live, const json::Value& config, const ObjectSchema& shape) {
    check_field_set(config, shape);
    const WriteIdentity first{"a", "x.dev/v1", "", "2026-01-01T00:00:00Z"};
    const auto created = apply_config(nullptr, config, shape, first, false, {});
    const auto applied = apply_config(&live, config, shape, first, true, {});
    if (!applied) {
        require(applied.error().code >= 400 && applied.error().code < 500,
                "a bad configuration is the client's fault");
        return;
    }
    const auto again = apply_config(&applied.value(), config, shape, first, false, {});
    require(again.has_value(), "what is owned can be applied again");
    require(same_but_times(applied.value(), again.value()), "and that changes nothing");
    const WriteIdentity second{"b", "x.dev/v1", "", "2026-01-02T00:00:00Z"};
    const auto shared = apply_config(&applied.value(), config, shape, second, false, {});
    require(shared.has_value(), "equal values are no conflict");
    json::Value updated = live;
    track_update(&applied.value(), updated, shape, second);
    (void)created;
}

// What the server has made sure of before it applies anything.
bool has_metadata(const json::Value& object) {
    const json::Value* metadata = object.find("metadata");
    return metadata != nullptr && metadata->is_object();
}

void check(const json::Array& input) {
    const std::string* kind = input[0].if_string();
    if (kind == nullptr) {
        return;
    }
    const json::Value& object = input[1];
    const json::Value& patch = input[2];
    if (*kind == "json") {
        check_json_patch(object, patch);
    } else if (*kind == "merge") {
        check_merge(object, patch);
    } else if (*kind == "strategic") {
        check_strategic(object, patch);
    } else if (*kind == "apply" && has_metadata(object) && has_metadata(patch)) {
        check_apply(object, patch, {schema()});
        check_apply(object, patch, {nullptr});
    }
}

}  // namespace
}  // namespace capstan::local

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace capstan;
    const auto document = json::parse({reinterpret_cast<const char*>(data), size});
    if (document && document.value().if_array() != nullptr &&
        document.value().if_array()->size() >= 3) {
        local::check(*document.value().if_array());
    }
    return 0;
}
