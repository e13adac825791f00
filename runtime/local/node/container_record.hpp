// What is kept on disk about one container: enough to find its process again and to go on counting.
//
// Value with a JSON form. Thread: any.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "runtime/local/node/process.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace capstan::local {

struct Termination {
    std::optional<int> code;  // nullopt: unknown, counts as a failure
    std::string reason;       // "Completed", "Error", "Unknown", "StartError"
    std::string message;
    WallTime started{};
    WallTime finished{};
    // the node was told to stop everything: the container is simply to start again
    bool planned{false};

    bool succeeded() const noexcept { return code == 0; }
};

struct ContainerRecord {
    int attempt{-1};  // of the newest start; -1: never started. Equals restartCount once started
    int failures{0};  // consecutive short runs, for the back-off
    ProcessIdentity process;
    WallTime started{};
    std::optional<Termination> ended;     // of `attempt`; absent: running, as far as we know
    std::optional<Termination> previous;  // of the attempt before
};

json::Value to_json(const ContainerRecord& record);
Result<ContainerRecord> container_record_from_json(const json::Value& value);  // Errors: invalid

}  // namespace capstan::local
