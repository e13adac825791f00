// /snapshot/…, /defragment and /metrics.
#include "plugins/steward-bridge/api/answer.hpp"
#include "plugins/steward-bridge/api/network_bytes.hpp"
#include "plugins/steward-bridge/api/routes_internal.hpp"
#include "plugins/steward-bridge/files.hpp"

#include <algorithm>
#include <optional>

namespace capstan::steward {
namespace {

constexpr std::chrono::seconds kCallSpare{5};  // to send the answer in

// What Go's strconv.ParseBool takes; "" is false.
std::optional<bool> parse_switch(std::string_view text) {
    constexpr std::string_view kTrue[] = {"1", "t", "T", "true", "TRUE", "True"};
    constexpr std::string_view kFalse[] = {"", "0", "f", "F", "false", "FALSE", "False"};
    if (std::find(std::begin(kTrue), std::end(kTrue), text) != std::end(kTrue)) {
        return true;
    }
    if (std::find(std::begin(kFalse), std::end(kFalse), text) != std::end(kFalse)) {
        return false;
    }
    return std::nullopt;
}

std::chrono::nanoseconds time_left(Call& call) {
    return call.deadline() - call.now() - kCallSpare;
}

// True: the request is answered, by a refusal or by the leading member's steward.
bool answered_elsewhere(const ApiParts& parts, Call& call, Exchange& exchange) {
    switch (parts.snapshots->state()) {
        case SnapshotAccess::State::no_store:
            refuse(exchange,
                   405,
                   "NoStore",
                   "Etcd " + parts.member->identity().ns + "/" + parts.member->identity().etcd +
                       " has no backup store, so no snapshot can be taken; set its "
                       "spec.backup.store");
            return true;
        case SnapshotAccess::State::elsewhere:
            forward_to_leader(call, exchange, *parts.member, *parts.access, parts.peer_tls);
            return true;
        case SnapshotAccess::State::here: break;
    }
    return false;
}

// Any failure of a snapshot is 500 for etcd-backup-restore's clients, but for a full queue.
void refuse_snapshot(Exchange& exchange, const Error& error) {
    if (error.code == Code::overloaded || error.code == Code::cancelled ||
        error.code == Code::fenced) {
        return refuse(exchange, error);
    }
    refuse(
        exchange, 500, error.code == Code::timeout ? "TimedOut" : "SnapshotFailed", error.message);
}

}  // namespace

void answer_full(const ApiParts& parts, Call& call, Exchange& exchange) {
    const std::string final_text = exchange.query_value("final");
    const auto final = parse_switch(final_text);
    if (!final) {
        return refuse(exchange,
                      400,
                      "InvalidQuery",
                      "final=" + final_text.substr(0, 64) + " is neither true nor false");
    }
    if (answered_elsewhere(parts, call, exchange)) {
        return;
    }
    const auto taken = parts.snapshots->full(call, *final, time_left(call));
    if (!taken) {
        return refuse_snapshot(exchange, taken.error());
    }
    exchange.respond_json(200, to_json(taken.value()));
}

void answer_delta(const ApiParts& parts, Call& call, Exchange& exchange) {
    if (answered_elsewhere(parts, call, exchange)) {
        return;
    }
    const auto taken = parts.snapshots->delta(call, time_left(call));
    if (!taken) {
        return refuse_snapshot(exchange, taken.error());
    }
    exchange.respond_json(200, taken.value() ? to_json(*taken.value()) : json::Value());
}

void answer_latest(const ApiParts& parts, Call& call, Exchange& exchange) {
    if (answered_elsewhere(parts, call, exchange)) {
        return;
    }
    const LatestSet latest = parts.snapshots->latest();
    json::Value deltas = latest.deltas.empty() ? json::Value() : json::list();
    for (const SnapshotRecord& delta : latest.deltas) {
        deltas.push_back(to_json(delta));
    }
    exchange.respond_json(200,
                          {{"fullSnapshot", latest.full ? to_json(*latest.full) : json::Value()},
                           {"deltaSnapshots", std::move(deltas)}});
}

void answer_defragment(const ApiParts& parts, Call& call, Exchange& exchange) {
    const auto done = parts.defragmenter->run(call, "Requested");
    if (!done) {
        return refuse(exchange, done.error());
    }
    exchange.respond_json(200, api::encode(done.value()));
}

void answer_last_defragmentation(const ApiParts& parts, Call&, Exchange& exchange) {
    const auto last = parts.member->defragmentation();
    exchange.respond_json(200, last ? api::encode(*last) : json::Value());
}

void answer_metrics(const ApiParts&, Call& call, Exchange& exchange) {
    auto text = call.host().render_metrics();
    if (!text) {
        return refuse(exchange, 501, "NotSupported", text.error().message);
    }
    const auto network = read_file("/proc/self/net/dev");
    if (network) {
        text.value() += network_exposition(parse_network_bytes(network.value()));
    }
    exchange.respond(200, "text/plain; version=0.0.4; charset=utf-8", text.value());
}

}  // namespace capstan::steward
