#include "runtime/cli/debug_text.hpp"

#include "runtime/cli/text_table.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace capstan::cli {
namespace {

constexpr std::size_t kCellBytesMax = 160;

struct Column {
    const char* title;
    const char* member;
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

// A titled table of the objects in `list`; "" without any.
std::string table(const char* title,
                  const std::vector<Column>& columns,
                  const std::vector<const json::Value*>& list) {
    if (list.empty()) {
        return {};
    }
    Rows rows(1);
    for (const Column& column : columns) {
        rows.front().emplace_back(column.title);
    }
    for (const json::Value* row : list) {
        rows.emplace_back();
        for (const Column& column : columns) {
            rows.back().push_back(cell(*row, column.member));
        }
    }
    return std::string("\n") + title + "\n" + text_table(rows);
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
                  {"INSTANCE", "instance"},
                  {"PANICS", "panics"},
                  {"CALLS", "calls"},
                  {"FAILURE", "failure"}},
                 plugins);
    const json::Value controllers = gathered(plugins, "controllers", "plugin");
    out += table("CONTROLLERS (seconds)",
                 {{"CONTROLLER", "controller"},
                  {"OPEN", "open"},
                  {"WORKERS", "workers"},
                  {"BUSY", "busyWorkers"},
                  {"STUCK", "stuckWorkers"},
                  {"READY", "ready"},
                  {"DELAYED", "delayed"},
                  {"IN-FLIGHT", "inFlight"},
                  {"PARKED", "parked"},
                  {"OLDEST", "oldestReadySeconds"},
                  {"NOT-SHOWN", "keysNotShown"},
                  {"WAITS-FOR", "waitsFor"}},
                 items_of(controllers));
    const json::Value keys = gathered(items_of(controllers), "keys", "controller");
    out += table("KEYS (seconds)",
                 {{"CONTROLLER", "controller"},
                  {"KEY", "key"},
                  {"STATE", "state"},
                  {"FAILURES", "failures"},
                  {"AGE", "ageSeconds"},
                  {"NEXT-RUN", "nextRunInSeconds"},
                  {"REASONS", "reasons"},
                  {"LAST", "lastResult"},
                  {"TOOK", "lastDurationSeconds"},
                  {"BLOCKED-BY", "blockedBy"},
                  {"LAST-ERROR", "lastError"}},
                 items_of(keys));
    out += table("CACHES (seconds)",
                 {{"GVK", "gvk"},
                  {"NAMESPACE", "namespace"},
                  {"LABELS", "labelSelector"},
                  {"STATE", "state"},
                  {"SYNCED", "synced"},
                  {"OBJECTS", "objects"},
                  {"BYTES", "bytes"},
                  {"LAST-EVENT", "lastEventAgeSeconds"},
                  {"LAST-BYTES", "lastBytesAgeSeconds"},
                  {"VERSION", "resourceVersion"},
                  {"REASON", "reason"}},
                 members(page, "caches"));
    const json::Value errors = gathered(plugins, "errors", "plugin");
    out +=
        table("LAST ERRORS (seconds)",
              {{"PLUGIN", "plugin"}, {"AGE", "ageSeconds"}, {"COUNT", "count"}, {"ERROR", "error"}},
              items_of(errors));
    const json::Value* client = page.find("client");
    if (client != nullptr) {
        out += table("LAST FAILED REQUESTS (seconds)",
                     {{"AGE", "ageSeconds"}, {"COUNT", "count"}, {"REQUEST", "request"}},
                     members(*client, "failures"));
    }
    return out;
}

}  // namespace capstan::cli
