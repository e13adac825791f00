#include "plugins/steward-bridge/commands/copier.hpp"

#include "plugins/steward-bridge/restore/store_objects.hpp"
#include "plugins/steward-bridge/snapshot/payload.hpp"

#include <memory>
#include <optional>
#include <vector>

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

// What is read through it goes into the target too. Refers to the caller's.
class PassedOn final : public Source {
public:
    PassedOn(Source& from, Sink& into, const Session& session, std::optional<Error>& error)
        : from_(from), into_(into), session_(session), error_(error) {}

    Result<std::size_t> read(std::span<std::uint8_t> into) override {
        auto count = pass_on(into);
        if (!count) {
            error_ = count.error();
        }
        return count;
    }

private:
    Result<std::size_t> pass_on(std::span<std::uint8_t> into) {
        if (session_.cancelled()) {
            return fail(Code::cancelled, "interrupted");
        }
        CAPSTAN_TRY(const std::size_t count, from_.read(into));
        CAPSTAN_TRY(into_.write(std::span<const std::uint8_t>(into).first(count)));
        return count;
    }

    Source& from_;
    Sink& into_;
    const Session& session_;
    std::optional<Error>& error_;  // of the stores, so no damage
};

Result<std::unique_ptr<HashedSource>> open_hashed(Session& session,
                                                  ObjectStore& store,
                                                  const ObjectName& name) {
    CAPSTAN_TRY(auto source, store.open(name, 0));
    CAPSTAN_TRY(auto sha256, session.digests().sha256());
    return std::make_unique<HashedSource>(std::move(source), session.progress(), std::move(sha256));
}

Failure store_failure(const Error& error, const std::string& what) {
    // What vanished or is refused here is no matter of usage any more.
    const int code = exit_code_of_store(error.code);
    return {code == CAPSTAN_EXIT_USAGE ? CAPSTAN_EXIT_FAILED : code,
            error.code == Code::cancelled
                ? "interrupted; what was copied is whole, and a second run goes on after it"
                : what + ": " + error.message};
}

}  // namespace

Result<std::string> Copier::write_hashed(const SnapshotRecord& record,
                                         const std::string& key,
                                         std::string& damage) {
    CAPSTAN_TRY(const auto source,
                open_hashed(session_, from_, {record.key(), record.version_id.value_or("")}));
    CAPSTAN_TRY(const auto sink, to_.create(key, {true, record.bytes}));
    std::optional<Error> broken;
    const auto verified = verify_snapshot(
        std::make_unique<PassedOn>(*source, *sink, session_, broken), record, session_.digests());
    if (broken) {
        return fail(*broken);
    }
    if (!verified && verified.error().code != Code::invalid) {
        return fail(verified.error());
    }
    PassedOn rest(*source, *sink, session_, broken);
    DevNull nowhere;
    CAPSTAN_TRY(copy(rest, nowhere));  // what a damaged one was not read to
    if (record.bytes != 0 && source->bytes() != record.bytes) {
        return fail(Code::unavailable,
                    "it was listed with " + std::to_string(record.bytes) + " bytes and has " +
                        std::to_string(source->bytes()) + "; it is being replaced");
    }
    damage = verified ? "" : verified.error().message;
    if (damage.empty() || session_.arguments().accept_damaged) {
        CAPSTAN_TRY(sink->finish());
    }
    return source->digest();
}

CommandResult<std::string> Copier::digest_of(const ObjectName& name, const std::string& what) {
    const auto read = [&]() -> Result<std::string> {
        CAPSTAN_TRY(const auto source, open_hashed(session_, to_, name));
        DevNull nowhere;
        CAPSTAN_TRY(copy(*source, nowhere));
        return source->digest();
    };
    auto digest = read();
    return digest ? CommandResult<std::string>(std::move(digest).value())
                  : CommandResult<std::string>(give_up(store_failure(digest.error(), what)));
}

CommandResult<std::string> Copier::copy_one(const SnapshotRecord& record, const std::string& key) {
    session_.progress().begin_object("copying", record.key());
    std::string damage;
    const auto written = write_hashed(record, key, damage);
    if (!written) {
        return give_up(store_failure(written.error(), "copy " + record.key()));
    }
    if (!damage.empty() && !session_.arguments().accept_damaged) {
        return damage;
    }
    CAPSTAN_TRY(const std::string found, digest_of({key}, "read back " + key));
    if (written.value() == found) {
        return damage;
    }
    const auto removed = remove_written(to_, key);
    return give_up(CAPSTAN_EXIT_DAMAGED,
                   key + " in " + to_.describe() + " does not read back as it was written" +
                       (removed ? ", so it was removed" : " and could not be removed") +
                       "; try again, and check that store");
}

}  // namespace capstan::steward
