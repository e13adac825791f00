#include "runtime/local/node/container_record.hpp"

#include <charconv>

namespace capstan::local {
namespace {

json::Value to_json(const Termination& end) {
    json::Value out = {
        {"reason", end.reason},
        {"message", end.message},
        {"startedAt", to_rfc3339_micro(end.started)},
        {"finishedAt", to_rfc3339_micro(end.finished)},
        {"planned", end.planned},
    };
    if (end.code) {
        out.set("exitCode", *end.code);
    }
    return out;
}

WallTime time_of(const json::View& view) {
    return parse_rfc3339(view.string_or("")).value_or(WallTime{});
}

std::optional<Termination> termination_of(const json::View& view) {
    if (!view.present()) {
        return std::nullopt;
    }
    Termination end;
    if (view["exitCode"].present()) {
        end.code = static_cast<int>(view["exitCode"].int_or(0));
    }
    end.reason = view["reason"].string_or("");
    end.message = view["message"].string_or("");
    end.started = time_of(view["startedAt"]);
    end.finished = time_of(view["finishedAt"]);
    end.planned = view["planned"].bool_or(false);
    return end;
}

}  // namespace

json::Value to_json(const ContainerRecord& record) {
    json::Value out = {
        {"attempt", record.attempt},
        {"failures", record.failures},
        {"pid", record.process.pid},
        {"startTicks", std::to_string(record.process.start_ticks)},  // text: 64 bits unsigned
        {"bootID", record.process.boot_id},
        {"startedAt", to_rfc3339_micro(record.started)},
    };
    if (record.ended) {
        out.set("ended", to_json(*record.ended));
    }
    if (record.previous) {
        out.set("previous", to_json(*record.previous));
    }
    return out;
}

Result<ContainerRecord> container_record_from_json(const json::Value& value) {
    const json::View view(value);
    ContainerRecord record;
    CAPSTAN_TRY(auto attempt, view["attempt"].as_int());
    CAPSTAN_TRY(auto pid, view["pid"].as_int());
    CAPSTAN_TRY(auto ticks, view["startTicks"].as_string());
    const auto parsed =
        std::from_chars(ticks.data(), ticks.data() + ticks.size(), record.process.start_ticks);
    if (parsed.ec != std::errc{} || parsed.ptr != ticks.data() + ticks.size()) {
        return fail(view["startTicks"].error("not a number"));
    }
    record.attempt = static_cast<int>(attempt);
    record.failures = static_cast<int>(view["failures"].int_or(0));
    record.process.pid = static_cast<pid_t>(pid);
    record.process.boot_id = view["bootID"].string_or("");
    record.started = time_of(view["startedAt"]);
    record.ended = termination_of(view["ended"]);
    record.previous = termination_of(view["previous"]);
    return record;
}

}  // namespace capstan::local
