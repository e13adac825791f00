#include "plugins/steward-bridge/commands/report.hpp"

#include "plugins/steward-bridge/commands/progress.hpp"

#include <algorithm>

namespace capstan::steward {
namespace {

json::Value list_of(const std::vector<std::string>& texts) {
    json::Value list = json::list();
    for (const std::string& text : texts) {
        list.push_back(text);
    }
    return list;
}

}  // namespace

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) {
            widths[i] = std::max(widths[i], row[i].size());
        }
    }
    std::string text;
    for (const auto& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

std::string kind_text(const SnapshotRecord& record) {
    return record.kind == SnapshotKind::full ? "full" : "delta";
}

std::string revisions_text(const SnapshotRecord& record) {
    return (record.kind == SnapshotKind::full ? "" : std::to_string(record.start_revision) + "-") +
           std::to_string(record.last_revision);
}

json::Value snapshot_json(const SnapshotRecord& record) {
    json::Value value = to_json(record);
    value.set("key", record.key());
    value.set("sizeBytes", record.bytes);
    return value;
}

json::Value report_json(const RestoreReport& report) {
    return {{"history", report.history},
            {"full", report.full},
            {"deltas", list_of(report.deltas)},
            {"baseRevision", report.base_revision},
            {"revision", report.revision},
            {"compactedTo", report.compacted_to},
            {"databaseBytes", report.database_bytes},
            {"baseEntries", report.counts.base_entries},
            {"events", report.counts.events},
            {"eventsKnown", report.counts.events_known},
            {"leases", report.counts.leases},
            {"leasesUnknown", report.counts.leases_unknown},
            {"warnings", list_of(report.warnings)}};
}

std::string report_text(const RestoreReport& report) {
    std::string text = "revision: " + std::to_string(report.revision) +
                       "\nfull:     " + report.full + ", up to " +
                       std::to_string(report.base_revision) +
                       "\ndeltas:   " + std::to_string(report.deltas.size()) + ", " +
                       std::to_string(report.counts.events) + " events\n";
    if (!report.history.empty()) {
        text += "history:  " + report.history + "\n";
    }
    if (report.database_bytes > 0) {
        text += "database: " + size_text(report.database_bytes) + "\n";
    }
    if (report.counts.leases > 0 || report.counts.leases_unknown > 0) {
        text += "leases:   " + std::to_string(report.counts.leases) + " of deltas, " +
                std::to_string(report.counts.leases_unknown) +
                " keys whose lease no delta describes: they do not expire\n";
    }
    return text;
}

}  // namespace capstan::steward
