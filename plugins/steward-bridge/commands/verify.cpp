// `capstan backup verify`: what a restore would read, or with --all every object.
#include "plugins/steward-bridge/commands/report.hpp"
#include "plugins/steward-bridge/commands/session.hpp"
#include "plugins/steward-bridge/restore/store_objects.hpp"
#include "plugins/steward-bridge/snapshot/payload.hpp"

namespace capstan::steward {
namespace {

struct Finding {
    std::string key;
    std::string problem;  // empty: it is whole
};

// Each object by itself. Failures: the store.
CommandResult<std::vector<Finding>> verify_each(Session& session,
                                                const SnapshotListing& listing,
                                                ObservedObjects& objects) {
    std::vector<Finding> findings;
    for (const SnapshotRecord& record : listing.snapshots) {
        if (session.cancelled()) {
            return give_up(CAPSTAN_EXIT_FAILED, "interrupted");
        }
        auto source = objects.open(record);
        const auto verified =
            source ? verify_snapshot(std::move(source).value(), record, session.digests())
                   : Result<VerifiedSnapshot>(fail(source.error()));
        if (!verified && verified.error().code != Code::invalid) {
            return give_up(exit_code_of_store(verified.error().code), verified.error().message);
        }
        findings.push_back({record.key(), verified ? "" : verified.error().message});
    }
    return findings;
}

CommandResult<int> verify_all(Session& session,
                              const SnapshotListing& listing,
                              ObservedObjects& objects) {
    CAPSTAN_TRY(const std::vector<Finding> findings, verify_each(session, listing, objects));
    json::Value list = json::list();
    std::vector<std::vector<std::string>> rows{{"OBJECT", "STATE"}};
    bool whole = true;
    for (const Finding& finding : findings) {
        whole = whole && finding.problem.empty();
        list.push_back({{"key", finding.key}, {"problem", finding.problem}});
        rows.push_back({finding.key, finding.problem.empty() ? "whole" : finding.problem});
    }
    const int printed = session.arguments().as_json
                            ? session.print_json({{"objects", std::move(list)}})
                            : session.print(table_text(rows));
    return whole ? printed : CAPSTAN_EXIT_DAMAGED;
}

CommandResult<int> verify_backup(Session& session) {
    CAPSTAN_TRY(const Backup backup, session.open_backup());
    StoreObjects stored(*backup.store);
    ObservedObjects objects(stored, session.progress());
    if (session.arguments().all) {
        return verify_all(session, backup.listing, objects);
    }
    CAPSTAN_TRY(const auto workspace, Workspace::make(session, session.arguments().work_directory));
    const RestoreOptions options = session.restore_options(workspace->engine_directory());
    const auto report = verify(backup.listing, objects, session.digests(), options);
    if (!report) {
        return give_up(session.failure_of(report.error(), objects));
    }
    for (const std::string& warning : report.value().warnings) {
        session.warn(warning);
    }
    return session.arguments().as_json
               ? session.print_json(report_json(report.value()))
               : session.print(report_text(report.value()) + "state:    whole\n");
}

}  // namespace

int run_verify(Session& session) {
    const auto done = verify_backup(session);
    return done ? done.value() : session.fail_with(done.error());
}

}  // namespace capstan::steward
