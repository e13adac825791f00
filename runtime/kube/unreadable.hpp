// An object that is there and cannot be read: nested too deep, with a member twice, without a name.
// It is passed over by name, so that it stops neither its kind nor counts as gone. Thread: any.
#pragma once

#include "runtime/kube/object.hpp"

#include <string>
#include <string_view>

namespace capstan::kube {

struct Unreadable {
    ObjectPtr head;  // apiVersion, kind and what could be had of metadata; nullptr: not even a name
    std::string resource_version;  // "": not known
    std::string why;

    // "default/a: JSON is nested deeper than 128"; the name quoted if need be.
    std::string text() const;
};

// What can be had of an object's text without reading all of it.
Unreadable unreadable(std::string_view text,
                      const Projection& projection,
                      const GroupVersionKind& gvk,
                      std::string why);

}  // namespace capstan::kube
