// Backups in an S3 bucket, or in anything that speaks its protocol.
//
// Small objects are one PUT, larger ones a multipart upload whose parts are kept in memory until
// the store has them; each carries its SHA-256. Readers continue where a connection broke. A bucket
// with versions is listed by its oldest version of each key, as etcd-backup-restore does.
#pragma once

#include "plugins/steward-bridge/store/s3_client.hpp"
#include "plugins/steward-bridge/store/store.hpp"

namespace capstan::steward {

inline constexpr std::uint64_t kPartBytesMin = 5u * 1024 * 1024;  // S3's limit
inline constexpr std::uint64_t kPartsMax = 10'000;                // S3's limit

struct S3Options {
    std::string bucket;
    std::uint64_t part_bytes{kPartBytesMin};  // at least; grows for objects above 50 GB
};

class S3Store final : public ObjectStore {
    struct Opening {};  // only connect() makes stores

public:
    // Sends nothing yet. Errors: as S3Access::open; invalid (a part below kPartBytesMin).
    static Result<std::unique_ptr<S3Store>> connect(const S3Parts& parts, const S3Options& options);
    S3Store(Opening, const S3Parts& parts, S3Options options, S3Access access);
    S3Store(const S3Store&) = delete;
    S3Store& operator=(const S3Store&) = delete;

    Result<void> list(std::string_view prefix,
                      const ListOptions& options,
                      const OnPage& on_page) override;
    Result<std::unique_ptr<Source>> open(const ObjectName& name, std::uint64_t offset) override;
    Result<std::unique_ptr<Sink>> create(const std::string& key,
                                         const CreateOptions& options) override;
    Result<std::string> put_if_absent(const std::string& key, std::string_view bytes) override;
    Result<std::string> put_if_match(const std::string& key,
                                     std::string_view bytes,
                                     const std::string& etag) override;
    Result<ObjectInfo> stat(const ObjectName& name) override;
    Result<void> remove(const ObjectName& name) override;
    Result<std::size_t> remove_unfinished(std::string_view prefix, WallTime before) override;
    Result<std::optional<std::chrono::days>> default_retention() override;
    std::string describe() const override;

private:
    const S3Parts parts_;
    const S3Options options_;
    S3Access access_;
    S3Client client_;
};

namespace s3 {

// An object's headers as HEAD, GET and PUT give them.
ObjectInfo info_of(const std::string& key, const HeaderList& headers);
HeaderList version_query(const std::string& version);

// One PUT; `condition` is {"if-none-match", "*"} and the like. The first try may have been the one
// that took effect: then what is there is compared. Gives the etag. Errors: conflict when the
// condition does not hold.
Result<std::string> put_object(S3Client& client,
                               Digests& digests,
                               const std::string& key,
                               std::string_view bytes,
                               const HeaderList& condition);

Result<std::unique_ptr<Source>> open_object(S3Client& client,
                                            Pace& pace,
                                            const ObjectName& name,
                                            std::uint64_t offset);

std::unique_ptr<Sink> make_upload(S3Client& client,
                                  Digests& digests,
                                  const std::string& key,
                                  const CreateOptions& options,
                                  std::uint64_t part_bytes);

Result<void> list_objects(S3Client& client,
                          std::string_view prefix,
                          const ListOptions& options,
                          const OnPage& on_page);
Result<void> list_versions(S3Client& client,
                           std::string_view prefix,
                           const ListOptions& options,
                           std::optional<std::chrono::days> retention,
                           const OnPage& on_page);
Result<std::size_t> remove_uploads(S3Client& client, std::string_view prefix, WallTime before);
// Errors: forbidden (the right to ask is missing); a store that has no versions says false.
Result<bool> keeps_versions(S3Client& client);
Result<std::optional<std::chrono::days>> retention_of(S3Client& client);

}  // namespace s3
}  // namespace capstan::steward
