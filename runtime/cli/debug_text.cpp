#include "runtime/cli/debug_text.hpp"

#include "runtime/cli/text_table.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace capstan::cli {
namespace {

constexpr std::size_t kCellBytesMax = 160;

enum class Shown : std::uint8_t { text, number, duration };
struct Column {
    const char* title;
    const char* member;
    Shown shown{Shown::text};
};
using Rows = std::vector<std::vector<std::string>>;

std::string cell(const json::Value& row, const char* member) {
    const json::Value* found = row.find(member);
    if (found == nullptr) {
        return "-";
    }
    const std::string* string = found->if_string();
    std::string text = string != nullptr ? *string : json::dump(*found);
    if (text.empty()) {
        return "-";
    }
    // Texts of plugins and servers: one line, nothing that a terminal obeys.
    std::replace_if(
        text.begin(),
        text.end(),
        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; },
        ' ');
    if (text.size() > kCellBytesMax) {
        text.resize(kCellBytesMax);
        text += "...";
    }
    return text;
}

std::string cell(const json::Value& row, const Column& column) {
    if (const json::Value* found = row.find(column.member);
        found != nullptr && column.shown == Shown::duration) {
        if (const auto seconds = json::View(*found).as_real()) {
            return duration_text(seconds.value());
        }
    }
    return cell(row, column.member);
}

// A titled table of the objects in `list`; "" without any.
std::string table(const char* title,
                  const std::vector<Column>& columns,
                  const std::vector<const json::Value*>& list) {
    if (list.empty()) {
        return {};
    }
    Rows rows(1);
    std::set<std::size_t> right;
    for (const Column& column : columns) {
        if (column.shown != Shown::text) {
            right.insert(rows.front().size());
        }
        rows.front().emplace_back(column.title);
    }
    for (const json::Value* row : list) {
        rows.emplace_back();
        for (const Column& column : columns) {
            rows.back().push_back(cell(*row, column));
        }
    }
    return std::string("\n") + title + "\n" + text_table(rows, right);
}

std::vector<const json::Value*> members(const json::Value& parent, const char* name) {
    std::vector<const json::Value*> out;
    const json::Value* list = parent.find(name);
    const json::Array* items = list == nullptr ? nullptr : list->if_array();
    for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
        out.push_back(&(*items)[i]);
    }
    return out;
}

// The `name` lists of all `parents` with `label` of the parent in each entry.
json::Value gathered(const std::vector<const json::Value*>& parents,
                     const char* name,
                     const char* label) {
    json::Value out = json::list();
    for (const json::Value* parent : parents) {
        for (const json::Value* item : members(*parent, name)) {
            json::Value copy = *item;
            copy.set(label, cell(*parent, label));
            out.push_back(std::move(copy));
        }
    }
    return out;
}

std::vector<const json::Value*> items_of(const json::Value& list) {
    std::vector<const json::Value*> out;
    for (const json::Value& item : *list.if_array()) {
        out.push_back(&item);
    }
    return out;
}

// What went wrong last, in plugins and with the API server.
std::string failures_text(const json::Value& page, const std::vector<const json::Value*>& plugins) {
    std::string out;
    const json::Value errors = gathered(plugins, "errors", "plugin");
    out += table("LAST ERRORS",
                 {{"PLUGIN", "plugin"},
                  {"AGE", "ageSeconds", Shown::duration},
                  {"COUNT", "count", Shown::number},
                  {"ERROR", "error"}},
                 items_of(errors));
    const json::Value* client = page.find("client");
    if (client != nullptr) {
        out += table("LAST FAILED REQUESTS",
                     {{"AGE", "ageSeconds", Shown::duration},
                      {"COUNT", "count", Shown::number},
                      {"REQUEST", "request"}},
                     members(*client, "failures"));
    }
    return out;
}

}  // namespace

std::string debug_text(const json::Value& page) {
    std::string out = "capstan " + cell(page, "version") + ", ready: " + cell(page, "ready") + "\n";
    for (const json::Value* reason : members(page, "notReady")) {
        out += "  " + cell({{"reason", *reason}}, "reason") + "\n";
    }
    const auto plugins = members(page, "plugins");
    out += table("PLUGINS",
                 {{"PLUGIN", "plugin"},
                  {"VERSION", "version"},
                  {"PHASE", "phase"},
                  {"INSTANCE", "instance", Shown::number},
                  {"PANICS", "panics", Shown::number},
                  {"CALLS-NOW", "calls", Shown::number},
                  {"FAILURE", "failure"}},
                 plugins);
    const json::Value controllers = gathered(plugins, "controllers", "plugin");
    out += table("CONTROLLERS",
                 {{"CONTROLLER", "controller"},
                  {"OPEN", "open"},
                  {"WORKERS", "workers", Shown::number},
                  {"BUSY", "busyWorkers", Shown::number},
                  {"STUCK", "stuckWorkers", Shown::number},
                  {"READY", "ready", Shown::number},
                  {"DELAYED", "delayed", Shown::number},
                  {"IN-FLIGHT", "inFlight", Shown::number},
                  {"PARKED", "parked", Shown::number},
                  {"OLDEST", "oldestReadySeconds", Shown::duration},
                  {"NOT-SHOWN", "keysNotShown", Shown::number},
                  {"WAITS-FOR", "waitsFor"}},
                 items_of(controllers));
    const json::Value keys = gathered(items_of(controllers), "keys", "controller");
    out += table("KEYS",
                 {{"CONTROLLER", "controller"},
                  {"KEY", "key"},
                  {"STATE", "state"},
                  {"FAILURES", "failures", Shown::number},
                  {"AGE", "ageSeconds", Shown::duration},
                  {"NEXT-RUN", "nextRunInSeconds", Shown::duration},
                  {"REASONS", "reasons"},
                  {"LAST", "lastResult"},
                  {"TOOK", "lastDurationSeconds", Shown::duration},
                  {"BLOCKED-BY", "blockedBy"},
                  {"LAST-ERROR", "lastError"}},
                 items_of(keys));
    out += table("CACHES",
                 {{"GVK", "gvk"},
                  {"NAMESPACE", "namespace"},
                  {"LABELS", "labelSelector"},
                  {"STATE", "state"},
                  {"SYNCED", "synced"},
                  {"OBJECTS", "objects", Shown::number},
                  {"BYTES", "bytes", Shown::number},
                  {"LAST-EVENT", "lastEventAgeSeconds", Shown::duration},
                  {"LAST-BYTES", "lastBytesAgeSeconds", Shown::duration},
                  {"VERSION", "resourceVersion"},
                  {"REASON", "reason"}},
                 members(page, "caches"));
    return out + failures_text(page, plugins);
}

}  // namespace capstan::cli
