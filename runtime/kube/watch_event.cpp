#include "runtime/kube/watch_event.hpp"

#include "capstan/json.hpp"
#include "runtime/kube/compact_copy.hpp"
#include "runtime/kube/line_splitter.hpp"
#include "runtime/kube/raw_json.hpp"
#include "runtime/kube/status.hpp"

#include <optional>
#include <utility>

namespace capstan::kube {
namespace {

using Type = WatchEvent::Type;

std::optional<Type> type_of(std::string_view text) {
    if (text == "ADDED") {
        return Type::added;
    }
    if (text == "MODIFIED") {
        return Type::modified;
    }
    if (text == "DELETED") {
        return Type::deleted;
    }
    return text == "BOOKMARK" ? std::optional(Type::bookmark) : std::nullopt;
}

WatchEvent undecodable(std::string message) {
    return {Type::undecodable, nullptr, "", false, {Code::invalid, std::move(message), {}}};
}

// Of an object that is no JSON we take: what its outline says of it.
Result<WatchEvent> decode_outline(std::string_view line,
                                  const GroupVersionKind& gvk,
                                  const Projection& projection,
                                  const Error& error) {
    line = line.substr(0, line.find_last_not_of(" \t\r\n") + 1);
    const auto raw_type = raw::member(line, "type");
    const auto text = raw_type ? raw::to_text(*raw_type) : std::nullopt;
    const std::string_view object = raw::member(line, "object").value_or("");
    const auto type = type_of(text.value_or(""));
    const bool whole = raw::value_length(line) == line.size() && object.starts_with('{');
    if (!whole || !type || *type == Type::bookmark) {
        return fail(Code::unavailable, "watch line is no JSON: " + error.message);
    }
    // In the words of a list: of the object, not of the line.
    const auto alone = Object::decode(object, projection, &gvk);
    WatchEvent event = undecodable(
        unreadable(object, projection, gvk, alone ? error.message : alone.error().message));
    if (*type == Type::deleted && event.object) {
        event.type = Type::deleted;
    }
    return event;
}

// {"type":"MODIFIED","object":{...}} as API servers write it, with an object of the watched kind.
std::optional<WatchEvent> decode_usual(std::string_view line,
                                       const GroupVersionKind& gvk,
                                       const Projection& projection) {
    constexpr std::string_view kHead = R"({"type":")";
    constexpr std::string_view kMiddle = R"(","object":)";
    if (!line.starts_with(kHead) || !line.ends_with('}')) {
        return std::nullopt;
    }
    const std::size_t quote = line.find('"', kHead.size());
    const auto type = type_of(line.substr(kHead.size(), quote - kHead.size()));
    if (!type || *type == Type::bookmark || !line.substr(quote).starts_with(kMiddle)) {
        return std::nullopt;
    }
    line.remove_prefix(quote + kMiddle.size());
    line.remove_suffix(1);
    ObjectPtr object = Object::decode_usual(line, projection, &gvk);
    if (!object || object->kind() != gvk.kind) {
        return std::nullopt;
    }
    WatchEvent event;
    event.type = *type;
    event.resource_version = object->resource_version();
    event.object = std::move(object);
    return event;
}

}  // namespace

WatchEvent undecodable(Unreadable found) {
    return {Type::undecodable,
            std::move(found.head),
            std::move(found.resource_version),
            false,
            {Code::invalid, std::move(found.why), {}}};
}

Result<WatchEvent> decode_watch_line(std::string_view line,
                                     const GroupVersionKind& gvk,
                                     const Projection& projection) {
    if (auto usual = decode_usual(line, gvk, projection)) {
        return std::move(*usual);
    }
    // The object may be as deep as in a list.
    auto parsed =
        json::parse(line, {.depth_max = json::kDepthMax + 1, .bytes_max = kWatchLineBytesMax});
    if (!parsed) {
        return decode_outline(line, gvk, projection, parsed.error());
    }
    json::Value event = std::move(parsed).value();
    const std::string text{json::View(event)["type"].string_or("")};
    json::Value* const object = event.find("object");
    if (object == nullptr || !object->is_object()) {
        return undecodable("event without object");
    }
    if (text == "ERROR") {
        return fail(error_of_status(*object));
    }
    const auto type = type_of(text);
    if (!type) {
        return undecodable("event of unknown type " + quote_server_text(text));
    }
    WatchEvent result;
    result.type = *type;
    const json::View metadata = json::View(*object)["metadata"];
    result.resource_version = metadata["resourceVersion"].string_or("");
    if (*type == Type::bookmark) {
        result.initial_events_end =
            metadata["annotations"]["k8s.io/initial-events-end"].string_or("") == "true";
        return result;
    }
    const std::string_view kind = json::View(*object)["kind"].string_or(gvk.kind);
    if (kind != gvk.kind && !(metadata_only(projection) && kind == kPartialKind)) {
        return undecodable("event of kind " + quote_server_text(kind));
    }
    auto decoded = Object::make(std::move(*object), projection, &gvk);
    if (!decoded) {
        return decode_outline(line, gvk, projection, decoded.error());
    }
    result.object = std::move(decoded).value();
    return result;
}

}  // namespace capstan::kube
