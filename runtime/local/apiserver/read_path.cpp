// GET of one object and of collections, with consistent pages.
#include "runtime/local/apiserver/server_state.hpp"

#include <charconv>
#include <optional>

namespace capstan::local {
namespace {

constexpr std::size_t kPageItemsMax = 1'000'000;

std::optional<std::uint64_t> to_number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        return std::nullopt;
    }
    return value;
}

StatusError invalid_option(std::string_view field,
                           std::string message,
                           std::string reason = "FieldValueForbidden") {
    return invalid("meta.k8s.io",
                   "ListOptions",
                   "",
                   {{std::move(reason), std::move(message), std::string(field)}});
}

StatusError too_new(std::uint64_t wanted, std::uint64_t current) {
    StatusError error;
    error.code = 504;
    error.reason = "Timeout";
    error.message = "Timeout: Too large resource version: " + std::to_string(wanted) +
                    ", current: " + std::to_string(current);
    error.retry_after_s = 1;
    error.causes.push_back({"ResourceVersionTooLarge", "Too large resource version", {}});
    return error;
}

// Where a list continues: the snapshot's version and the last key of the page before.
struct Continue {
    std::uint64_t revision{0};
    std::string after;
};

std::string hex(std::string_view text) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        out += kDigits[byte >> 4];
        out += kDigits[byte & 0xf];
    }
    return out;
}

std::optional<Continue> parse_continue(std::string_view token) {
    const std::size_t dot = token.find('.');
    if (dot == std::string_view::npos) {
        return std::nullopt;
    }
    const auto revision = to_number(token.substr(0, dot));
    std::string escaped;
    const std::string_view digits = token.substr(dot + 1);
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
        escaped += '%';
        escaped += digits.substr(i, 2);
    }
    auto after = percent_decode(escaped, false);
    if (!revision || !after || digits.size() % 2 != 0) {
        return std::nullopt;
    }
    return Continue{*revision, std::move(*after)};
}

struct ListRequest {
    std::size_t limit{0};  // 0: all
    std::string after;     // keys above this
    std::optional<std::uint64_t> exact;
};

Answer<ListRequest> list_request(const RequestInfo& info, std::uint64_t current) {
    ListRequest request;
    const std::string_view limit = info.parameter("limit");
    const std::string_view version = info.parameter("resourceVersion");
    const std::string_view match = info.parameter("resourceVersionMatch");
    const std::string_view token = info.parameter("continue");
    if (!limit.empty()) {
        const auto number = to_number(limit);
        if (!number || *number > kPageItemsMax) {
            return refuse(
                bad_request("limit: not a number of items: \"" + std::string(limit) + "\""));
        }
        request.limit = static_cast<std::size_t>(*number);
    }
    if (!info.parameter("sendInitialEvents").empty()) {
        return refuse(invalid_option("sendInitialEvents",
                                     "Forbidden: sendInitialEvents is forbidden for list"));
    }
    if (!match.empty()) {
        if (!token.empty()) {
            return refuse(invalid_option(
                "resourceVersionMatch",
                "Forbidden: resourceVersionMatch is forbidden when continue is provided"));
        }
        if (version.empty()) {
            return refuse(invalid_option("resourceVersionMatch",
                                         "Forbidden: resourceVersionMatch is forbidden unless "
                                         "resourceVersion is provided"));
        }
        if (match != "Exact" && match != "NotOlderThan") {
            return refuse(invalid_option("resourceVersionMatch",
                                         "Unsupported value: \"" + std::string(match) + "\"",
                                         "FieldValueNotSupported"));
        }
        if (match == "Exact" && version == "0") {
            return refuse(invalid_option("resourceVersionMatch",
                                         "Forbidden: resourceVersionMatch \"exact\" is "
                                         "forbidden for resourceVersion \"0\""));
        }
    }
    if (!token.empty()) {
        const auto from = parse_continue(token);
        if (!from) {
            return refuse(bad_request("continue key is not valid: \"" +
                                      std::string(token.substr(0, 64)) + "\""));
        }
        if (!version.empty() && version != "0") {
            return refuse(
                bad_request("specifying resource version is not allowed when using continue"));
        }
        request.exact = from->revision;
        request.after = from->after;
        return request;
    }
    if (version.empty() || version == "0") {
        return request;
    }
    const auto wanted = to_number(version);
    if (!wanted) {
        return refuse(
            bad_request("resourceVersion: Invalid value: \"" + std::string(version) + "\""));
    }
    if (*wanted > current) {
        return refuse(too_new(*wanted, current));
    }
    if (match == "Exact" || (match.empty() && request.limit > 0)) {
        request.exact = *wanted;
    }
    return request;
}

// `items`: rendered, joined by commas; `values`: the same for tables.
ApiResponse list_response(const Call& call,
                          const json::Value& metadata,
                          std::string items,
                          json::Value values) {
    const ResourceKind& kind = *call.kind;
    const bool partial = call.render.as == Representation::metadata;
    if (call.render.as == Representation::table) {
        const json::Value list = {{"kind", kind.list_kind()},
                                  {"apiVersion", kind.gvk.api_version()},
                                  {"metadata", metadata},
                                  {"items", std::move(values)}};
        return json_response(
            200,
            json::dump(to_table(kind.gvk,
                                list,
                                kind.printer_columns.is_array() ? &kind.printer_columns : nullptr,
                                call.render.include,
                                call.render.now)) +
                "\n");
    }
    return json_response(
        200,
        "{\"kind\":" + json::dump(partial ? "PartialObjectMetadataList" : kind.list_kind()) +
            ",\"apiVersion\":" + json::dump(partial ? "meta.k8s.io/v1" : kind.gvk.api_version()) +
            ",\"metadata\":" + json::dump(metadata) + ",\"items\":[" + items + "]}\n");
}

