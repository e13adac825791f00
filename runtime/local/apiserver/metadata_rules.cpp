#include "runtime/local/apiserver/metadata_rules.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

constexpr std::size_t kLabelBytesMax = 63;
constexpr std::string_view kSubdomainText =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
constexpr std::string_view kLabelText =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
constexpr std::string_view kQualifiedNameText =
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
constexpr std::string_view kLabelValueText =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

bool is_lower_alnum(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}
bool is_alnum(char c) {
    return is_lower_alnum(c) || (c >= 'A' && c <= 'Z');
}

bool is_name_part(std::string_view text) {
    return !text.empty() && text.size() <= kLabelBytesMax && is_alnum(text.front()) &&
           is_alnum(text.back()) && std::all_of(text.begin(), text.end(), [](char c) {
               return is_alnum(c) || c == '-' || c == '_' || c == '.';
           });
}

// [prefix/]name, as label and annotation keys and finalizers have it.
bool is_qualified_name(std::string_view text) {
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos) {
        return is_name_part(text);
    }
    return is_dns_subdomain(text.substr(0, slash)) && is_name_part(text.substr(slash + 1));
}

void check_name(const std::string& name, NameRule rule, std::vector<FieldError>& errors) {
    if (name.empty()) {
        errors.push_back(required_value("metadata.name", "name or generateName is required"));
    } else if (rule == NameRule::path_segment) {
        if (name == "." || name == ".." || name.find_first_of("/%") != std::string::npos) {
            errors.push_back(
                invalid_value("metadata.name", name, "may not be '.', '..' or contain '/' or '%'"));
        }
    } else if (rule == NameRule::label ? !is_dns_label(name) : !is_dns_subdomain(name)) {
        errors.push_back(invalid_value(
            "metadata.name", name, rule == NameRule::label ? kLabelText : kSubdomainText));
    }
}

void check_string_map(const json::Value* map,
                      const std::string& field,
                      bool labels,
                      std::vector<FieldError>& errors) {
    if (map == nullptr || map->is_null()) {
        return;
    }
    const json::Object* members = map->if_object();
    if (members == nullptr) {
        errors.push_back(wrong_type_value(field, *map, "must be a map of strings"));
        return;
    }
    std::size_t bytes = 0;
    for (const json::Member& member : *members) {
        const std::string* text = member.value.if_string();
        if (text == nullptr) {
            errors.push_back(
                wrong_type_value(field + "." + member.key, member.value, "must be a string"));
            continue;
        }
        bytes += member.key.size() + text->size();
        if (!is_qualified_name(member.key)) {
            errors.push_back(invalid_value(field, member.key, kQualifiedNameText));
        }
        if (labels && !text->empty() && !is_name_part(*text)) {
            errors.push_back(invalid_value(field, *text, kLabelValueText));
        }
    }
    if (!labels && bytes > kAnnotationBytesMax) {
        errors.push_back(too_long(field, kAnnotationBytesMax));
    }
}

// nullptr: nothing to check; a value of another kind is an error.
const json::Array* array_of(const json::Value* list,
                            const std::string& field,
                            std::vector<FieldError>& errors) {
    if (list == nullptr || list->is_null()) {
        return nullptr;
    }
    if (!list->is_array()) {
        errors.push_back(wrong_type_value(field, *list, "must be an array"));
    }
    return list->if_array();
}

// Fields that a typed client reads as text.
void check_texts(const json::Value& metadata, std::vector<FieldError>& errors) {
    for (const char* name :
         {"name", "generateName", "namespace", "uid", "resourceVersion", "deletionTimestamp"}) {
        const json::Value* value = metadata.find(name);
        if (value != nullptr && !value->is_null() && !value->is_string()) {
            errors.push_back(
                wrong_type_value("metadata." + std::string(name), *value, "must be a string"));
        }
    }
}

void check_owners(const json::Value* list, std::vector<FieldError>& errors) {
    const json::Array* owners = array_of(list, "metadata.ownerReferences", errors);
    if (owners == nullptr) {
        return;
    }
    std::size_t controllers = 0;
    for (const json::Value& item : *owners) {
        const json::View owner(item);
        for (const std::string_view name : {"apiVersion", "kind", "name", "uid"}) {
            if (owner[name].string_or("").empty()) {
                errors.push_back(invalid_value(
                    "metadata.ownerReferences." + std::string(name), "", "must not be empty"));
            }
        }
        controllers += owner["controller"].bool_or(false) ? 1 : 0;
    }
    if (controllers > 1) {
        errors.push_back(invalid_value("metadata.ownerReferences",
                                       *list,
                                       "Only one reference can have Controller set to true"));
    }
}

