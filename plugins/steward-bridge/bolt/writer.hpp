// Writes a new bbolt database front to back, in one pass, in bounded memory.
//
// Buckets one after the other, each from keys in rising order; pages are full, branches are made
// from the leaves upwards, one open page per level is held. There is no freelist page: bbolt makes
// its own when it opens the file. The file counts only after finish(). Thread: one at a time.
#pragma once

#include "plugins/steward-bridge/bolt/format.hpp"
#include "plugins/steward-bridge/bolt/new_file.hpp"

#include "capstan/error.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::steward::bolt {

class Writer {
public:
    // `page_size`: a power of two, kPageSizeMin … kPageSizeMax. Errors: exists, unavailable.
    static Result<std::unique_ptr<Writer>> create(const std::string& path, std::uint32_t page_size);

    // Ends the bucket before. Each name once; in any order.
    Result<void> begin_bucket(std::string_view name);

    // Errors: invalid (not greater than the key before it, empty or above the limits of the
    // format), unavailable (disk).
    Result<void> put(Bytes key, Bytes value);

    // Root and metas; all of it is on the disk afterwards. Nothing may follow.
    Result<void> finish();

    std::uint64_t bytes() const { return file_->bytes(); }  // written so far

private:
    struct Element {
        std::uint32_t flags{0};
        std::uint32_t key_bytes{0}, value_bytes{0};
        std::uint64_t child{0};
    };
    // One page in the making. Level 0 is the leaf.
    struct Level {
        std::vector<Element> elements;
        std::vector<std::uint8_t> data;  // keys and values, one after the other
        std::size_t pages{0};            // written at this level

        std::size_t size() const {
            return kPageHeaderBytes + elements.size() * kElementBytes + data.size();
        }
    };

    Writer(std::unique_ptr<NewFile> file, std::uint32_t page_size);
    Result<void> put_element(Bytes key, Bytes value, std::uint32_t flags);
    Result<void> put_branch(std::size_t level, Bytes key, std::uint64_t child);
    Result<void> flush(std::size_t level, std::size_t count);
    Result<std::uint64_t> write_page(const Level& level, std::size_t count, std::uint16_t flags);
    Result<std::uint64_t> end_tree();
    Result<void> end_bucket();

    const std::unique_ptr<NewFile> file_;
    const std::uint32_t page_size_;
    std::uint64_t next_page_{2};
    std::vector<Level> levels_;
    std::vector<std::uint8_t> previous_key_;
    std::vector<std::uint8_t> page_;  // being put together
    struct Done {
        std::string name;
        std::uint64_t root{0};
    };
    std::vector<Done> buckets_;
    std::string bucket_;  // open, or empty
};

}  // namespace capstan::steward::bolt
