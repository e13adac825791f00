#include "plugins/steward-bridge/bolt/writer.hpp"

#include <algorithm>
#include <utility>

namespace capstan::steward::bolt {
namespace {

// bbolt stops when it deletes below a branch of one child, so every branch keeps two.
constexpr std::size_t kChildrenMin = 2;

constexpr std::uint64_t kPagesMin = 4;  // some readers refuse smaller files

}  // namespace

Writer::Writer(std::unique_ptr<NewFile> file, std::uint32_t page_size)
    : file_(std::move(file)), page_size_(page_size), levels_(1) {}

Result<std::unique_ptr<Writer>> Writer::create(const std::string& path, std::uint32_t page_size) {
    const bool power = (page_size & (page_size - 1)) == 0;
    CAPSTAN_CHECK(power && page_size >= kPageSizeMin && page_size <= kPageSizeMax, path);
    CAPSTAN_TRY(auto file, NewFile::create(path));
    // tidy: allow new, private constructor
    std::unique_ptr<Writer> writer(new Writer(std::move(file), page_size));
    const std::vector<std::uint8_t> metas(std::size_t{page_size} * 2);
    CAPSTAN_TRY(writer->file_->append(metas));
    return writer;
}

Result<void> Writer::begin_bucket(std::string_view name) {
    CAPSTAN_TRY(end_bucket());
    bucket_ = name;
    return ok();
}

Result<void> Writer::put(Bytes key, Bytes value) {
    CAPSTAN_CHECK(!bucket_.empty(), "put without a bucket");
    return put_element(key, value, 0);
}

Result<void> Writer::put_element(Bytes key, Bytes value, std::uint32_t flags) {
    if (key.empty() || key.size() > kKeyBytesMax || value.size() > kValueBytesMax) {
        return fail(Code::invalid,
                    "bucket " + bucket_ + ": a key of " + std::to_string(key.size()) +
                        " bytes with a value of " + std::to_string(value.size()) +
                        " does not fit into a database");
    }
    if (!previous_key_.empty() && text(key) <= text(previous_key_)) {
        return fail(Code::invalid, "bucket " + bucket_ + ": keys do not rise");
    }
    previous_key_.assign(key.begin(), key.end());
    Level& leaf = levels_[0];
    const std::size_t more = kElementBytes + key.size() + value.size();
    if (!leaf.elements.empty() && leaf.size() + more > page_size_) {
        CAPSTAN_TRY(flush(0, leaf.elements.size()));
    }
    // flush() may have grown levels_, so the reference is taken anew.
    Level& open = levels_[0];
    open.elements.push_back({flags,
                             static_cast<std::uint32_t>(key.size()),
                             static_cast<std::uint32_t>(value.size()),
                             0});
    open.data.insert(open.data.end(), key.begin(), key.end());
    open.data.insert(open.data.end(), value.begin(), value.end());
    return ok();
}

Result<void> Writer::put_branch(std::size_t level, Bytes key, std::uint64_t child) {
    if (levels_.size() == level) {
        levels_.emplace_back();
    }
    Level& branch = levels_[level];
    branch.elements.push_back({0, static_cast<std::uint32_t>(key.size()), 0, child});
    branch.data.insert(branch.data.end(), key.begin(), key.end());
    const std::size_t count = branch.elements.size();
    if (branch.size() > page_size_ && count >= 2 * kChildrenMin) {
        return flush(level, count - kChildrenMin);
    }
    return ok();
}

// Writes the first `count` elements of a level as a page and names that page one level up.
Result<void> Writer::flush(std::size_t level, std::size_t count) {
    CAPSTAN_TRY(const std::uint64_t page,
                write_page(levels_[level], count, level == 0 ? kLeafPage : kBranchPage));
    Level& written = levels_[level];
    std::vector<std::uint8_t> first_key;
    if (!written.elements.empty()) {
        first_key.assign(written.data.begin(),
                         written.data.begin() + written.elements.front().key_bytes);
    }
    std::size_t data_bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
        data_bytes += std::size_t{written.elements[i].key_bytes} + written.elements[i].value_bytes;
    }
    using Offset = std::ptrdiff_t;
    written.elements.erase(written.elements.begin(),
                           written.elements.begin() + static_cast<Offset>(count));
    written.data.erase(written.data.begin(),
                       written.data.begin() + static_cast<Offset>(data_bytes));
    ++written.pages;
    return put_branch(level + 1, first_key, page);
}

