// Opening a watch: where it starts, what it sends first.
#include "runtime/local/apiserver/server_state.hpp"

#include <charconv>
#include <optional>

namespace capstan::local {
namespace {

// the server picks [1, 2) times this when not told
constexpr std::uint64_t kWatchSecondsMin = 1800;
constexpr std::uint64_t kWatchSecondsMax = 86'400 * 7;

enum class Start : std::uint8_t { after_version, synthetic, initial_events };

struct WatchRequest {
    Start start{Start::synthetic};
    std::uint64_t revision{0};  // after_version: position; else at least this
    bool end_bookmark{false};
};

StatusError invalid_watch(std::string_view field, std::string message) {
    return invalid("meta.k8s.io",
                   "ListOptions",
                   "",
                   {{"FieldValueForbidden", std::move(message), std::string(field)}});
}

Answer<WatchRequest> watch_request(const RequestInfo& info) {
    WatchRequest request;
    const std::string_view version = info.parameter("resourceVersion");
    const std::string_view match = info.parameter("resourceVersionMatch");
    const std::string_view initial = info.parameter("sendInitialEvents");
    const bool bookmarks =
        info.flag("allowWatchBookmarks") && !info.parameter("allowWatchBookmarks").empty();
    if (initial.empty() && !match.empty()) {
        return refuse(invalid_watch(
            "resourceVersionMatch",
            "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
            "provided"));
    }
    if (!initial.empty() && match != "NotOlderThan") {
        return refuse(invalid_watch(
            "resourceVersionMatch",
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
    }
    if (!version.empty() && version != "0") {
        const auto [end, error] =
            std::from_chars(version.data(), version.data() + version.size(), request.revision);
        if (error != std::errc{} || end != version.data() + version.size()) {
            return refuse(
                bad_request("resourceVersion: Invalid value: \"" + std::string(version) + "\""));
        }
    }
    if (initial == "true") {
        request.start = Start::initial_events;
        request.end_bookmark = bookmarks;
    } else if (request.revision > 0) {
        request.start = Start::after_version;
    } else if (initial == "false") {
        request.start = Start::after_version;  // from now on
    }
    return request;
}

StatusError too_many_watches() {
    StatusError error;
    error.code = 429;
    error.reason = "TooManyRequests";
    error.message = "Too many watches, please try again later.";
    error.retry_after_s = 5;
    return error;
}

StatusError too_large_version(std::uint64_t wanted, std::uint64_t now) {
    StatusError error;
    error.code = 504;
    error.reason = "Timeout";
    error.message = "Timeout: Too large resource version: " + std::to_string(wanted) +
                    ", current: " + std::to_string(now);
    error.retry_after_s = 1;
    error.causes.push_back({"ResourceVersionTooLarge", "Too large resource version", {}});
    return error;
}

}  // namespace

Answer<std::unique_ptr<WatchHandle>> ApiServer::State::watch(Call& call, WatchSink sink) {
    if (hub.watches() >= kWatchesMax) {
        return refuse(too_many_watches());
    }
    CAPSTAN_TRY(WatchRequest request, watch_request(call.info));
    WatchOptions watch;
    watch.kind = call.kind;
    CAPSTAN_TRY(watch.selection, selection(call));
    if (!call.info.name.empty()) {
        return refuse(bad_request("watch one object by fieldSelector=metadata.name"));
    }
    watch.as = call.render.as;
    watch.include = call.render.include;
    watch.bookmarks = call.info.flag("allowWatchBookmarks");
    std::uint64_t seconds = kWatchSecondsMin + generator.next() % kWatchSecondsMin;
    if (const std::string_view text = call.info.parameter("timeoutSeconds"); !text.empty()) {
        std::uint64_t wanted = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), wanted);
        if (error != std::errc{} || end != text.data() + text.size()) {
            return refuse(
                bad_request("timeoutSeconds: not a number: \"" + std::string(text) + "\""));
        }
        seconds = wanted == 0 ? seconds : std::min(wanted, kWatchSecondsMax);
    }
    watch.deadline = clock.now() + std::chrono::seconds(seconds);

    const std::uint64_t now = store.revision();
    if (request.revision > now) {
        return refuse(too_large_version(request.revision, now));
    }
    if (request.start == Start::after_version) {
        const std::uint64_t from = request.revision == 0 ? now : request.revision;
        if (from < hub.oldest(call.kind->storage)) {
            StatusError gone = expired("too old resource version: " + std::to_string(from) + " (" +
                                       std::to_string(hub.oldest(call.kind->storage)) + ")");
            if (!options.expired_in_stream) {
                return refuse(std::move(gone));
            }
            sink.on_lines("{\"type\":\"ERROR\",\"object\":" + json::dump(to_json(gone)) + "}\n");
            if (sink.on_end) {
                sink.on_end();
            }
            return std::make_unique<WatchHandle>();
        }
        return hub.add(std::move(watch), std::move(sink), from);
    }
    std::string lines;
    const std::string prefix =
        watch.selection.ns.empty() ? std::string() : watch.selection.ns + "/";
    const Store::Objects& objects = store.objects(call.kind->storage);
    for (auto it = objects.lower_bound(prefix);
         it != objects.end() && it->first.starts_with(prefix);
         ++it) {
        if (watch.selection.matches(it->first, it->second->value)) {
            lines += hub.event_line("ADDED", *it->second, watch);
        }
    }
    if (request.end_bookmark) {
        lines += hub.bookmark_line(watch, now, true);
    }
    if (!lines.empty()) {
        sink.on_lines(lines);
    }
    return hub.add(std::move(watch), std::move(sink), now);
}

}  // namespace capstan::local