// Today's objects with every change after `revision` undone. False: nothing has changed since.
bool past_objects(const WatchHub& hub,
                  const std::string& storage,
                  std::uint64_t revision,
                  const Store::Objects& now,
                  Store::Objects& past) {
    auto undone = hub.undo(storage, revision);
    if (undone.empty()) {
        return false;
    }
    past = now;
    for (auto& [key, before] : undone) {
        if (before) {
            past[key] = std::move(before);
        } else {
            past.erase(key);
        }
    }
    return true;
}

}  // namespace

Answer<ApiResponse> ApiServer::State::get(Call& call) {
    const StoredPtr found = store.find(call.kind->storage, call.key());
    if (!found) {
        return refuse(call.missing());
    }
    if (const auto wanted = to_number(call.info.parameter("resourceVersion"));
        wanted && *wanted > store.revision()) {
        return refuse(too_new(*wanted, store.revision()));
    }
    return render(call, *found, 200);
}

Answer<Selection> ApiServer::State::selection(const Call& call) const {
    Selection selection;
    selection.ns = call.info.ns;
    CAPSTAN_TRY(selection.labels, LabelSelector::parse(call.info.parameter("labelSelector")));
    CAPSTAN_TRY(
        selection.fields,
        FieldSelector::parse(call.info.parameter("fieldSelector"), call.kind->selectable_fields));
    if (call.kind->storage == "events" && call.kind->gvk.group == "events.k8s.io") {
        selection.fields.rename_prefix("regarding.", "involvedObject.");  // as stored
        selection.fields.rename_prefix("reportingController", "reportingComponent");
    }
    return selection;
}

Answer<ApiResponse> ApiServer::State::list(Call& call) {
    const ResourceKind& kind = *call.kind;
    CAPSTAN_TRY(const Selection wanted, selection(call));
    CAPSTAN_TRY(const ListRequest request, list_request(call.info, store.revision()));
    const std::uint64_t revision = request.exact.value_or(store.revision());
    if (revision > store.revision()) {
        return refuse(too_new(revision, store.revision()));
    }
    if (revision < hub.oldest(kind.storage)) {
        return refuse(expired(
            "The provided continue parameter is too old to display a consistent list result. You "
            "can start a new list without the continue parameter."));
    }
    Store::Objects past;
    const Store::Objects* objects = &store.objects(kind.storage);
    if (past_objects(hub, kind.storage, revision, *objects, past)) {
        objects = &past;
    }
    std::string items;
    json::Value values = json::list();  // tables only
    std::string last;
    std::size_t count = 0;
    std::size_t remaining = 0;
    const std::string prefix = wanted.ns.empty() ? std::string() : wanted.ns + "/";
    for (auto it = objects->lower_bound(prefix);
         it != objects->end() && it->first.starts_with(prefix);
         ++it) {
        if (it->first <= request.after || !wanted.matches(it->first, it->second->value)) {
            continue;
        }
        if (request.limit > 0 && count == request.limit) {
            ++remaining;
            continue;
        }
        ++count;
        last = it->first;
        if (call.render.as == Representation::table) {
            values.push_back(value_at_version(*it->second, kind));
        } else {
            items += (items.empty() ? "" : ",") + render_list_item(*it->second, kind, call.render);
        }
    }
    json::Value metadata = {{"resourceVersion", std::to_string(revision)}};
    if (remaining > 0) {
        metadata.set("continue", std::to_string(revision) + "." + hex(last));
        if (wanted.everything()) {
            metadata.set("remainingItemCount", remaining);
        }
    }
    return list_response(call, metadata, std::move(items), std::move(values));
}

Answer<PodLogRequest> ApiServer::State::pod_log(const Call& call) const {
    const StoredPtr pod = store.find(call.kind ? call.kind->storage : std::string(), call.key());
    if (!pod) {
        return refuse(not_found("", "pods", call.info.name));
    }
    PodLogRequest request;
    request.ns = call.info.ns;
    request.pod = call.info.name;
    request.uid = json::View(pod->value)["metadata"]["uid"].string_or("");
    request.container = call.info.parameter("container");
    request.follow = call.info.flag("follow");
    request.previous = call.info.flag("previous");
    request.timestamps = call.info.flag("timestamps");
    for (const auto& [name, field] :
         {std::pair<std::string_view, long long*>{"tailLines", &request.tail_lines},
          {"sinceSeconds", &request.since_seconds},
          {"limitBytes", &request.limit_bytes}}) {
        const std::string_view text = call.info.parameter(name);
        if (text.empty()) {
            continue;
        }
        const auto number = to_number(text);
        if (!number || *number > static_cast<std::uint64_t>(INT64_MAX)) {
            return refuse(
                bad_request(std::string(name) + ": not a number: \"" + std::string(text) + "\""));
        }
        *field = static_cast<long long>(*number);
    }
    if (request.container.empty()) {
        const json::Array& containers = json::View(pod->value)["spec"]["containers"].array();
        const std::string_view chosen =
            json::View(
                pod->value)["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"]
                .string_or("");
        if (!chosen.empty()) {
            request.container = chosen;
        } else if (!containers.empty()) {
            request.container = json::View(containers[0])["name"].string_or("");
        }
    }
    return request;
}

}  // namespace capstan::local
