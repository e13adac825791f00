#include "plugins/steward-bridge/bolt/reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace capstan::steward::bolt {
namespace {

// etcd's largest databases need five; a tree that is deeper is a loop.
constexpr std::size_t kDepthMax = 24;

Error at_page(std::uint64_t id, std::string_view what) {
    return {Code::invalid,
            "page " + std::to_string(id) + ": " + std::string(what),
            std::chrono::milliseconds{0}};
}

Result<void> read_at(int fd, std::uint8_t* into, std::size_t count, std::uint64_t offset) {
    while (count > 0) {
        const ssize_t n = ::pread(fd, into, count, static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return fail(n < 0 ? Code::unavailable : Code::invalid,
                        "offset " + std::to_string(offset) + ": " +
                            (n < 0 ? std::strerror(errno) : "the file ends here"));
        }
        into += n;
        count -= static_cast<std::size_t>(n);
        offset += static_cast<std::uint64_t>(n);
    }
    return ok();
}

// What cannot be read is an error, unlike what is not intact: the other page may be an older one.
Result<std::optional<Meta>> meta_at(int fd, std::uint64_t offset) {
    std::array<std::uint8_t, kPageHeaderBytes + kMetaBytes> page{};
    const Result<void> read = read_at(fd, page.data(), page.size(), offset);
    if (!read && read.error().code != Code::invalid) {
        return fail(read.error());
    }
    return read ? Meta::decode(std::span(page).last<kMetaBytes>()) : std::nullopt;
}

// The intact meta of the newest transaction. Without the first one the page size is a guess.
Result<std::optional<Meta>> newest_meta(int fd) {
    CAPSTAN_TRY(const std::optional<Meta> first, meta_at(fd, 0));
    if (first) {
        CAPSTAN_TRY(const std::optional<Meta> second, meta_at(fd, first->page_size));
        return second && second->transaction > first->transaction ? second : first;
    }
    for (std::uint32_t size = kPageSizeMin; size <= kPageSizeMax; size *= 2) {
        CAPSTAN_TRY(const std::optional<Meta> second, meta_at(fd, size));
        if (second && second->page_size == size) {
            return second;
        }
    }
    return std::optional<Meta>();
}

// What every page must hold whatever it says about itself.
Result<void> check_header(const PageHeader& header, std::uint64_t id, std::uint64_t page_count) {
    if (header.id != id) {
        return fail(at_page(id, "calls itself page " + std::to_string(header.id)));
    }
    if (header.flags != kBranchPage && header.flags != kLeafPage) {
        return fail(at_page(id, "is neither a branch nor a leaf"));
    }
    if (header.overflow >= page_count - id) {
        return fail(at_page(id, "overflows beyond the last page"));
    }
    return ok();
}

}  // namespace

Cursor::Cursor(Reader& reader, Bucket bucket) : reader_(&reader), bucket_(std::move(bucket)) {}

Error Cursor::damaged(const Level& level, std::string_view what) const {
    return at_page(level.id, what);
}

Result<void> Cursor::enter(std::uint64_t page) {
    if (depth_ == kDepthMax || ++pages_visited_ > reader_->page_count()) {
        return fail(at_page(page, "the tree leads in a circle"));
    }
    if (levels_.size() == depth_) {
        levels_.emplace_back();
    }
    Level& level = levels_[depth_];
    level.id = page;
    level.index = 0;
    if (page == 0) {
        level.page = bucket_.inside_page;
        level.header = PageHeader::decode(level.page.data());
        if (level.header.flags != kLeafPage) {
            return fail(damaged(level, "bucket " + bucket_.name + " is no leaf"));
        }
    } else {
        CAPSTAN_TRY(reader_->load_page(page, level.page, level.header));
    }
    if (kPageHeaderBytes + level.header.count * kElementBytes > level.page.size()) {
        return fail(damaged(level, "has no room for its elements"));
    }
    ++depth_;
    return ok();
}

