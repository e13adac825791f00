// `capstan backup list` and `explain`: what names alone tell.
#include "plugins/steward-bridge/commands/outlook.hpp"
#include "plugins/steward-bridge/commands/report.hpp"
#include "plugins/steward-bridge/commands/session.hpp"
#include "plugins/steward-bridge/snapshot/histories.hpp"

#include <algorithm>

namespace capstan::steward {
namespace {

json::Value histories_json(const std::vector<StoredHistory>& histories) {
    json::Value list = json::list();
    for (const StoredHistory& history : histories) {
        list.push_back(
            {{"name", history.name},
             {"since", history.since ? json::Value(to_rfc3339(*history.since)) : nullptr},
             {"until", history.until ? json::Value(to_rfc3339(*history.until)) : nullptr},
             {"endRevision", history.end}});
    }
    return list;
}

json::Value listing_json(const Session& session,
                         const SnapshotListing& listing,
                         const Outlook& outlook) {
    const std::vector<StoredHistory> histories = histories_of(listing);
    json::Value snapshots = json::list(), parts = json::list(), skipped = json::list();
    for (const SnapshotRecord& record : listing.snapshots) {
        json::Value value = snapshot_json(record);
        value.set("history", histories[history_index(listing, record.created)].name);
        snapshots.push_back(std::move(value));
    }
    for (const SnapshotRecord& record : listing.parts) {
        parts.push_back(snapshot_json(record));
    }
    for (const SkippedKey& each : listing.skipped) {
        skipped.push_back({{"key", each.key}, {"reason", each.reason}});
    }
    json::Value restorable = nullptr;
    if (outlook.chain) {
        restorable = json::Value{{"revision", outlook.chain->reaches},
                                 {"full", outlook.chain->full.key()},
                                 {"deltas", outlook.chain->deltas.size()}};
    }
    return {{"prefix", session.arguments().store.prefix},
            {"snapshots", std::move(snapshots)},
            {"histories", histories_json(histories)},
            {"parts", std::move(parts)},
            {"skipped", std::move(skipped)},
            {"fences", listing.fences.size()},
            {"restorable", std::move(restorable)},
            {"problem", outlook.problem}};
}

void add_rows(const StoredHistory& history, std::vector<std::vector<std::string>>& rows) {
    for (const SnapshotRecord& record : history.listing.snapshots) {
        rows.push_back({kind_text(record),
                        revisions_text(record),
                        to_rfc3339(record.created),
                        size_text(record.bytes),
                        record.final ? "yes" : "",
                        record.key()});
    }
}

const std::vector<std::string> kColumns{"KIND", "REVISIONS", "CREATED", "SIZE", "FINAL", "OBJECT"};

// The histories that a rollback ended, each by itself.
std::string earlier_text(const SnapshotListing& listing,
                         const std::vector<StoredHistory>& histories) {
    std::string text;
    for (std::size_t i = 0; i + 1 < histories.size(); ++i) {
        const StoredHistory& history = histories[i];
        if (history.listing.snapshots.empty()) {
            continue;
        }
        std::vector<std::vector<std::string>> rows{kColumns};
        add_rows(history, rows);
        HistoryWish wish;
        wish.history = history.name;
        const Outlook outlook = outlook_of(listing, wish);
        text += "History " + history.name + ", until the cluster was set back at " +
                to_rfc3339(*history.until) + ":\n" + table_text(rows) + "\n" +
                (outlook.chain
                     ? "With --history " + history.name + " it can be restored up to revision " +
                           std::to_string(outlook.chain->reaches) + "."
                     : "It cannot all be restored: " + outlook.problem + ".") +
                "\n\n";
    }
    return text;
}

std::string listing_text(const SnapshotListing& listing, const Outlook& outlook) {
    const std::vector<StoredHistory> histories = histories_of(listing);
    std::vector<std::vector<std::string>> rows{kColumns};
    add_rows(histories.back(), rows);
    std::string text = earlier_text(listing, histories);
    if (histories.size() > 1) {
        text += "History " + histories.back().name + ", the present one:\n";
    }
    text += table_text(rows) + "\n";
    if (outlook.chain) {
        text += "By their names they can be restored up to revision " +
                std::to_string(outlook.chain->reaches) + ": " + outlook.chain->full.key() +
                " and " + std::to_string(outlook.chain->deltas.size()) +
                " deltas. `capstan backup verify` reads them.\n";
    } else {
        text += "They cannot all be restored: " + outlook.problem + ".\n";
    }
    return text;
}

void tell_of_others(Session& session, const SnapshotListing& listing) {
    for (const SkippedKey& skipped : listing.skipped) {
        session.complain("passed over: " + skipped.key + ": " + skipped.reason);
    }
    if (!listing.parts.empty()) {
        session.complain("passed over: " + std::to_string(listing.parts.size()) +
                         " parts of uploads, which are no snapshots, the first of them " +
                         listing.parts.front().key());
    }
}

CommandResult<int> list_backup(Session& session) {
    CAPSTAN_TRY(const Backup backup, session.open_backup());
    const Outlook outlook = outlook_of(backup.listing, {});
    if (session.arguments().as_json) {
        return session.print_json(listing_json(session, backup.listing, outlook));
    }
    tell_of_others(session, backup.listing);
    return session.print(listing_text(backup.listing, outlook));
}

// As if everything that is listed had been stored, so that leftovers of uploads are judged too.
RetentionOptions retention_of(const BackupArguments& arguments, const SnapshotListing& listing) {
    RetentionOptions options = arguments.retention;
    options.stored_revision =
        listing.snapshots.empty() ? 0 : listing.snapshots.back().last_revision;
    return options;
}

CommandResult<int> explain_backup(Session& session) {
    CAPSTAN_TRY(const Backup backup, session.open_backup());
    const RetentionOptions options = retention_of(session.arguments(), backup.listing);
    const WallTime now = session.arguments().at.value_or(session.now());
    std::vector<std::vector<std::string>> rows{{"DO", "RULE", "CREATED", "OBJECT", "BECAUSE"}};
    json::Value objects = json::list();
    const auto add = [&](const std::string& key,
                         const std::string& created,
                         bool keep,
                         std::string_view rule,
                         const std::string& reason) {
        const std::string what = keep ? "keep" : "delete";
        rows.push_back({what, std::string(rule), created, key, reason});
        objects.push_back({{"key", key}, {"do", what}, {"rule", rule}, {"reason", reason}});
    };
    for (const RetentionVerdict& verdict : decide_retention(backup.listing, now, options)) {
        add(verdict.record->key(),
            to_rfc3339(verdict.record->created),
            verdict.keep,
            verdict.rule,
            verdict.reason);
    }
    for (const Fence& fence : fences_to_delete(backup.listing)) {
        add(fence.key, "", false, "fence", "a newer full covers the delta it kept apart");
    }
    const std::vector<HistoryMark> superfluous = marks_to_delete(backup.listing);
    for (const HistoryMark& mark : backup.listing.marks) {
        const bool keep =
            std::none_of(superfluous.begin(), superfluous.end(), [&](const HistoryMark& each) {
                return each.key == mark.key;
            });
        add(mark.key,
            to_rfc3339(mark.since),
            keep,
            "history",
            keep ? "a history begins with it" : "nothing of the histories before it is left");
    }
    for (const SkippedKey& skipped : backup.listing.skipped) {
        add(skipped.key, "", true, "foreign", "it is no snapshot: " + skipped.reason);
    }
    return session.arguments().as_json
               ? session.print_json({{"at", to_rfc3339(now)}, {"objects", std::move(objects)}})
               : session.print(table_text(rows));
}

}  // namespace

int run_list(Session& session) {
    const auto done = list_backup(session);
    return done ? done.value() : session.fail_with(done.error());
}

int run_explain(Session& session) {
    const auto done = explain_backup(session);
    return done ? done.value() : session.fail_with(done.error());
}

}  // namespace capstan::steward
