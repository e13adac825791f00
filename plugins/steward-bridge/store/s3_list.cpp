// Listing a bucket in pages, without and with versions.
#include "plugins/steward-bridge/store/encoding.hpp"
#include "plugins/steward-bridge/store/s3_store.hpp"
#include "plugins/steward-bridge/store/xml.hpp"

#include <algorithm>
#include <charconv>
#include <map>

namespace capstan::steward::s3 {
namespace {

constexpr const char* kExcludeTag = "x-etcd-snapshot-exclude";
constexpr int kDaysPerYear = 365;

template <class Integer>
Result<Integer> number_of(const XmlElement& element) {
    Integer value{};
    const char* const end = element.text.data() + element.text.size();
    const auto [stop, error] = std::from_chars(element.text.data(), end, value);
    if (error != std::errc() || stop != end) {
        return fail(Code::invalid, element.path + " is no number: " + quote_foreign(element.text));
    }
    return value;
}

// One answer of either listing.
struct Page {
    struct Entry {
        ObjectInfo info;
        bool is_marker{false};  // a delete marker
    };
    std::vector<Entry> entries;
    bool truncated{false};
    bool encoded{false};  // keys are written as in URLs
    std::string token, key_marker, version_marker;
};

class PageReader {
public:
    explicit PageReader(std::string root) : root_(std::move(root)) {}

    Result<Page> read(std::string_view document) {
        XmlReader reader(document);
        while (true) {
            CAPSTAN_TRY(const auto element, reader.next());
            if (!element) {
                break;
            }
            const std::string_view path = element->path;
            if (path.starts_with(root_ + "/")) {
                CAPSTAN_TRY(take(path.substr(root_.size() + 1), *element));
            }
            complete_ = complete_ || path == root_;
        }
        if (!complete_) {
            return fail(Code::invalid, "the answer is no " + root_);
        }
        CAPSTAN_TRY(decode());
        return std::move(page_);
    }

private:
    Result<void> take(std::string_view name, const XmlElement& element) {
        if (name == "IsTruncated") {
            page_.truncated = element.text == "true";
        } else if (name == "EncodingType") {
            page_.encoded = element.text == "url";
        } else if (name == "NextContinuationToken") {
            page_.token = element.text;
        } else if (name == "NextKeyMarker") {
            page_.key_marker = element.text;
        } else if (name == "NextVersionIdMarker") {
            page_.version_marker = element.text;
        } else if (name == "Contents" || name == "Version" || name == "DeleteMarker") {
            entry_.is_marker = name == "DeleteMarker";
            if (entry_.info.key.empty()) {
                return fail(Code::invalid, element.path + " without a key");
            }
            page_.entries.push_back(std::exchange(entry_, {}));
        } else {
            return take_field(name.substr(name.find('/') + 1), element);
        }
        return ok();
    }
    Result<void> take_field(std::string_view field, const XmlElement& element) {
        ObjectInfo& info = entry_.info;
        if (field == "Key") {
            info.key = element.text;
        } else if (field == "VersionId") {
            info.version = element.text;
        } else if (field == "ETag") {
            info.etag = element.text;
        } else if (field == "Size") {
            CAPSTAN_TRY(info.bytes, number_of<std::uint64_t>(element));
        } else if (field == "LastModified") {
            const auto time = parse_rfc3339(element.text);
            if (!time) {
                return fail(Code::invalid,
                            element.path + " is no time: " + quote_foreign(element.text));
            }
            info.modified = *time;
        }
        return ok();
    }
    Result<void> decode() {
        if (!page_.encoded) {
            return ok();
        }
        const auto plain = [](std::string& text) -> Result<void> {
            std::replace(text.begin(), text.end(), '+', ' ');  // as forms are written
            auto decoded = uri_decode(text);
            if (!decoded) {
                return fail(Code::invalid, "a key is escaped wrongly: " + quote_foreign(text));
            }
            text = std::move(*decoded);
            return ok();
        };
        CAPSTAN_TRY(plain(page_.key_marker));
        for (Page::Entry& entry : page_.entries) {
            CAPSTAN_TRY(plain(entry.info.key));
        }
        return ok();
    }

