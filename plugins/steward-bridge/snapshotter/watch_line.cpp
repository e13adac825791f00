#include "plugins/steward-bridge/snapshotter/etcd_client.hpp"
#include "plugins/steward-bridge/snapshotter/gateway_json.hpp"

#include <utility>

namespace capstan::steward {
namespace {

constexpr json::ParseOptions kLineLimits{.depth_max = 16, .bytes_max = kGatewayLineBytesMax};

Result<DeltaChange> parse_event(const json::View& event) {
    DeltaChange change;
    change.base64 = true;
    const std::string_view type = event["type"].string_or("PUT");
    if (type != "PUT" && type != "DELETE") {
        return fail(event["type"].error("PUT or DELETE is expected"));
    }
    change.deleted = type == "DELETE";
    const json::View kv = event["kv"];
    CAPSTAN_TRY(change.key, kv["key"].as_string());
    CAPSTAN_TRY(change.mod_revision, read_int64(kv["mod_revision"]));
    if (!change.deleted) {
        if (kv["value"].present()) {
            CAPSTAN_TRY(change.value, kv["value"].as_string());
        }
        CAPSTAN_TRY(change.create_revision, read_int64(kv["create_revision"]));
        CAPSTAN_TRY(change.version, read_int64(kv["version"]));
        CAPSTAN_TRY(change.lease, read_int64(kv["lease"]));
    }
    return change;
}

Result<void> refuse_end(const json::View& result) {
    if (!result["canceled"].bool_or(false)) {
        return ok();
    }
    CAPSTAN_TRY(const std::int64_t compacted, read_int64(result["compact_revision"]));
    if (compacted > 0) {
        return fail(Code::expired,
                    "etcd has compacted up to revision " + std::to_string(compacted) +
                        ", beyond where the watch was to start");
    }
    return fail(Code::unavailable,
                "etcd ended the watch: \"" +
                    std::string(result["cancel_reason"].string_or("no reason given")) + "\"");
}

}  // namespace

Result<WatchMessage> parse_watch_line(std::string_view line) {
    CAPSTAN_TRY(json::Value parsed, json::parse(line, kLineLimits));
    WatchMessage message;
    message.document = std::make_unique<const json::Value>(std::move(parsed));
    const json::View root(*message.document);
    if (root["error"].present()) {
        return fail(gateway_error(root["error"]));
    }
    const json::View result = root["result"];
    CAPSTAN_TRY(refuse_end(result));
    CAPSTAN_TRY(message.revision, read_int64(result["header"]["revision"]));
    message.created = result["created"].bool_or(false);
    message.more = result["fragment"].bool_or(false);
    CAPSTAN_TRY(const std::vector<json::View> events, result["events"].items());
    message.changes.reserve(events.size());
    for (const json::View& event : events) {
        CAPSTAN_TRY(const DeltaChange change, parse_event(event));
        message.changes.push_back(change);
    }
    return message;
}

}  // namespace capstan::steward