// `qualified`: builtin kinds want a domain in front, but for the three of Kubernetes itself.
void check_finalizers(const json::Value* list, bool qualified, std::vector<FieldError>& errors) {
    const json::Array* finalizers = array_of(list, "metadata.finalizers", errors);
    if (finalizers == nullptr) {
        return;
    }
    for (std::size_t i = 0; i < finalizers->size(); ++i) {
        const json::Value& item = (*finalizers)[i];
        const std::string* text = item.if_string();
        if (text == nullptr || !is_qualified_name(*text)) {
            errors.push_back(invalid_value("metadata.finalizers", item, kQualifiedNameText));
        }
        const bool known = text != nullptr && (*text == "orphan" || *text == "kubernetes" ||
                                               *text == "foregroundDeletion");
        if (qualified && !known && (text == nullptr || text->find('/') == std::string::npos)) {
            errors.push_back(invalid_value(
                "metadata.finalizers[" + std::to_string(i) + "]",
                item,
                "name is neither a standard finalizer name nor is it fully qualified"));
        }
    }
}

}  // namespace

bool is_dns_label(std::string_view text) noexcept {
    return !text.empty() && text.size() <= kLabelBytesMax && is_lower_alnum(text.front()) &&
           is_lower_alnum(text.back()) && std::all_of(text.begin(), text.end(), [](char c) {
               return is_lower_alnum(c) || c == '-';
           });
}

bool is_dns_subdomain(std::string_view text) noexcept {
    if (text.empty() || text.size() > kNameBytesMax) {
        return false;
    }
    while (true) {
        const std::size_t dot = text.find('.');
        const std::string_view part = text.substr(0, dot);
        if (part.empty() || !is_lower_alnum(part.front()) || !is_lower_alnum(part.back()) ||
            !std::all_of(
                part.begin(), part.end(), [](char c) { return is_lower_alnum(c) || c == '-'; })) {
            return false;
        }
        if (dot == std::string_view::npos) {
            return true;
        }
        text.remove_prefix(dot + 1);
    }
}

void drop_empty_metadata(json::Value& object) {
    json::Value* metadata = object.find("metadata");
    json::Object* members = metadata == nullptr ? nullptr : metadata->if_object();
    if (members == nullptr) {
        return;
    }
    std::erase_if(*members, [](const json::Member& member) {
        const std::string* text = member.value.if_string();
        const json::Object* map = member.value.if_object();
        const json::Array* list = member.value.if_array();
        const bool maps = member.key == "labels" || member.key == "annotations";
        const bool lists = member.key == "finalizers" || member.key == "ownerReferences";
        return member.value.is_null() || (text != nullptr && text->empty()) ||
               (map != nullptr && map->empty() && maps) ||
               (list != nullptr && list->empty() && lists);
    });
}

std::vector<FieldError> validate_metadata(const json::Value& object, NameRule rule, bool builtin) {
    std::vector<FieldError> errors;
    const json::Value* metadata = object.find("metadata");
    if (metadata == nullptr || !metadata->is_object()) {
        errors.push_back(required_value("metadata"));
        return errors;
    }
    check_name(std::string(json::View(*metadata)["name"].string_or("")), rule, errors);
    check_string_map(metadata->find("labels"), "metadata.labels", true, errors);
    check_string_map(metadata->find("annotations"), "metadata.annotations", false, errors);
    check_texts(*metadata, errors);
    check_owners(metadata->find("ownerReferences"), errors);
    check_finalizers(metadata->find("finalizers"), builtin, errors);
    return errors;
}

std::vector<FieldError> validate_metadata_update(const json::Value& old_object,
                                                 const json::Value& new_object) {
    std::vector<FieldError> errors;
    const json::View old_meta = json::View(old_object)["metadata"];
    if (!old_meta["deletionTimestamp"].present()) {
        return errors;
    }
    const json::Array& before = old_meta["finalizers"].array();
    json::Value added = json::list();
    for (const json::Value& finalizer : json::View(new_object)["metadata"]["finalizers"].array()) {
        if (std::find(before.begin(), before.end(), finalizer) == before.end()) {
            added.push_back(finalizer);
        }
    }
    if (!added.if_array()->empty()) {
        errors.push_back(forbidden_value(
            "metadata.finalizers",
            "no new finalizers can be added if the object is being deleted, found new finalizers " +
                json::dump(added)));
    }
    return errors;
}

}  // namespace capstan::local
