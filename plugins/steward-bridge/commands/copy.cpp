// `capstan backup copy`: the objects of one prefix under another, or in another store.
#include "plugins/steward-bridge/commands/copier.hpp"
#include "plugins/steward-bridge/commands/outlook.hpp"
#include "plugins/steward-bridge/commands/report.hpp"
#include "plugins/steward-bridge/commands/session.hpp"
#include "plugins/steward-bridge/restore/store_objects.hpp"
#include "plugins/steward-bridge/snapshot/histories.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

namespace capstan::steward {
namespace {

enum class Fate { copied, there_already, would_be_copied, damaged };

struct Copied {
    std::string from, to;
    Fate fate{Fate::copied};
    std::string problem;  // what is damaged
};

std::string_view text_of(Fate fate) {
    switch (fate) {
        case Fate::copied: return "copied";
        case Fate::there_already: return "there already";
        case Fate::damaged: return "damaged, not copied";
        default: return "would be copied";
    }
}

// Set by set, the newest first, the present history before earlier ones; in a set the full comes
// first and the deltas in order, so what an interruption leaves can be restored.
std::vector<SnapshotRecord> in_order(const SnapshotListing& listing, std::int64_t fulls_max) {
    std::vector<SnapshotRecord> order;
    std::int64_t fulls = 0;
    const std::vector<StoredHistory> histories = histories_of(listing);
    for (auto history = histories.rbegin(); history != histories.rend(); ++history) {
        const std::vector<SnapshotRecord>& snapshots = history->listing.snapshots;
        std::size_t end = snapshots.size();
        for (std::size_t i = snapshots.size(); i-- > 0;) {
            const bool is_full = snapshots[i].kind == SnapshotKind::full;
            if (!is_full && i != 0) {
                continue;
            }
            order.insert(order.end(),
                         snapshots.begin() + static_cast<std::ptrdiff_t>(i),
                         snapshots.begin() + static_cast<std::ptrdiff_t>(end));
            end = i;
            fulls += is_full ? 1 : 0;
            if (fulls_max > 0 && fulls == fulls_max) {
                return order;
            }
        }
    }
    return order;
}

std::string target_key(const SnapshotRecord& record, const std::string& prefix) {
    return (prefix.empty() ? "" : prefix + "/") +
           (record.dir.empty() ? "v2/" : "v1/" + record.dir + "/") + name_of_copy(record);
}

// What the target has of this prefix, by the part of the key below it.
std::map<std::string, std::uint64_t> sizes_of(const SnapshotListing& listing) {
    std::map<std::string, std::uint64_t> sizes;
    for (const SnapshotRecord& record : listing.snapshots) {
        sizes[record.dir + "/" + name_of_copy(record)] = record.bytes;
    }
    return sizes;
}

int print_result(Session& session, const std::vector<Copied>& done) {
    json::Value objects = json::list();
    std::vector<std::vector<std::string>> rows{{"STATE", "OBJECT", "TO"}};
    for (const Copied& each : done) {
        objects.push_back({{"from", each.from},
                           {"to", each.to},
                           {"state", text_of(each.fate)},
                           {"problem", each.problem}});
        rows.push_back({std::string(text_of(each.fate)), each.from, each.to});
    }
    return session.arguments().as_json ? session.print_json({{"objects", std::move(objects)}})
                                       : session.print(table_text(rows));
}

// A target of which only container and prefix are given is where the source is.
StoreArguments target_of(const BackupArguments& arguments) {
    StoreArguments to = arguments.to;
    if (to.provider.empty() && to.endpoint.empty() && to.region.empty() && to.ca_file.empty() &&
        !to.path_style) {
        to = arguments.store;
        to.container = arguments.to.container;
        to.prefix = arguments.to.prefix;
    } else if (to.provider.empty()) {
        to.provider = arguments.store.provider;
    }
    return to;
}

// A directory that a copy would make: a dry run makes none, and takes it as empty.
bool would_be_made(const StoreArguments& to) {
    const auto provider = canonical_provider(to.provider);
    std::error_code error;
    if (!provider || provider.value() != "Local" ||
        std::filesystem::symlink_status(to.container, error).type() !=
            std::filesystem::file_type::not_found) {
        return false;
    }
    std::filesystem::path above = std::filesystem::absolute(to.container, error);
    while (std::filesystem::symlink_status(above, error).type() ==
               std::filesystem::file_type::not_found &&
           above.has_relative_path()) {
        above = above.parent_path();
    }
    return std::filesystem::is_directory(above, error);
}

// The source's own variables, where they are set.
StoreRole source_role(Session& session) {
    const bool own =
        session.command().environment("SOURCE_AWS_APPLICATION_CREDENTIALS").has_value() ||
        session.command().environment("SOURCE_AWS_APPLICATION_CREDENTIALS_JSON").has_value();
    return own ? StoreRole::source : StoreRole::primary;
}

// What tells histories apart, before anything of them.
CommandResult<std::vector<Copied>> copy_marks(Session& session,
                                              const Backup& source,
                                              ObjectStore* target,
                                              const SnapshotListing& present,
                                              const std::string& prefix) {
    std::vector<Copied> done;
    for (const HistoryMark& mark : source.listing.marks) {
        Copied each{mark.key, history_key(prefix, mark.revision, mark.since), Fate::copied};
        const bool there =
            std::any_of(present.marks.begin(), present.marks.end(), [&](const HistoryMark& other) {
                return other.name() == mark.name();
            });
        if (there || session.arguments().dry_run) {
            each.fate = there ? Fate::there_already : Fate::would_be_copied;
        } else {
            const auto text = read_object(*source.store, {mark.key}, kFenceBytesMax);
            const auto copied = text ? target->put_if_absent(each.to, text.value()) : text;
            if (!copied) {
                return give_up(exit_code_of_store(copied.error().code),
                               "copy " + mark.key + ": " + copied.error().message);
            }
        }
        done.push_back(std::move(each));
    }
    return done;
}

// `target`: nullptr in a dry run into a directory that is not there, with nothing `present`.
CommandResult<std::vector<Copied>> copy_all(Session& session,
                                            const Backup& source,
                                            ObjectStore* target,
                                            const SnapshotListing& present,
                                            const std::string& prefix) {
    const BackupArguments& arguments = session.arguments();
    const auto sizes = sizes_of(present);
    CAPSTAN_TRY(std::vector<Copied> done, copy_marks(session, source, target, present, prefix));
    for (const SnapshotRecord& record : in_order(source.listing, arguments.max_backups)) {
        Copied each{record.key(), target_key(record, prefix), Fate::copied, ""};
        const auto known = sizes.find(record.dir + "/" + name_of_copy(record));
        if (known != sizes.end() && known->second != record.bytes) {
            return give_up(CAPSTAN_EXIT_DAMAGED,
                           each.to + " is in " + target->describe() + " already, with " +
                               std::to_string(known->second) + " bytes instead of " +
                               std::to_string(record.bytes) +
                               "; find out which of the two is right and remove the other");
        }
        if (known != sizes.end()) {
            each.fate = Fate::there_already;
        } else if (arguments.dry_run) {
            each.fate = Fate::would_be_copied;
        } else {
            Copier copier(session, *source.store, *target);
            CAPSTAN_TRY(each.problem, copier.copy_one(record, each.to));
        }
        if (!each.problem.empty() && !arguments.accept_damaged) {
            each.fate = Fate::damaged;
        }
        done.push_back(std::move(each));
    }
    return done;
}

// Exit code and words: a copy is good when what was copied can be restored.
CommandResult<int> conclude(Session& session,
                            const SnapshotListing& source,
                            const std::vector<Copied>& done) {
    std::size_t damaged = 0;
    for (const Copied& each : done) {
        if (!each.problem.empty()) {
            ++damaged;
            each.fate == Fate::damaged ? session.complain("not copied: " + each.problem)
                                       : session.warn(each.problem);
        }
    }
    const int printed = print_result(session, done);
    const std::string problem = outlook_of(source, {}).problem;
    if (session.arguments().accept_damaged) {
        if (!problem.empty()) {
            session.warn("the backup cannot all be restored: " + problem);
        }
        return printed;
    }
    if (!problem.empty()) {
        return give_up(CAPSTAN_EXIT_DAMAGED, "the backup cannot all be restored: " + problem);
    }
    if (damaged > 0) {
        return give_up(CAPSTAN_EXIT_DAMAGED,
                       std::to_string(damaged) +
                           (damaged == 1 ? " object is damaged and was not copied; "
                                         : " objects are damaged and were not copied; ") +
                           "--accept-damaged copies what is damaged as it is");
    }
    return printed;
}

CommandResult<int> copy_backup(Session& session) {
    const BackupArguments& arguments = session.arguments();
    const StoreArguments to = target_of(arguments);
    if (to.container.empty()) {
        return give_up(CAPSTAN_EXIT_USAGE, "--to-container is missing: where to copy to");
    }
    CAPSTAN_TRY(const Backup source, session.open_backup(source_role(session)));
    std::unique_ptr<ObjectStore> target;
    SnapshotListing present;
    if (arguments.dry_run && would_be_made(to)) {
        session.complain("directory " + to.container + " is not there; a copy makes it");
    } else {
        CAPSTAN_TRY(target, session.open(to, StoreRole::primary, !arguments.dry_run));
        if (source.store->describe() == target->describe() && to.prefix == arguments.store.prefix) {
            return give_up(
                CAPSTAN_EXIT_USAGE,
                "source and target are the same; give another --to-prefix or --to-container");
        }
        CAPSTAN_TRY(present, session.list(*target, to.prefix));
    }
    for (const SkippedKey& skipped : source.listing.skipped) {
        session.complain("not copied: " + skipped.key + ": " + skipped.reason);
    }
    CAPSTAN_TRY(const std::vector<Copied> done,
                copy_all(session, source, target.get(), present, to.prefix));
    return conclude(session, source.listing, done);
}

}  // namespace

int run_copy(Session& session) {
    const auto done = copy_backup(session);
    return done ? done.value() : session.fail_with(done.error());
}

}  // namespace capstan::steward
