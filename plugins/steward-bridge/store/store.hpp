// Where backups live: objects under keys, in a directory (Local) or a bucket (S3).
//
// Keys are relative to the container, without a slash in front: "etcd-main/v2/Full-…". An object is
// there whole or not at all. Every error names the object and the remedy: not_found; forbidden
// (says which right is missing); unavailable, timeout; overloaded (full, or asked to wait); invalid
// (the configuration, or damaged data); cancelled. Thread: one at a time per store and its streams.
#pragma once

#include "plugins/steward-bridge/stream/stream.hpp"

#include "capstan/clock.hpp"
#include "capstan/error.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::steward {

inline constexpr std::size_t kKeyBytesMax = 1024;      // S3's limit
inline constexpr std::size_t kPageKeys = 1000;         // S3's limit
inline constexpr std::size_t kFenceBytesMax = 65'536;  // of an object of put_if_…

struct ObjectName {
    std::string key;
    std::string version{};  // empty: the newest, or the only one
};

struct ObjectInfo {
    std::string key;
    std::string version;  // empty where the store keeps none
    std::uint64_t bytes{0};
    std::string etag;  // differs when the content does; for put_if_match
    WallTime modified{};
    std::optional<WallTime> locked_until;  // removing fails before; as far as the store tells

    ObjectName name() const { return {key, version}; }
};

struct ListOptions {
    bool include_excluded{false};  // also what carries x-etcd-snapshot-exclude=true (S3)
    std::size_t page_keys{kPageKeys};
};

// One page in key order; false: enough, the listing ends well.
using OnPage = std::function<Result<bool>(std::span<const ObjectInfo>)>;

struct CreateOptions {
    bool if_absent{false};         // finish() fails with `exists` when the key is taken
    std::uint64_t bytes_about{0};  // a guess of the size for large parts; 0: unknown
};

class ObjectStore {
public:
    virtual ~ObjectStore() = default;

    // Everything below prefix + "/", or all for "". What is not there is an empty listing.
    virtual Result<void> list(std::string_view prefix,
                              const ListOptions& options,
                              const OnPage& on_page) = 0;
    // The bytes from `offset` on. The stream is of one content, also when the object is replaced
    // meanwhile. Errors: not_found, also invalid for an offset behind the end.
    virtual Result<std::unique_ptr<Source>> open(const ObjectName& name, std::uint64_t offset) = 0;
    // Replaces on finish(), durably; nothing is visible before, nor after a failure. Lives no
    // longer than the store.
    virtual Result<std::unique_ptr<Sink>> create(const std::string& key,
                                                 const CreateOptions& options) = 0;
    // Fences: at most one of several callers succeeds. Gives the new etag. Errors: exists.
    virtual Result<std::string> put_if_absent(const std::string& key, std::string_view bytes) = 0;
    // Errors: conflict (another etag, or being replaced), not_found.
    virtual Result<std::string> put_if_match(const std::string& key,
                                             std::string_view bytes,
                                             const std::string& etag) = 0;
    virtual Result<ObjectInfo> stat(const ObjectName& name) = 0;
    // ok also when it is not there.
    virtual Result<void> remove(const ObjectName& name) = 0;
    // Gives up uploads below prefix + "/" that were begun before `before` and never finished, so of
    // processes that died; how many. Local: done when the store is opened.
    virtual Result<std::size_t> remove_unfinished(std::string_view prefix, WallTime before) = 0;
    // How long the container keeps what is new from being removed; nullopt: not.
    virtual Result<std::optional<std::chrono::days>> default_retention() = 0;
    // "directory /backups", "bucket b at https://…": for messages, without secrets.
    virtual std::string describe() const = 0;
};

// Errors: invalid (empty, too long, "/" in front or behind, an empty, "." or ".." part, a zero
// byte, the store's own folder for unfinished files).
Result<void> check_key(std::string_view key);

// Errors: too_large above `bytes_max`.
Result<std::string> read_object(ObjectStore& store, const ObjectName& name, std::size_t bytes_max);
Result<void> write_object(ObjectStore& store, const std::string& key, std::string_view bytes);
Result<std::vector<ObjectInfo>> list_all(ObjectStore& store,
                                         std::string_view prefix,
                                         const ListOptions& options = {});

struct CheckStep {
    std::string name;     // "write", "list", "read", "compare", "fence", "delete"
    std::string problem;  // one sentence; empty: fine
};

struct StoreCheck {
    std::vector<CheckStep> steps;  // in order; what made no sense any more is left out
    bool ok() const noexcept;
};

// Tries what backups need, with objects below prefix/capstan/ that are gone afterwards. `token`
// tells concurrent checks apart: letters and digits.
StoreCheck check_store(ObjectStore& store, std::string_view prefix, std::string_view token);

}  // namespace capstan::steward
