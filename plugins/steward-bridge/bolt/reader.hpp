// Reads a bbolt database in key order, in bounded memory, and takes no byte of it on trust.
//
// Only one page per level of a tree is held, with what overflows from it (a value of 10 MiB costs
// 10 MiB). Every damage is an `invalid` that names the page: "page 17: …". Nothing is written. The
// file must not change meanwhile. Thread: one at a time.
#pragma once

#include "plugins/steward-bridge/bolt/format.hpp"

#include "capstan/error.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::steward::bolt {

class Reader;

// A bucket's place. Small buckets live inside their parent's page.
struct Bucket {
    std::string name;
    std::uint64_t root{0};                  // 0: inside
    std::vector<std::uint8_t> inside_page;  // when root is 0
};

// Walks the elements of one bucket; the reader outlives it.
class Cursor {
public:
    Cursor(Reader& reader, Bucket bucket);

    // Moves to the first, following, last element. false: there is none. After an error the cursor
    // is of no use. key() and value() are valid until the next move.
    Result<bool> first();
    Result<bool> next();
    Result<bool> last();
    // To the first element whose key is not below `key`.
    Result<bool> seek(Bytes key);

    Bytes key() const { return key_; }
    Bytes value() const { return value_; }
    bool is_bucket() const { return is_bucket_; }

private:
    struct Level {
        std::uint64_t id{0};
        std::vector<std::uint8_t> page;
        PageHeader header;
        std::size_t index{0};
    };
    struct Element {
        std::uint32_t flags{0};
        Bytes key, value;
        std::uint64_t child{0};
    };

    Result<void> enter(std::uint64_t page);
    Result<Element> element(const Level& level) const;
    Result<std::size_t> lower_bound(Level& level, Bytes key) const;
    Result<bool> descend(bool to_the_end);
    Result<bool> take();
    Error damaged(const Level& level, std::string_view what) const;

    Reader* reader_;
    Bucket bucket_;
    std::vector<Level> levels_;
    std::size_t depth_{0};  // levels in use; buffers of the others are kept for reuse
    std::uint64_t pages_visited_{0};
    std::vector<std::uint8_t> previous_key_;
    Bytes key_, value_;
    bool is_bucket_{false};
};

class Reader {
public:
    // Errors: not_found, unavailable (cannot be read), invalid (neither meta page is intact, file
    // shorter than its meta says).
    static Result<std::unique_ptr<Reader>> open(const std::string& path);
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    // Those of the top level, in the order of their names.
    Result<std::vector<Bucket>> buckets();

    // Reads every page of every bucket: the order of keys, and that no page is used twice. `visit`
    // sees each element; its first error is that of check().
    using Visit = std::function<Result<void>(const Bucket& bucket, Bytes key, Bytes value)>;
    Result<void> check(const Visit& visit = {});

    std::uint32_t page_size() const { return meta_.page_size; }
    std::uint64_t transaction() const { return meta_.transaction; }
    std::uint64_t page_count() const { return meta_.page_count; }

private:
    friend class Cursor;
    Reader(int fd, Meta meta);
    Result<void> load_page(std::uint64_t id, std::vector<std::uint8_t>& page, PageHeader& header);

    const int fd_;
    const Meta meta_;
    std::vector<bool> used_;  // by page, only while check() runs
};

}  // namespace capstan::steward::bolt
