#include "capstan/object_ref.hpp"

namespace capstan {

std::string GroupVersionKind::api_version() const {
    return group.empty() ? version : group + "/" + version;
}
std::string GroupVersionKind::to_string() const {
    return api_version() + "/" + kind;
}
std::string GroupVersionKind::group_kind() const {
    return group.empty() ? kind : group + "/" + kind;
}

Result<GroupVersionKind> GroupVersionKind::parse(std::string_view text) {
    const std::size_t last = text.rfind('/');
    if (last == std::string_view::npos || text.starts_with('/') || last + 1 == text.size()) {
        return fail(Code::invalid, "\"" + std::string(text) + "\" is not [group/]version/Kind");
    }
    GroupVersionKind gvk = from_api_version(text.substr(0, last), text.substr(last + 1));
    if (gvk.version.empty() || gvk.version.find('/') != std::string::npos ||
        gvk.group.find('/') != std::string::npos) {
        return fail(Code::invalid, "\"" + std::string(text) + "\" is not [group/]version/Kind");
    }
    return gvk;
}

GroupVersionKind GroupVersionKind::from_api_version(std::string_view api_version,
                                                    std::string_view kind) {
    const std::size_t slash = api_version.find('/');
    if (slash == std::string_view::npos) {
        return {"", std::string(api_version), std::string(kind)};
    }
    return {std::string(api_version.substr(0, slash)),
            std::string(api_version.substr(slash + 1)),
            std::string(kind)};
}

std::string ObjectKey::to_string() const {
    return ns.empty() ? name : ns + "/" + name;
}

}  // namespace capstan