    const std::string root_;
    Page page_;
    Page::Entry entry_;
    bool complete_{false};
};

Result<Page> get_page(S3Client& client, const S3Call& call, const std::string& root) {
    CAPSTAN_TRY(const S3Answer answer, client.expect(call));
    auto page = PageReader(root).read(answer.body);
    if (!page) {
        return fail(with_context(page.error(), client.where(call)));
    }
    return page;
}

S3Call list_call(const char* operation, std::string_view prefix, const ListOptions& options) {
    S3Call call{operation, "GET"};
    call.query = {{"prefix", std::string(prefix)},
                  {"max-keys", std::to_string(options.page_keys)},
                  {"encoding-type", "url"}};
    return call;
}

auto endless(const S3Client& client, const S3Call& call) {
    return fail(Code::invalid,
                client.where(call) + ": the store says there is more, but not from where on");
}

// What is known of one key, folded over its versions.
struct Folded {
    std::optional<ObjectInfo> oldest;
    bool has_marker{false};

    void take(const Page::Entry& entry) {
        has_marker = has_marker || entry.is_marker;
        if (!entry.is_marker && (!oldest || entry.info.modified <= oldest->modified)) {
            oldest = entry.info;
        }
    }
};

Result<bool> is_excluded(S3Client& client, const ObjectInfo& object) {
    S3Call call{"GetObjectTagging", "GET", object.key};
    call.right = "s3:GetObjectVersionTagging";
    call.query = {{"tagging", ""}, {"versionId", object.version}};
    CAPSTAN_TRY(const S3Answer answer, client.send(call));
    if (answer.status == 404) {
        return false;
    }
    if (!answer.ok()) {
        return fail(client.error_of(call, answer));
    }
    XmlReader reader(answer.body);
    std::string name, value;
    while (true) {
        CAPSTAN_TRY(const auto element, reader.next());
        if (!element) {
            return false;
        }
        if (element->path == "Tagging/TagSet/Tag/Key") {
            name = element->text;
        } else if (element->path == "Tagging/TagSet/Tag/Value") {
            value = element->text;
        } else if (element->path == "Tagging/TagSet/Tag" && name == kExcludeTag &&
                   value == "true") {
            return true;
        }
    }
}

class VersionLister {
public:
    VersionLister(S3Client& client,
                  const ListOptions& options,
                  std::optional<std::chrono::days> retention,
                  const OnPage& on_page)
        : client_(client), options_(options), retention_(retention), on_page_(on_page) {}

    // False: enough. The versions of the page's last key may go on in the next one.
    Result<bool> take(const Page& page) {
        for (const Page::Entry& entry : page.entries) {
            keys_[entry.info.key].take(entry);
        }
        std::vector<ObjectInfo> out;
        while (keys_.size() > (page.truncated ? 1u : 0u)) {
            const auto first = keys_.extract(keys_.begin());
            CAPSTAN_TRY(const bool visible, is_visible(first.mapped()));
            if (visible) {
                out.push_back(*first.mapped().oldest);
                if (retention_) {
                    out.back().locked_until = out.back().modified + *retention_;
                }
            }
        }
        return out.empty() ? Result<bool>(true) : on_page_(out);
    }

private:
    // The peer hides only what has a delete marker and the tag.
    Result<bool> is_visible(const Folded& key) {
        if (!key.oldest) {
            return false;
        }
        if (options_.include_excluded || !key.has_marker) {
            return true;
        }
        CAPSTAN_TRY(const bool excluded, is_excluded(client_, *key.oldest));
        return !excluded;
    }

