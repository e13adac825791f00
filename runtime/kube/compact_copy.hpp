// Copies the JSON text of one API object compactly, without what a projection drops, in one pass
// and without a tree: the way of every object from a list or a watch into the store.
//
// Only the usual form is handled: well-formed text as json::parse() accepts it, no real numbers, no
// integers beyond 64 bits, no escape sequences but the short ones and those of < > &, a `keep` list
// of pointers with one or two plain tokens. Anything else is `unusual`, and the caller lets
// json::parse() and Object::make() say what it is. For what is handled the copy equals byte for
// byte what they give (a test and a fuzz target compare). What is dropped is skipped by its outline
// and not checked further.
// Thread: any; not shared.
#pragma once

#include "capstan/object_ref.hpp"
#include "runtime/kube/object.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::kube {

// A watch of metadata alone: servers are asked for PartialObjectMetadata, whose apiVersion and kind
// are then those of `gvk`; one that answers with whole objects is fine too.
inline constexpr std::string_view kPartialKind = "PartialObjectMetadata";
inline constexpr std::string_view kPartialApiVersion = "meta.k8s.io/v1";
inline constexpr std::string_view kAcceptPartial =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
inline constexpr std::string_view kAcceptPartialList =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
bool metadata_only(const Projection& projection) noexcept;

// Appends the copy of the object at the start of `text` to `out` and returns the length of the
// original; nullopt: unusual, `out` holds rubbish. `gvk` as in Object::make(), may be nullptr.
std::optional<std::size_t> compact_copy(std::string_view text,
                                        const Projection& projection,
                                        const GroupVersionKind* gvk,
                                        std::string& out);

}  // namespace capstan::kube
