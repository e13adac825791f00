// `capstan backup verify`: what a restore would read, and with --all every object.
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

// What a restore would read.
CommandResult<RestoreReport> verify_chain(Session& session,
                                          const SnapshotListing& listing,
                                          ObservedObjects& objects) {
    CAPSTAN_TRY(const auto workspace, Workspace::make(session, session.arguments().work_directory));
    const RestoreOptions options = session.restore_options(workspace->engine_directory());
    auto report = verify(listing, objects, session.digests(), options);
    if (!report) {
        return give_up(session.failure_of(report.error(), objects));
    }
    for (const std::string& warning : report.value().warnings) {
        session.warn(warning);
    }
    return std::move(report).value();
}

// Objects that are whole are no backup yet: whether they can be restored is told after them.
CommandResult<int> verify_all(Session& session,
                              const SnapshotListing& listing,
                              ObservedObjects& objects) {
    CAPSTAN_TRY(const std::vector<Finding> findings, verify_each(session, listing, objects));
    const auto report = verify_chain(session, listing, objects);
    json::Value list = json::list();
    std::vector<std::vector<std::string>> rows{{"OBJECT", "STATE"}};
    std::size_t damaged = 0;
    for (const Finding& finding : findings) {
        damaged += finding.problem.empty() ? 0u : 1u;
        list.push_back({{"key", finding.key}, {"problem", finding.problem}});
        rows.push_back({finding.key, finding.problem.empty() ? "whole" : finding.problem});
    }
    json::Value all{{"objects", std::move(list)},
                    {"problem", report ? std::string() : report.error().message}};
    std::string text = table_text(rows);
    if (report) {
        all.set("restorable", report_json(report.value()));
        text += "\n" + report_text(report.value()) + "state:    " +
                (damaged == 0 ? "whole"
                              : "can be restored, but of all objects " + std::to_string(damaged) +
                                    (damaged == 1 ? " is" : " are") + " damaged") +
                "\n";
    }
    const int printed = session.arguments().as_json ? session.print_json(all) : session.print(text);
    if (!report) {
        return give_up(report.error());
    }
    return damaged == 0 ? printed : CAPSTAN_EXIT_DAMAGED;
}

CommandResult<int> verify_backup(Session& session) {
    CAPSTAN_TRY(const Backup backup, session.open_backup());
    StoreObjects stored(*backup.store);
    ObservedObjects objects(stored, session.progress());
    if (session.arguments().all) {
        return verify_all(session, backup.listing, objects);
    }
    CAPSTAN_TRY(const RestoreReport report, verify_chain(session, backup.listing, objects));
    return session.arguments().as_json ? session.print_json(report_json(report))
                                       : session.print(report_text(report) + "state:    whole\n");
}

}  // namespace

int run_verify(Session& session) {
    const auto done = verify_backup(session);
    return done ? done.value() : session.fail_with(done.error());
}

}  // namespace capstan::steward
