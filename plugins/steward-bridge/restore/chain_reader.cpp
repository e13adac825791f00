#include "plugins/steward-bridge/restore/chain_reader.hpp"

#include "plugins/steward-bridge/bolt/new_file.hpp"
#include "plugins/steward-bridge/snapshot/damaged.hpp"
#include "plugins/steward-bridge/snapshot/delta_reader.hpp"
#include "plugins/steward-bridge/snapshot/payload.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace capstan::steward {
namespace {

constexpr std::uint64_t kEventsBetweenChecks = 4096;

// The payload of a stored snapshot, from wherever it is stored.
Result<std::unique_ptr<Source>> open(SnapshotObjects& objects,
                                     Digests& digests,
                                     const SnapshotRecord& record) {
    CAPSTAN_TRY(auto stored, objects.open(record));
    return open_payload(std::move(stored), record, digests);
}

}  // namespace

ChainReader::ChainReader(const SnapshotListing& listing,
                         SnapshotObjects& objects,
                         Digests& digests,
                         const RestoreOptions& options)
    : all_(listing), objects_(objects), digests_(digests), options_(options) {}

ChainReader::~ChainReader() {
    base_.reset();
    if (!base_key_.empty()) {
        ::unlink(base_path().c_str());
    }
    ::rmdir(options_.work_directory.c_str());  // only when empty, so only what we made
}

std::string ChainReader::base_path() const {
    return options_.work_directory + "/base.db";
}

Result<void> ChainReader::check_cancelled() const {
    if (options_.cancelled && options_.cancelled()) {
        return fail(Code::cancelled, "stopped while a chain of snapshots was read");
    }
    return ok();
}

// Notes whose fault an error is. What the store or the disk says is nobody's.
Error ChainReader::blame(const SnapshotRecord& record, const Error& error) {
    if (error.code != Code::invalid) {
        Error named = with_context(error, record.key());
        // That the disk is full is said of the disk alone.
        named.code = error.code == Code::overloaded ? Code::unavailable : error.code;
        return named;
    }
    damaged_ = record.key();
    const bool named = error.message.find(record.name) != std::string::npos;
    return named ? error : damaged(record.key(), error.message);
}

// What is said while the new database is written is of the own disk, unless it is the content.
Error ChainReader::blame_content(const SnapshotRecord& record, const Error& error) {
    return error.code == Code::invalid ? blame(record, error) : error;
}

Result<void> ChainReader::prepare() {
    if (::mkdir(options_.work_directory.c_str(), 0700) != 0 && errno != EEXIST) {
        return fail(bolt::code_of_errno(errno),
                    "cannot make " + options_.work_directory + ": " + std::strerror(errno));
    }
    // Of a run that was killed.
    ::unlink(base_path().c_str());
    return ok();
}

Result<void> ChainReader::choose_history() {
    CAPSTAN_TRY(ChosenHistory chosen, steward::choose_history(all_, options_.wish));
    listing_ = std::move(chosen.history.listing);
    chosen_by_.to_revision = chosen.to_revision;
    chosen_by_.skipped = listing_.skipped;
    report_.history = chosen.only ? "" : chosen.history.name;
    report_.leaves = std::move(chosen.leaves);
    report_.warnings = std::move(chosen.warnings);
    return ok();
}

Result<void> ChainReader::fetch_base(const SnapshotRecord& full) {
    base_.reset();
    ::unlink(base_path().c_str());
    base_key_ = full.key();
    CAPSTAN_TRY(const auto file, bolt::NewFile::create(base_path()));
    auto payload = open(objects_, digests_, full);
    if (!payload) {
        return fail(blame(full, payload.error()));
    }
    std::vector<std::uint8_t> buffer(std::size_t{256} * 1024);
    while (true) {
        CAPSTAN_TRY(check_cancelled());
        const auto n = payload.value()->read(buffer);
        if (!n) {
            return fail(blame(full, n.error()));
        }
        if (n.value() == 0) {
            break;
        }
        CAPSTAN_TRY(file->append(std::span<const std::uint8_t>(buffer).first(n.value())));
    }
    return file->flush();
}

// The base's place in history, which its name only bounds from below.
Result<void> ChainReader::learn_base(const SnapshotRecord& full) {
    auto reader = bolt::Reader::open(base_path());
    if (!reader) {
        return fail(blame(full, reader.error()));
    }
    base_ = std::move(reader).value();
    auto facts = read_base(*base_);
    if (!facts) {
        return fail(blame(full, facts.error()));
    }
    facts_ = std::move(facts).value();
    if (facts_.revision < full.last_revision) {
        return fail(blame(full,
                          {Code::invalid,
                           "it ends at revision " + std::to_string(facts_.revision) +
                               " although its name says " + std::to_string(full.last_revision),
                           {}}));
    }
    // What is above the revision wanted is left out, unless the history before it is gone.
    const std::int64_t wanted = chosen_by_.to_revision.value_or(facts_.revision);
    chosen_by_.base_revisions[full.key()] =
        facts_.compacted <= wanted ? std::min(facts_.revision, wanted) : facts_.revision;
    return ok();
}

