// Whether deltas continue the history of their base, or that of another cluster.
//
// Every event says the version its key has reached and the revision that created it, so it either
// fits what was there before or it belongs elsewhere. Version and creation are kept per key, in at
// most `entries_max` entries of 24 bytes: beyond that, of a sample of the keys that is halved
// whenever it grows too large. One foreign key in the sample is enough. Thread: one at a time.
#pragma once

#include "plugins/steward-bridge/restore/key_hash.hpp"

#include "capstan/error.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace capstan::steward {

class History {
public:
    static constexpr std::size_t kEntriesMax = std::size_t{1} << 20;

    explicit History(std::size_t entries_max = kEntriesMax);

    // What the base holds, in its order; not judged.
    void put(std::string_view key, std::int64_t create_revision, std::int64_t version);
    void erase(std::string_view key);

    // What a delta says next. Errors: invalid, "version 7 of a key follows version 3, …".
    Result<void> check_put(std::string_view key,
                           std::int64_t create_revision,
                           std::int64_t mod_revision,
                           std::int64_t version);
    Result<void> check_erase(std::string_view key);

    bool sampled() const { return shift_ > 0; }  // not every key was looked at

private:
    struct Entry {
        std::uint64_t hash{0};  // 0: free
        std::int64_t create_revision{0};
        std::int64_t version{0};  // 0: deleted
    };

    bool counts(std::uint64_t hash) const { return shift_ == 0 || hash >> (64 - shift_) == 0; }
    Entry& slot(std::uint64_t hash);
    void set(std::uint64_t hash, std::int64_t create_revision, std::int64_t version);
    void make_room();

    const KeyHash hash_;
    const std::size_t entries_max_;
    std::vector<Entry> entries_;  // a power of two
    std::size_t used_{0};
    unsigned shift_{0};
};

}  // namespace capstan::steward
