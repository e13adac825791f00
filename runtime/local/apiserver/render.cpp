#include "runtime/local/apiserver/render.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace capstan::local {
namespace {

// core v1 name, events.k8s.io/v1 name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kEventFields{{
    {"involvedObject", "regarding"},
    {"message", "note"},
    {"source", "deprecatedSource"},
    {"firstTimestamp", "deprecatedFirstTimestamp"},
    {"lastTimestamp", "deprecatedLastTimestamp"},
    {"count", "deprecatedCount"},
    {"reportingComponent", "reportingController"},
    {"reportingInstance", "reportingInstance"},
}};

bool is_other_event_api(const ResourceKind& kind) {
    return kind.plural == "events" && !kind.custom &&
           kind.gvk.api_version() != kind.storage_api_version;
}

json::Value metadata_only(const Stored& object) {
    json::Value out = json::object();
    out.set("kind", "PartialObjectMetadata");
    out.set("apiVersion", "meta.k8s.io/v1");
    if (const json::Value* metadata = object.value.find("metadata")) {
        out.set("metadata", *metadata);
    }
    return out;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> out;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(separator), text.size());
        std::string_view item = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        while (!item.empty() && item.front() == ' ') {
            item.remove_prefix(1);
        }
        while (!item.empty() && item.back() == ' ') {
            item.remove_suffix(1);
        }
        out.push_back(item);
    }
    return out;
}

struct MediaType {
    std::string_view type;
    std::string_view as;
    std::string_view group;
    std::string_view version;
};

MediaType parse_media_type(std::string_view text) {
    MediaType media;
    for (const std::string_view part : split(text, ';')) {
        const std::size_t equals = part.find('=');
        if (equals == std::string_view::npos) {
            media.type = media.type.empty() ? part : media.type;
            continue;
        }
        const std::string_view value = part.substr(equals + 1);
        const std::string_view key = part.substr(0, equals);
        if (key == "as") {
            media.as = value;
        } else if (key == "g") {
            media.group = value;
        } else if (key == "v") {
            media.version = value;
        }
    }
    return media;
}

bool is_json(std::string_view type) {
    return type == "application/json" || type == "*/*" || type == "application/*";
}

}  // namespace

Answer<Representation> parse_accept(std::string_view accept) {
    if (accept.empty()) {
        return Representation::full;
    }
    bool other = false;
    for (const std::string_view part : split(accept, ',')) {
        const MediaType media = parse_media_type(part);
        if (!is_json(media.type)) {
            other = true;  // protobuf, CBOR, YAML: the next choice may be JSON
            continue;
        }
        if (media.as.empty()) {
            return Representation::full;
        }
        if (media.group == "meta.k8s.io" && media.version == "v1") {
            if (media.as == "Table") {
                return Representation::table;
            }
            if (media.as == "PartialObjectMetadata" || media.as == "PartialObjectMetadataList") {
                return Representation::metadata;
            }
        }
        other = true;
    }
    if (!other) {
        return Representation::full;
    }
    StatusError error;
    error.code = 406;
    error.reason = "NotAcceptable";
    error.message = "only the following media types are accepted: application/json";
    return refuse(std::move(error));
}

bool accepts_aggregated_discovery(std::string_view accept) {
    for (const std::string_view part : split(accept, ',')) {
        const MediaType media = parse_media_type(part);
        if (media.as == "APIGroupDiscoveryList" && media.group == "apidiscovery.k8s.io" &&
            media.version == "v2" && is_json(media.type)) {
            return true;
        }
    }
    return false;
}

json::Value value_at_version(const Stored& object, const ResourceKind& kind) {
    if (is_other_event_api(kind)) {
        return event_from_core(object.value);
    }
    json::Value value = object.value;
    value.set("apiVersion", kind.gvk.api_version());
    return value;
}

std::string render_object(const Stored& object,
                          const ResourceKind& kind,
                          const RenderOptions& options) {
    if (options.as == Representation::table) {
        return json::dump(
            to_table(kind.gvk,
                     value_at_version(object, kind),
                     kind.printer_columns.is_array() ? &kind.printer_columns : nullptr,
                     options.include,
                     options.now));
    }
    if (options.as == Representation::metadata) {
        return json::dump(metadata_only(object));
    }
    if (is_other_event_api(kind)) {
        return json::dump(value_at_version(object, kind));
    }
    const std::string api_version = kind.gvk.api_version();
    if (api_version == kind.storage_api_version) {
        return object.text;
    }
    std::string out = "{\"apiVersion\":" + json::dump(api_version) +
                      ",\"kind\":" + json::dump(kind.gvk.kind) + ",";
    out += object.rest();
    return out;
}

std::string render_list_item(const Stored& object,
                             const ResourceKind& kind,
                             const RenderOptions& options) {
    if (options.as == Representation::metadata) {
        return json::dump(metadata_only(object));
    }
    if (kind.custom) {
        return render_object(object, kind, options);
    }
    if (is_other_event_api(kind)) {
        json::Value value = value_at_version(object, kind);
        value.erase("apiVersion");
        value.erase("kind");
        return json::dump(value);
    }
    std::string out = "{";
    out += object.rest();
    return out;
}

json::Value event_to_core(json::Value event) {
    for (json::Member& member : *event.if_object()) {
        for (const auto& [core, other] : kEventFields) {
            if (member.key == other) {
                member.key = core;
                break;
            }
        }
    }
    event.set("apiVersion", "v1");
    return event;
}

json::Value event_from_core(json::Value event) {
    for (json::Member& member : *event.if_object()) {
        for (const auto& [core, other] : kEventFields) {
            if (member.key == core) {
                member.key = other;
                break;
            }
        }
    }
    event.set("apiVersion", "events.k8s.io/v1");
    return event;
}

}  // namespace capstan::local