// A full whose name leaves a gap behind it, which what is inside may fill.
const SnapshotRecord* ChainReader::worth_opening() const {
    for (auto full = listing_.snapshots.rbegin(); full != listing_.snapshots.rend(); ++full) {
        const std::string key = full->key();
        const bool usable = full->kind == SnapshotKind::full && !chosen_by_.damaged.contains(key) &&
                            !chosen_by_.base_revisions.contains(key) &&
                            full->last_revision <= chosen_by_.to_revision.value_or(INT64_MAX);
        if (usable) {
            const Chain chain = chain_from(*full, listing_.snapshots, chosen_by_);
            if (chain.gap && chain.deltas.empty()) {
                return &*full;
            }
        }
    }
    return nullptr;
}

Result<Chain> ChainReader::choose() {
    while (true) {
        CAPSTAN_TRY(check_cancelled());
        auto chain = choose_chain(listing_.snapshots, chosen_by_);
        if (chain || chain.error().code != Code::invalid) {
            return chain;
        }
        const SnapshotRecord* full = worth_opening();
        if (full == nullptr) {
            return chain;
        }
        const auto opened = open_base(*full);
        if (!opened && !note_damage(opened.error())) {
            return fail(opened.error());
        }
    }
}

// True: one object is to blame and will not be used again.
bool ChainReader::note_damage(const Error& error) {
    if (!damaged_) {
        return false;
    }
    chosen_by_.damaged[*std::exchange(damaged_, std::nullopt)] = error.message;
    return true;
}

Result<RestoreReport> ChainReader::run(const std::string& path, const NewCluster* cluster) {
    CAPSTAN_TRY(choose_history());
    CAPSTAN_TRY(prepare());
    while (true) {
        const Result<void> tried = attempt(path, cluster);
        if (tried) {
            for (const auto& [key, why] : chosen_by_.damaged) {
                report_.warnings.push_back(why + "; nothing is lost, others hold its revisions");
            }
            return std::move(report_);
        }
        if (!path.empty()) {
            ::unlink(path.c_str());
        }
        if (!note_damage(tried.error())) {
            return fail(tried.error());
        }
    }
}

Result<void> ChainReader::open_base(const SnapshotRecord& full) {
    if (base_ && base_key_ == full.key()) {
        return ok();
    }
    CAPSTAN_TRY(fetch_base(full));
    return learn_base(full);
}

Result<void> ChainReader::attempt(const std::string& path, const NewCluster* cluster) {
    CAPSTAN_TRY(Chain chain, choose());
    // Once it is known what is inside of a full, another chain may be better.
    while (!chosen_by_.base_revisions.contains(chain.full.key())) {
        CAPSTAN_TRY(open_base(chain.full));
        CAPSTAN_TRY(chain, choose());
    }
    CAPSTAN_TRY(open_base(chain.full));
    std::unique_ptr<bolt::Writer> writer;
    if (!path.empty()) {
        CAPSTAN_TRY(writer, bolt::Writer::create(path, base_->page_size()));
    }
    CAPSTAN_TRY(build(chain, writer.get(), cluster));
    if (writer) {
        CAPSTAN_TRY(writer->finish());
        report_.database_bytes = writer->bytes();
    }
    return ok();
}

Result<void> ChainReader::build(const Chain& chain,
                                bolt::Writer* writer,
                                const NewCluster* cluster) {
    Replay replay(writer, *base_, facts_, chosen_by_.to_revision);
    if (options_.accept_unfit_events) {
        replay.accept_unfit();
    }
    report_.full = chain.full.key();
    report_.base_revision = facts_.revision;
    report_.deltas.clear();
    const auto base_added = replay.add_base();
    if (!base_added) {
        return fail(blame_content(chain.full, base_added.error()));
    }
    for (const SnapshotRecord& delta : chain.deltas) {
        CAPSTAN_TRY(add_delta(delta, replay));
        report_.deltas.push_back(delta.key());
    }
    const std::int64_t expected = chosen_by_.to_revision.value_or(chain.reaches);
    if (replay.revision() < expected) {
        return fail(Code::invalid,
                    "the chain that begins with " + chain.full.key() + " ends at revision " +
                        std::to_string(replay.revision()) + " instead of " +
                        std::to_string(expected));
    }
    const auto finished = replay.finish(cluster);
    if (!finished) {
        return fail(blame_content(chain.full, finished.error()));
    }
    report_.revision = replay.revision();
    report_.counts = replay.counts();
    if (report_.counts.events_unfit > 0) {
        report_.warnings.push_back(std::to_string(report_.counts.events_unfit) +
                                   " events do not continue what is before them; the result may "
                                   "be a mixture of two histories");
    }
    if (replay.sampled()) {
        report_.warnings.emplace_back(
            "there are more keys than memory for them, so only a part of them was checked for "
            "versions that do not follow each other");
    }
    return ok();
}

Result<void> ChainReader::add_delta(const SnapshotRecord& delta, Replay& replay) {
    CAPSTAN_TRY(check_cancelled());
    auto payload = open(objects_, digests_, delta);
    if (!payload) {
        return fail(blame(delta, payload.error()));
    }
    DeltaReader reader(*payload.value(), delta.key(), {delta.start_revision, delta.last_revision});
    replay.begin_delta();
    DeltaEvent event;
    while (true) {
        const auto more = reader.next(event);
        if (!more) {
            return fail(blame(delta, more.error()));
        }
        if (!more.value()) {
            return ok();
        }
        const auto added = replay.add_event(event);
        if (!added) {
            return fail(blame_content(delta, added.error()));
        }
        if (reader.events() % kEventsBetweenChecks == 0) {
            CAPSTAN_TRY(check_cancelled());
        }
    }
}

}  // namespace capstan::steward