// The first `count` elements as a page, with as many more pages as its values need.
Result<std::uint64_t> Writer::write_page(const Level& level,
                                         std::size_t count,
                                         std::uint16_t flags) {
    const bool leaf = flags == kLeafPage;
    std::size_t data_bytes = 0;
    page_.assign(kPageHeaderBytes + count * kElementBytes, 0);
    for (std::size_t i = 0; i < count; ++i) {
        const Element& element = level.elements[i];
        const std::size_t at = kPageHeaderBytes + i * kElementBytes;
        const auto position = static_cast<std::uint32_t>(page_.size() - at + data_bytes);
        std::uint8_t* header = page_.data() + at;
        if (leaf) {
            store(header, element.flags);
            store(header + 4, position);
            store(header + 8, element.key_bytes);
            store(header + 12, element.value_bytes);
        } else {
            store(header, position);
            store(header + 4, element.key_bytes);
            store(header + 8, element.child);
        }
        data_bytes += std::size_t{element.key_bytes} + element.value_bytes;
    }
    page_.insert(page_.end(),
                 level.data.begin(),
                 level.data.begin() + static_cast<std::ptrdiff_t>(data_bytes));
    const std::uint64_t pages = (page_.size() + page_size_ - 1) / page_size_;
    page_.resize(pages * page_size_);
    const std::uint64_t id = next_page_;
    PageHeader{id, flags, static_cast<std::uint16_t>(count), static_cast<std::uint32_t>(pages - 1)}
        .encode(page_.data());
    next_page_ += pages;
    CAPSTAN_TRY(file_->append(page_));
    return id;
}

// Everything that is open becomes pages; the page of the root.
Result<std::uint64_t> Writer::end_tree() {
    CAPSTAN_TRY(flush(0, levels_[0].elements.size()));
    std::uint64_t root = 0;
    for (std::size_t level = 1; root == 0; ++level) {
        const Level& branch = levels_[level];
        if (branch.pages == 0 && branch.elements.size() == 1) {
            root = branch.elements.front().child;
        } else {
            CAPSTAN_TRY(flush(level, branch.elements.size()));
        }
    }
    levels_.assign(1, Level{});
    previous_key_.clear();
    return root;
}

Result<void> Writer::end_bucket() {
    if (bucket_.empty()) {
        return ok();
    }
    CAPSTAN_TRY(const std::uint64_t root, end_tree());
    buckets_.push_back({std::exchange(bucket_, {}), root});
    return ok();
}

Result<void> Writer::finish() {
    CAPSTAN_TRY(end_bucket());
    std::sort(buckets_.begin(), buckets_.end(), [](const Done& a, const Done& b) {
        return a.name < b.name;
    });
    for (const Done& bucket : buckets_) {
        std::array<std::uint8_t, kBucketBytes> value{};
        store(value.data(), bucket.root);
        CAPSTAN_TRY(put_element(bolt::bytes(bucket.name), value, kBucketElement));
    }
    CAPSTAN_TRY(const std::uint64_t root, end_tree());
    for (; next_page_ < kPagesMin; ++next_page_) {
        page_.assign(page_size_, 0);
        CAPSTAN_TRY(file_->append(page_));
    }
    // bbolt writes transaction n to meta n mod 2: the next one spares the newer of these.
    for (std::uint64_t at = 0; at < 2; ++at) {
        const Meta meta{page_size_, root, 0, kNoFreelist, next_page_, at == 0 ? 2u : 1u};
        page_.assign(page_size_, 0);
        PageHeader{at, kMetaPage, 0, 0}.encode(page_.data());
        const auto encoded = meta.encode();
        std::copy(encoded.begin(), encoded.end(), page_.begin() + kPageHeaderBytes);
        CAPSTAN_TRY(file_->overwrite(at * page_size_, page_));
    }
    return file_->sync();
}

}  // namespace capstan::steward::bolt
