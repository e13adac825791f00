// `capstan backup copy`: the objects of one prefix under another, or in another store.
#include "plugins/steward-bridge/commands/report.hpp"
#include "plugins/steward-bridge/commands/session.hpp"
#include "plugins/steward-bridge/restore/store_objects.hpp"
#include "plugins/steward-bridge/snapshot/histories.hpp"

#include <algorithm>
#include <map>

namespace capstan::steward {
namespace {

// Hashes what is read through it.
class HashedSource final : public Source {
public:
    HashedSource(std::unique_ptr<Source> from, Progress& progress, std::unique_ptr<Hasher> sha256)
        : from_(std::move(from)), progress_(progress), sha256_(std::move(sha256)) {}

    Result<std::size_t> read(std::span<std::uint8_t> into) override {
        CAPSTAN_TRY(const std::size_t count, from_->read(into));
        CAPSTAN_TRY(sha256_->update(into.first(count)));
        progress_.add_bytes(count);
        bytes_ += count;
        return count;
    }
    Result<std::string> digest() { return sha256_->finish(); }  // once, at the end
    std::uint64_t bytes() const noexcept { return bytes_; }

private:
    const std::unique_ptr<Source> from_;
    Progress& progress_;
    const std::unique_ptr<Hasher> sha256_;
    std::uint64_t bytes_{0};
};

class DevNull final : public Sink {
public:
    Result<void> write(std::span<const std::uint8_t>) override { return ok(); }
    Result<void> finish() override { return ok(); }
};

enum class Fate { copied, there_already, would_be_copied };

struct Copied {
    std::string from, to;
    Fate fate{Fate::copied};
};

std::string_view text_of(Fate fate) {
    switch (fate) {
        case Fate::copied: return "copied";
        case Fate::there_already: return "there already";
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

class Copier {
public:
    Copier(Session& session, ObjectStore& from, ObjectStore& to)
        : session_(session), from_(from), to_(to) {}

    // Failures: of either store; the bytes differ.
    CommandResult<void> copy_one(const SnapshotRecord& record, const std::string& key) {
        session_.progress().begin_object("copying", record.key());
        CAPSTAN_TRY(const std::string written, write(record, key));
        CAPSTAN_TRY(const std::string found, digest_of({key}, "read back " + key));
        if (written == found) {
            return boost::outcome_v2::success();
        }
        const auto removed = remove_written(to_, key);
        return give_up(CAPSTAN_EXIT_DAMAGED,
                       key + " in " + to_.describe() + " does not read back as it was written" +
                           (removed ? ", so it was removed" : " and could not be removed") +
                           "; try again, and check that store");
    }

private:
    static Failure store_failure(const Error& error, const std::string& what) {
        // What vanished or is refused here is no matter of usage any more.
        const int code = exit_code_of_store(error.code);
        return {code == CAPSTAN_EXIT_USAGE ? CAPSTAN_EXIT_FAILED : code,
                error.code == Code::cancelled
                    ? "interrupted; what was copied is whole, and a second run goes on after it"
                    : what + ": " + error.message};
    }

    Result<std::unique_ptr<HashedSource>> open(ObjectStore& store, const ObjectName& name) {
        CAPSTAN_TRY(auto source, store.open(name, 0));
        CAPSTAN_TRY(auto sha256, session_.digests().sha256());
        return std::make_unique<HashedSource>(
            std::move(source), session_.progress(), std::move(sha256));
    }

    Result<std::string> write_hashed(const SnapshotRecord& record, const std::string& key) {
        CAPSTAN_TRY(const auto source, open(from_, {record.key(), record.version_id.value_or("")}));
        CAPSTAN_TRY(const auto sink, to_.create(key, {true, record.bytes}));
        std::vector<std::uint8_t> buffer(std::size_t{64} * 1024);
        while (true) {
            if (session_.cancelled()) {
                return fail(Code::cancelled, "interrupted");
            }
            CAPSTAN_TRY(const std::size_t count, source->read(buffer));
            if (count == 0) {
                break;
            }
            CAPSTAN_TRY(sink->write(std::span<const std::uint8_t>(buffer).first(count)));
        }
        if (record.bytes != 0 && source->bytes() != record.bytes) {
            return fail(Code::unavailable,
                        "it was listed with " + std::to_string(record.bytes) + " bytes and has " +
                            std::to_string(source->bytes()) + "; it is being replaced");
        }
        CAPSTAN_TRY(sink->finish());
        return source->digest();
    }

    CommandResult<std::string> write(const SnapshotRecord& record, const std::string& key) {
        auto written = write_hashed(record, key);
        return written ? CommandResult<std::string>(std::move(written).value())
                       : CommandResult<std::string>(
                             give_up(store_failure(written.error(), "copy " + record.key())));
    }

    CommandResult<std::string> digest_of(const ObjectName& name, const std::string& what) {
        const auto read = [&]() -> Result<std::string> {
            CAPSTAN_TRY(const auto source, open(to_, name));
            DevNull nowhere;
            CAPSTAN_TRY(copy(*source, nowhere));
            return source->digest();
        };
        auto digest = read();
        return digest ? CommandResult<std::string>(std::move(digest).value())
                      : CommandResult<std::string>(give_up(store_failure(digest.error(), what)));
    }

    Session& session_;
    ObjectStore& from_;
    ObjectStore& to_;
};

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
        objects.push_back({{"from", each.from}, {"to", each.to}, {"state", text_of(each.fate)}});
        rows.push_back({std::string(text_of(each.fate)), each.from, each.to});
    }
    return session.arguments().as_json ? session.print_json({{"objects", std::move(objects)}})
                                       : session.print(table_text(rows));
}

// The target's options that were not given are the source's; its prefix is its own.
StoreArguments target_of(const BackupArguments& arguments) {
    StoreArguments to = arguments.to;
    if (to.provider.empty()) {
        to.provider = arguments.store.provider;
    }
    return to;
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
                                              ObjectStore& target,
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
            const auto copied = text ? target.put_if_absent(each.to, text.value()) : text;
            if (!copied) {
                return give_up(exit_code_of_store(copied.error().code),
                               "copy " + mark.key + ": " + copied.error().message);
            }
        }
        done.push_back(std::move(each));
    }
    return done;
}

