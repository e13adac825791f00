// `capstan backup restore`: a data directory out of a backup.
#include "plugins/steward-bridge/bolt/new_file.hpp"
#include "plugins/steward-bridge/commands/report.hpp"
#include "plugins/steward-bridge/commands/session.hpp"
#include "plugins/steward-bridge/data/data_directory.hpp"
#include "plugins/steward-bridge/data/data_owner.hpp"
#include "plugins/steward-bridge/restore/store_objects.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>

namespace capstan::steward {
namespace {

namespace fs = std::filesystem;

std::string without_slashes(const std::string& path) {
    return path.substr(0, path.find_last_not_of('/') + 1);
}

// Whoever has it open would go on writing under another name, and lose that.
CommandResult<void> check_unused(const std::string& directory) {
    const auto in_use = is_in_use(directory);
    if (!in_use) {
        return give_up(CAPSTAN_EXIT_FAILED, in_use.error().message);
    }
    if (in_use.value()) {
        return give_up(CAPSTAN_EXIT_USAGE,
                       "an etcd has the database in " + directory + " open; stop it first");
    }
    return ok();
}

// Failures: there is no place for it, or it is in use and nobody said what becomes of it.
CommandResult<bool> must_move_aside(const Session& session, const std::string& directory) {
    std::error_code error;
    const fs::path parent = fs::path(directory).parent_path();
    if (!parent.empty() && !fs::is_directory(parent, error)) {
        return give_up(CAPSTAN_EXIT_USAGE, parent.string() + " is no directory; make it first");
    }
    if (!fs::exists(directory, error)) {
        return false;
    }
    if (!fs::is_directory(directory, error)) {
        return give_up(CAPSTAN_EXIT_USAGE, directory + " is no directory");
    }
    if (fs::is_empty(directory, error) || error) {
        return error ? CommandResult<bool>(
                           give_up(CAPSTAN_EXIT_FAILED, directory + ": " + error.message()))
                     : CommandResult<bool>(false);
    }
    if (!session.arguments().force) {
        return give_up(CAPSTAN_EXIT_USAGE,
                       directory +
                           " is not empty; stop its etcd and move it aside, or let --force do the "
                           "moving");
    }
    CAPSTAN_TRY(check_unused(directory));
    return true;
}

// The place stays that member's, although its ids may be others than those of before: it was
// replaced once, or --initial-cluster-token is new.
CommandResult<void> take_note_along(const std::string& directory, const std::string& made) {
    const auto notes = read_owner_notes(directory);
    const std::string note = notes ? notes.value().note : std::string();
    const std::size_t slash = std::min(note.find('/'), note.size());
    const auto noted =
        !notes ? Result<void>(notes.error())
        : slash == note.size()
            ? Result<void>(ok())
            : write_owner_notes(made, {note.substr(0, slash), note.substr(slash + 1)});
    return noted ? CommandResult<void>(boost::outcome_v2::success())
                 : CommandResult<void>(give_up(CAPSTAN_EXIT_FAILED, noted.error().message));
}

// Puts `made` where `directory` is; what was there is found under the name returned.
CommandResult<std::string> exchange(Session& session,
                                    const std::string& made,
                                    const std::string& directory) {
    const auto now = session.now().time_since_epoch();
    const std::string aside =
        directory + ".before-" +
        std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now).count());
    std::error_code error;
    if (fs::exists(aside, error)) {
        return give_up(CAPSTAN_EXIT_FAILED, aside + " is there already");
    }
    fs::rename(directory, aside, error);
    if (!error) {
        fs::rename(made, directory, error);
        if (error) {
            std::error_code ignored;
            fs::rename(aside, directory, ignored);
        }
    }
    if (error) {
        return give_up(
            CAPSTAN_EXIT_FAILED,
            "cannot put " + made + " in the place of " + directory + ": " + error.message());
    }
    const fs::path parent = fs::path(directory).parent_path();
    const auto synced = bolt::sync_directory(parent.empty() ? "." : parent.string());
    return synced
               ? CommandResult<std::string>(aside)
               : CommandResult<std::string>(give_up(CAPSTAN_EXIT_FAILED, synced.error().message));
}

CommandResult<RestoreReport> restore_to(Session& session,
                                        const Backup& backup,
                                        const NewCluster& cluster,
                                        const std::string& directory) {
    StoreObjects stored(*backup.store);
    ObservedObjects objects(stored, session.progress());
    const fs::path parent = fs::path(directory).parent_path();
    const std::string& chosen = session.arguments().work_directory;
    CAPSTAN_TRY(const auto workspace,
                Workspace::make(session,
                                !chosen.empty()  ? chosen
                                : parent.empty() ? "."
                                                 : parent.string()));
    RestoreOptions options = session.restore_options(workspace->engine_directory());
    options.quota_bytes = session.arguments().quota_bytes;
    auto report = restore(backup.listing, objects, session.digests(), cluster, directory, options);
    if (!report) {
        return give_up(session.failure_of(report.error(), objects));
    }
    return std::move(report).value();
}

CommandResult<int> restore_backup(Session& session) {
    const BackupArguments& arguments = session.arguments();
    const auto cluster = make_cluster(arguments.name, arguments.initial_cluster, arguments.token);
    if (!cluster) {
        return give_up(CAPSTAN_EXIT_USAGE, cluster.error().message);
    }
    const std::string directory = without_slashes(arguments.data_directory);
    if (directory.empty()) {
        return give_up(CAPSTAN_EXIT_USAGE,
                       "\"" + arguments.data_directory + "\" cannot be a data directory");
    }
    CAPSTAN_TRY(const bool in_use, must_move_aside(session, directory));
    CAPSTAN_TRY(const Backup backup, session.open_backup());
    const std::string made = in_use ? directory + ".restored" : directory;
    CAPSTAN_TRY(const RestoreReport report, restore_to(session, backup, cluster.value(), made));
    std::string aside;
    if (in_use) {
        CAPSTAN_TRY(check_unused(directory));  // reading the backup took a while
        CAPSTAN_TRY(take_note_along(directory, made));
        CAPSTAN_TRY(aside, exchange(session, made, directory));
    }
    for (const std::string& warning : report.warnings) {
        session.warn(warning);
    }
    if (arguments.as_json) {
        json::Value out = report_json(report);
        out.set("dataDirectory", directory);
        out.set("movedAside", aside);
        return session.print_json(out);
    }
    return session.print(report_text(report) + "data:     " + directory +
                         (aside.empty() ? "\n" : "; what was there is " + aside + "\n") +
                         "etcd:     --name " + arguments.name + " --initial-cluster " +
                         arguments.initial_cluster + " --initial-cluster-token " + arguments.token +
                         " --data-dir " + directory + "\n");
}

}  // namespace

int run_restore(Session& session) {
    const auto done = restore_backup(session);
    return done ? done.value() : session.fail_with(done.error());
}

}  // namespace capstan::steward
