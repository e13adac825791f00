// What commands print: tables for people, JSON for programs. Pure. Thread: any.
#pragma once

#include "plugins/steward-bridge/restore/restoration.hpp"
#include "plugins/steward-bridge/snapshot/chain.hpp"
#include "plugins/steward-bridge/snapshot/record.hpp"

#include "capstan/json.hpp"

#include <string>
#include <vector>

namespace capstan::steward {

// Columns as wide as their widest cell, two spaces between; ends with a newline.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

std::string kind_text(const SnapshotRecord& record);       // "full", "delta"
std::string revisions_text(const SnapshotRecord& record);  // "1-20"; of a full "20"

// The record as the HTTP API shows it, with "key" and "sizeBytes".
json::Value snapshot_json(const SnapshotRecord& record);

// What a chain that was read holds; for people, one fact a line.
json::Value report_json(const RestoreReport& report);
std::string report_text(const RestoreReport& report);

}  // namespace capstan::steward
