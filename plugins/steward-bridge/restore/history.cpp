#include "plugins/steward-bridge/restore/history.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

namespace capstan::steward {
namespace {

constexpr std::size_t kEntriesMin = 1024;

std::uint64_t never_zero(std::uint64_t hash) {
    return hash == 0 ? 1 : hash;
}

}  // namespace

History::History(std::size_t entries_max)
    : entries_max_(std::bit_ceil(std::max(entries_max, kEntriesMin))), entries_(kEntriesMin) {}

History::Entry& History::slot(std::uint64_t hash) {
    std::size_t at = hash & (entries_.size() - 1);
    while (entries_[at].hash != 0 && entries_[at].hash != hash) {
        at = (at + 1) & (entries_.size() - 1);
    }
    return entries_[at];
}

void History::set(std::uint64_t hash, std::int64_t create_revision, std::int64_t version) {
    if (used_ * 4 >= entries_.size() * 3) {
        make_room();
        if (!counts(hash)) {
            return;
        }
    }
    Entry& entry = slot(hash);
    used_ += entry.hash == 0 ? 1 : 0;
    entry = {hash, create_revision, version};
}

// Without what is deleted; if that is not enough, twice as large or half of the keys.
void History::make_room() {
    const auto alive = static_cast<std::size_t>(std::count_if(
        entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.version != 0; }));
    std::size_t size = entries_.size();
    if (alive * 2 > size) {
        if (size < entries_max_) {
            size *= 2;
        } else {
            ++shift_;
        }
    }
    const std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(size));
    used_ = 0;
    for (const Entry& entry : old) {
        if (entry.version != 0 && counts(entry.hash)) {
            slot(entry.hash) = entry;
            ++used_;
        }
    }
}

void History::put(std::string_view key, std::int64_t create_revision, std::int64_t version) {
    const std::uint64_t hash = never_zero(hash_.of(key));
    if (counts(hash)) {
        set(hash, create_revision, version);
    }
}

void History::erase(std::string_view key) {
    const std::uint64_t hash = never_zero(hash_.of(key));
    if (counts(hash)) {
        set(hash, 0, 0);
    }
}

Result<void> History::check_put(std::string_view key,
                                std::int64_t create_revision,
                                std::int64_t mod_revision,
                                std::int64_t version) {
    const std::uint64_t hash = never_zero(hash_.of(key));
    if (!counts(hash)) {
        return ok();
    }
    const Entry before = slot(hash);
    const bool fits = before.version == 0 ? version == 1 && create_revision == mod_revision
                                          : version == before.version + 1 &&
                                                create_revision == before.create_revision;
    if (!fits) {
        return fail(Code::invalid,
                    "version " + std::to_string(version) + " of a key created at revision " +
                        std::to_string(create_revision) + " follows " +
                        (before.version == 0
                             ? std::string("no such key")
                             : "version " + std::to_string(before.version) + ", created at " +
                                   std::to_string(before.create_revision)));
    }
    set(hash, create_revision, version);
    return ok();
}

Result<void> History::check_erase(std::string_view key) {
    const std::uint64_t hash = never_zero(hash_.of(key));
    if (!counts(hash)) {
        return ok();
    }
    if (slot(hash).version == 0) {
        return fail(Code::invalid, "a key is deleted that does not exist");
    }
    set(hash, 0, 0);
    return ok();
}

}  // namespace capstan::steward