    S3Client& client_;
    const ListOptions& options_;
    const std::optional<std::chrono::days> retention_;
    const OnPage& on_page_;
    std::map<std::string, Folded> keys_;  // of one page, and the last key of the one before
};

}  // namespace

Result<void> list_objects(S3Client& client,
                          std::string_view prefix,
                          const ListOptions& options,
                          const OnPage& on_page) {
    S3Call call = list_call("ListObjectsV2", prefix, options);
    call.right = "s3:ListBucket";
    call.query.emplace_back("list-type", "2");
    const HeaderList first = call.query;
    std::string token;
    while (true) {
        CAPSTAN_TRY(Page page, get_page(client, call, "ListBucketResult"));
        std::vector<ObjectInfo> objects;
        for (Page::Entry& entry : page.entries) {
            objects.push_back(std::move(entry.info));
        }
        if (!objects.empty()) {
            CAPSTAN_TRY(const bool more, on_page(objects));
            if (!more) {
                return ok();
            }
        }
        if (!page.truncated) {
            return ok();
        }
        if (page.token.empty() || page.token == token) {
            return endless(client, call);
        }
        token = page.token;
        call.query = first;
        call.query.emplace_back("continuation-token", token);
    }
}

Result<void> list_versions(S3Client& client,
                           std::string_view prefix,
                           const ListOptions& options,
                           std::optional<std::chrono::days> retention,
                           const OnPage& on_page) {
    S3Call call = list_call("ListObjectVersions", prefix, options);
    call.right = "s3:ListBucketVersions";
    call.query.emplace_back("versions", "");
    const HeaderList first = call.query;
    VersionLister lister(client, options, retention, on_page);
    std::pair<std::string, std::string> marker;
    while (true) {
        CAPSTAN_TRY(const Page page, get_page(client, call, "ListVersionsResult"));
        CAPSTAN_TRY(const bool more, lister.take(page));
        if (!more || !page.truncated) {
            return ok();
        }
        std::pair<std::string, std::string> next{page.key_marker, page.version_marker};
        if (next.first.empty() || next == marker) {
            return endless(client, call);
        }
        marker = std::move(next);
        call.query = first;
        call.query.emplace_back("key-marker", marker.first);
        if (!marker.second.empty()) {
            call.query.emplace_back("version-id-marker", marker.second);
        }
    }
}

Result<bool> keeps_versions(S3Client& client) {
    S3Call call{"GetBucketVersioning", "GET"};
    call.query = {{"versioning", ""}};
    CAPSTAN_TRY(const S3Answer answer, client.send(call));
    if (answer.status == 501 || answer.status == 405 ||
        (answer.status == 400 && answer.problem.code == "NotImplemented")) {
        return false;
    }
    if (!answer.ok()) {
        return fail(client.error_of(call, answer));
    }
    XmlReader reader(answer.body);
    bool enabled = false;
    while (true) {
        CAPSTAN_TRY(const auto element, reader.next());
        if (!element) {
            return enabled;
        }
        enabled = enabled ||
                  (element->path == "VersioningConfiguration/Status" && element->text == "Enabled");
    }
}

Result<std::optional<std::chrono::days>> retention_of(S3Client& client) {
    S3Call call{"GetObjectLockConfiguration", "GET"};
    call.right = "s3:GetBucketObjectLockConfiguration";
    call.query = {{"object-lock", ""}};
    CAPSTAN_TRY(const S3Answer answer, client.send(call));
    const bool none = answer.status == 501 || answer.status == 405 || answer.status == 400 ||
                      (answer.status == 404 && answer.problem.code != "NoSuchBucket");
    std::optional<std::chrono::days> days;
    if (none) {
        return days;
    }
    if (!answer.ok()) {
        return fail(client.error_of(call, answer));
    }
    XmlReader reader(answer.body);
    while (true) {
        CAPSTAN_TRY(const auto element, reader.next());
        if (!element) {
            return days;
        }
        if (element->path == "ObjectLockConfiguration/Rule/DefaultRetention/Days") {
            CAPSTAN_TRY(const int count, number_of<int>(*element));
            days = std::chrono::days(count);
        } else if (element->path == "ObjectLockConfiguration/Rule/DefaultRetention/Years") {
            CAPSTAN_TRY(const int count, number_of<int>(*element));
            days = std::chrono::days(count * kDaysPerYear);
        }
    }
}

}  // namespace capstan::steward::s3
