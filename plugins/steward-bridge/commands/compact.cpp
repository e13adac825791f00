// `capstan backup compact`: one new full out of the newest one and the deltas after it.
#include "plugins/steward-bridge/commands/outlook.hpp"
#include "plugins/steward-bridge/commands/report.hpp"
#include "plugins/steward-bridge/commands/session.hpp"
#include "plugins/steward-bridge/restore/store_objects.hpp"
#include "plugins/steward-bridge/snapshot/payload.hpp"

#include <algorithm>

namespace capstan::steward {
namespace {

// An object of the store whose name is known only when its bytes come.
class LateObject final : public Sink {
public:
    Result<void> begin(ObjectStore& store,
                       const SnapshotRecord& record,
                       std::uint64_t bytes_about) {
        CAPSTAN_TRY(stored_, noted(store.create(record.key(), {true, bytes_about})));
        CAPSTAN_TRY(packed_, compress(record.compression, *stored_));
        return ok();
    }
    Result<void> write(std::span<const std::uint8_t> bytes) override {
        return noted(packed_->write(bytes));
    }
    Result<void> finish() override { return noted(packed_->finish()); }

    // What the store said, if it failed.
    const std::optional<Error>& error() const noexcept { return error_; }

private:
    template <class T>
    Result<T> noted(Result<T> result) {
        if (!result) {
            error_ = result.error();
        }
        return result;
    }

    std::unique_ptr<Sink> stored_, packed_;
    std::optional<Error> error_;
};

// The new full as its name will tell it.
SnapshotRecord full_of(const Session& session,
                       const SnapshotListing& listing,
                       const RestoreReport& report) {
    const auto find = [&listing](const std::string& key) {
        return std::find_if(listing.snapshots.begin(),
                            listing.snapshots.end(),
                            [&key](const auto& record) { return record.key() == key; });
    };
    const auto base = find(report.full);
    const auto newest = report.deltas.empty() ? base : find(report.deltas.back());
    SnapshotRecord record;
    record.last_revision = report.revision;
    // As old as what it holds, so neither newer than what goes further nor of another history.
    record.created = newest->created;
    const WallTime later = newest->created + std::chrono::seconds(1);
    if (newest == base &&
        history_index(listing, later) == history_index(listing, newest->created)) {
        record.created = later;  // else it would have the name of its base
    }
    record.compression = session.arguments().compression.value_or(newest->compression);
    record.final = base->final;
    const std::string& prefix = session.arguments().store.prefix;
    record.prefix = (prefix.empty() ? "" : prefix + "/") + "v2/";
    record.name = snapshot_name(record);
    return record;
}

int print_result(Session& session,
                 const RestoreReport& report,
                 const std::string& object,
                 std::string_view state) {
    for (const std::string& warning : report.warnings) {
        session.warn(warning);
    }
    if (session.arguments().as_json) {
        json::Value out = report_json(report);
        out.set("object", object);
        out.set("state", state);
        return session.print_json(out);
    }
    return session.print(report_text(report) + "object:   " + object + ", " + std::string(state) +
                         "\n");
}

// The bytes as the store gives them back. What proves wrong does not stay.
CommandResult<void> read_back(Session& session, ObjectStore& store, const SnapshotRecord& made) {
    auto source = store.open({made.key()}, 0);
    const auto verified = source
                              ? verify_snapshot(std::move(source).value(), made, session.digests())
                              : Result<VerifiedSnapshot>(fail(source.error()));
    if (verified) {
        return boost::outcome_v2::success();
    }
    if (verified.error().code != Code::invalid) {
        return give_up(
            exit_code_of_store(verified.error().code),
            made.key() + " was written, and could not be read back: " + verified.error().message);
    }
    const auto removed = remove_written(store, made.key());
    return give_up(CAPSTAN_EXIT_DAMAGED,
                   "the store gave back other bytes than were written, so the new object was " +
                       std::string(removed ? "removed: " : "to be removed, and is still there: ") +
                       verified.error().message);
}

CommandResult<int> compact_into(Session& session,
                                const Backup& backup,
                                ObservedObjects& objects,
                                RestoreOptions options) {
    SnapshotRecord made;
    LateObject object;
    options.before_writing = [&](const RestoreReport& report) {
        made = full_of(session, backup.listing, report);
        session.progress().begin_object("writing", made.key());
        return object.begin(*backup.store, made, report.database_bytes);
    };
    const auto report = compact(backup.listing, objects, session.digests(), object, options);
    if (!report) {
        return object.error()
                   ? give_up(exit_code_of_store(object.error()->code), report.error().message)
                   : give_up(session.failure_of(report.error(), objects));
    }
    CAPSTAN_TRY(read_back(session, *backup.store, made));
    return print_result(session, report.value(), made.key(), "written and read back");
}

// By names alone.
bool has_deltas(const Session& session, const SnapshotListing& listing) {
    const Outlook outlook = outlook_of(listing, session.arguments().wish);
    return !outlook.chain || !outlook.chain->deltas.empty();
}

CommandResult<int> compact_backup(Session& session) {
    const BackupArguments& arguments = session.arguments();
    CAPSTAN_TRY(const Backup backup, session.open_backup());
    StoreObjects stored(*backup.store);
    ObservedObjects objects(stored, session.progress());
    CAPSTAN_TRY(const auto workspace, Workspace::make(session, arguments.work_directory));
    const RestoreOptions options = session.restore_options(workspace->engine_directory());
    const bool needless = !arguments.compression && !has_deltas(session, backup.listing);
    if (!arguments.dry_run && !needless) {
        return compact_into(session, backup, objects, options);
    }
    const auto report = verify(backup.listing, objects, session.digests(), options);
    if (!report) {
        return give_up(session.failure_of(report.error(), objects));
    }
    if (!arguments.compression && report.value().deltas.empty()) {
        session.complain(
            "nothing to compact: no delta follows " + report.value().full +
            ", which is whole and restores as fast as a new one would; compact again when "
            "`capstan backup list` shows deltas, or give --compression to pack it anew");
        return print_result(session, report.value(), report.value().full, "nothing to compact");
    }
    if (!arguments.dry_run) {  // an older full stepped in, and it has deltas
        return compact_into(session, backup, objects, options);
    }
    return print_result(session,
                        report.value(),
                        full_of(session, backup.listing, report.value()).key(),
                        "would be written");
}

}  // namespace

int run_compact(Session& session) {
    const auto done = compact_backup(session);
    return done ? done.value() : session.fail_with(done.error());
}

}  // namespace capstan::steward