Result<Cursor::Element> Cursor::element(const Level& level) const {
    const std::size_t at = kPageHeaderBytes + level.index * kElementBytes;
    const std::uint8_t* header = level.page.data() + at;
    const bool leaf = level.header.flags == kLeafPage;
    const std::uint64_t start = at + load<std::uint32_t>(header + (leaf ? 4 : 0));
    const std::uint64_t key_bytes = load<std::uint32_t>(header + (leaf ? 8 : 4));
    const std::uint64_t value_bytes = leaf ? load<std::uint32_t>(header + 12) : 0;
    if (start + key_bytes + value_bytes > level.page.size()) {
        return fail(
            damaged(level, "element " + std::to_string(level.index) + " lies outside of it"));
    }
    if (key_bytes == 0) {
        return fail(damaged(level, "element " + std::to_string(level.index) + " has no key"));
    }
    const Bytes page(level.page);
    Element element;
    element.key = page.subspan(start, key_bytes);
    if (leaf) {
        element.flags = load<std::uint32_t>(header);
        element.value = page.subspan(start + key_bytes, value_bytes);
    } else {
        element.child = load<std::uint64_t>(header + 8);
    }
    return element;
}

// From the deepest level down to a leaf.
Result<bool> Cursor::descend(bool to_the_end) {
    while (true) {
        Level& level = levels_[depth_ - 1];
        if (level.header.count == 0) {
            return false;
        }
        if (to_the_end) {
            level.index = level.header.count - 1u;
        }
        if (level.header.flags == kLeafPage) {
            return true;
        }
        CAPSTAN_TRY(const Element branch, element(level));
        if (branch.child < 2) {
            return fail(damaged(level, "leads to page " + std::to_string(branch.child)));
        }
        CAPSTAN_TRY(enter(branch.child));
    }
}

// The element at the cursor, which must be greater than the one before it.
Result<bool> Cursor::take() {
    const Level& level = levels_[depth_ - 1];
    CAPSTAN_TRY(const Element leaf, element(level));
    if (!previous_key_.empty() && text(leaf.key) <= text(previous_key_)) {
        return fail(damaged(
            level, "element " + std::to_string(level.index) + " is not in the order of keys"));
    }
    previous_key_.assign(leaf.key.begin(), leaf.key.end());
    key_ = leaf.key;
    value_ = leaf.value;
    is_bucket_ = (leaf.flags & kBucketElement) != 0;
    return true;
}

Result<bool> Cursor::first() {
    depth_ = 0;
    pages_visited_ = 0;
    previous_key_.clear();
    CAPSTAN_TRY(enter(bucket_.root));
    CAPSTAN_TRY(const bool found, descend(false));
    if (found) {
        return take();
    }
    return next();
}

Result<bool> Cursor::next() {
    while (depth_ > 0) {
        Level& level = levels_[depth_ - 1];
        if (level.header.count == 0 || ++level.index >= level.header.count) {
            --depth_;
            continue;
        }
        CAPSTAN_TRY(const bool found, descend(false));
        if (found) {
            return take();
        }
    }
    return false;
}

Result<bool> Cursor::last() {
    depth_ = 0;
    pages_visited_ = 0;
    previous_key_.clear();
    CAPSTAN_TRY(enter(bucket_.root));
    CAPSTAN_TRY(bool found, descend(true));
    while (!found) {  // an empty page: to the left of it
        --depth_;
        while (depth_ > 0 && levels_[depth_ - 1].index == 0) {
            --depth_;
        }
        if (depth_ == 0) {
            return false;
        }
        Level& level = levels_[depth_ - 1];
        --level.index;
        CAPSTAN_TRY(const Element branch, element(level));
        CAPSTAN_TRY(enter(branch.child));
        CAPSTAN_TRY(found, descend(true));
    }
    return take();
}

// How many elements of the page are below `key`. Moves the level's index about.
Result<std::size_t> Cursor::lower_bound(Level& level, Bytes key) const {
    std::size_t from = 0, to = level.header.count;
    while (from < to) {
        level.index = from + (to - from) / 2;
        CAPSTAN_TRY(const Element middle, element(level));
        if (text(middle.key) < text(key)) {
            from = level.index + 1;
        } else {
            to = level.index;
        }
    }
    return from;
}

Result<bool> Cursor::seek(Bytes key) {
    depth_ = 0;
    pages_visited_ = 0;
    previous_key_.clear();
    std::uint64_t page = bucket_.root;
    while (true) {
        CAPSTAN_TRY(enter(page));
        Level& level = levels_[depth_ - 1];
        CAPSTAN_TRY(const std::size_t below, lower_bound(level, key));
        if (level.header.flags == kLeafPage) {
            level.index = below;
            return below < level.header.count ? take() : next();
        }
        level.index = below;
        bool exact = false;
        if (below < level.header.count) {
            CAPSTAN_TRY(const Element found, element(level));
            exact = text(found.key) == text(key);
        }
        // A branch's key is the least below it: the child before may hold what is asked for.
        level.index = exact || below == 0 ? below : below - 1;
        if (level.header.count == 0) {
            return next();
        }
        CAPSTAN_TRY(const Element branch, element(level));
        if (branch.child < 2) {
            return fail(damaged(level, "leads to page " + std::to_string(branch.child)));
        }
        page = branch.child;
    }
}