CommandResult<std::vector<Copied>> copy_all(Session& session,
                                            const Backup& source,
                                            ObjectStore& target,
                                            const SnapshotListing& present,
                                            const std::string& prefix) {
    const BackupArguments& arguments = session.arguments();
    const auto sizes = sizes_of(present);
    Copier copier(session, *source.store, target);
    CAPSTAN_TRY(std::vector<Copied> done, copy_marks(session, source, target, present, prefix));
    for (const SnapshotRecord& record : in_order(source.listing, arguments.max_backups)) {
        Copied each{record.key(), target_key(record, prefix), Fate::copied};
        const auto known = sizes.find(record.dir + "/" + name_of_copy(record));
        if (known != sizes.end() && known->second != record.bytes) {
            return give_up(CAPSTAN_EXIT_DAMAGED,
                           each.to + " is in " + target.describe() + " already, with " +
                               std::to_string(known->second) + " bytes instead of " +
                               std::to_string(record.bytes) +
                               "; find out which of the two is right and remove the other");
        }
        if (known != sizes.end()) {
            each.fate = Fate::there_already;
        } else if (arguments.dry_run) {
            each.fate = Fate::would_be_copied;
        } else {
            CAPSTAN_TRY(copier.copy_one(record, each.to));
        }
        done.push_back(std::move(each));
    }
    return done;
}

CommandResult<int> copy_backup(Session& session) {
    const BackupArguments& arguments = session.arguments();
    const StoreArguments to = target_of(arguments);
    if (to.container.empty()) {
        return give_up(CAPSTAN_EXIT_USAGE, "--to-container is missing: where to copy to");
    }
    CAPSTAN_TRY(const Backup source, session.open_backup(source_role(session)));
    CAPSTAN_TRY(const auto target, session.open(to, StoreRole::primary, !arguments.dry_run));
    if (source.store->describe() == target->describe() && to.prefix == arguments.store.prefix) {
        return give_up(
            CAPSTAN_EXIT_USAGE,
            "source and target are the same; give another --to-prefix or --to-container");
    }
    CAPSTAN_TRY(const SnapshotListing present, session.list(*target, to.prefix));
    for (const SkippedKey& skipped : source.listing.skipped) {
        session.complain("not copied: " + skipped.key + ": " + skipped.reason);
    }
    CAPSTAN_TRY(const std::vector<Copied> done,
                copy_all(session, source, *target, present, to.prefix));
    return print_result(session, done);
}

}  // namespace

int run_copy(Session& session) {
    const auto done = copy_backup(session);
    return done ? done.value() : session.fail_with(done.error());
}

}  // namespace capstan::steward