Reader::Reader(int fd, Meta meta) : fd_(fd), meta_(meta) {}

Reader::~Reader() {
    ::close(fd_);
}

Result<std::unique_ptr<Reader>> Reader::open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail(errno == ENOENT ? Code::not_found : Code::unavailable,
                    path + ": " + std::strerror(errno));
    }
    struct stat info {};
    const int error = ::fstat(fd, &info) != 0 ? errno : 0;
    const auto newest = newest_meta(fd);
    const std::optional<Meta> meta = newest ? newest.value() : std::nullopt;
    // tidy: allow new, private constructor
    std::unique_ptr<Reader> reader(new Reader(fd, meta.value_or(Meta{})));
    if (error != 0) {
        return fail(Code::unavailable, path + ": " + std::strerror(error));
    }
    if (!newest) {
        return fail(newest.error());
    }
    if (!meta) {
        return fail(Code::invalid, "neither meta page is intact");
    }
    const std::uint64_t file_bytes = static_cast<std::uint64_t>(info.st_size);
    if (meta->page_count > file_bytes / meta->page_size) {
        return fail(Code::invalid,
                    "the file has " + std::to_string(file_bytes) + " bytes, its meta page says " +
                        std::to_string(meta->page_count) + " pages of " +
                        std::to_string(meta->page_size));
    }
    return reader;
}

Result<void> Reader::load_page(std::uint64_t id,
                               std::vector<std::uint8_t>& page,
                               PageHeader& header) {
    if (id < 2 || id >= meta_.page_count) {
        return fail(at_page(id, "does not exist"));
    }
    page.resize(meta_.page_size);
    CAPSTAN_TRY(read_at(fd_, page.data(), page.size(), id * meta_.page_size));
    header = PageHeader::decode(page.data());
    CAPSTAN_TRY(check_header(header, id, meta_.page_count));
    if (header.overflow > 0) {
        page.resize((std::uint64_t{header.overflow} + 1) * meta_.page_size);
        CAPSTAN_TRY(read_at(fd_,
                            page.data() + meta_.page_size,
                            page.size() - meta_.page_size,
                            (id + 1) * meta_.page_size));
    }
    for (std::uint64_t used = id; !used_.empty() && used <= id + header.overflow; ++used) {
        if (used_[used]) {
            return fail(at_page(used, "is used twice"));
        }
        used_[used] = true;
    }
    return ok();
}

Result<std::vector<Bucket>> Reader::buckets() {
    std::vector<Bucket> found;
    Cursor cursor(*this, {"(root)", meta_.root, {}});
    if (meta_.root < 2) {
        return fail(at_page(meta_.root, "cannot be the root"));
    }
    CAPSTAN_TRY(bool more, cursor.first());
    while (more) {
        const Bytes value = cursor.value();
        if (!cursor.is_bucket() || value.size() < kBucketBytes) {
            return fail(Code::invalid, "the top level holds something that is no bucket");
        }
        Bucket bucket{std::string(text(cursor.key())), load<std::uint64_t>(value.data()), {}};
        if (bucket.root == 0) {
            const Bytes page = value.subspan(kBucketBytes);
            if (page.size() < kPageHeaderBytes) {
                return fail(Code::invalid, "bucket " + bucket.name + " has no page");
            }
            bucket.inside_page.assign(page.begin(), page.end());
        }
        found.push_back(std::move(bucket));
        CAPSTAN_TRY(more, cursor.next());
    }
    return found;
}

Result<void> Reader::check(const Visit& visit) {
    used_.assign(meta_.page_count, false);
    auto walk = [this, &visit]() -> Result<void> {
        CAPSTAN_TRY(const std::vector<Bucket> all, buckets());
        for (const Bucket& bucket : all) {
            Cursor cursor(*this, bucket);
            Result<bool> more = cursor.first();
            while (more && more.value()) {
                if (visit) {
                    CAPSTAN_TRY(visit(bucket, cursor.key(), cursor.value()));
                }
                more = cursor.next();
            }
            if (!more) {
                return fail(with_context(more.error(), "bucket " + bucket.name));
            }
        }
        return ok();
    };
    Result<void> walked = walk();
    used_.clear();
    return walked;
}

}  // namespace capstan::steward::bolt
