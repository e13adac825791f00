#include "plugins/steward-bridge/store/s3_store.hpp"

#include "plugins/steward-bridge/store/encoding.hpp"

#include <charconv>

namespace capstan::steward {

namespace s3 {

ObjectInfo info_of(const std::string& key, const HeaderList& headers) {
    ObjectInfo info;
    info.key = key;
    info.version = header_of(headers, "x-amz-version-id");
    const std::string_view length = header_of(headers, "content-length");
    std::from_chars(length.data(), length.data() + length.size(), info.bytes);
    info.etag = header_of(headers, "etag");
    info.modified = parse_http_date(header_of(headers, "last-modified")).value_or(WallTime{});
    info.locked_until = parse_rfc3339(header_of(headers, "x-amz-object-lock-retain-until-date"));
    if (header_of(headers, "x-amz-object-lock-legal-hold") == "ON") {
        info.locked_until = WallTime::max();
    }
    return info;
}

HeaderList version_query(const std::string& version) {
    return version.empty() ? HeaderList() : HeaderList{{"versionId", version}};
}

}  // namespace s3

Result<std::unique_ptr<S3Store>> S3Store::connect(const S3Parts& parts, const S3Options& options) {
    if (options.part_bytes < kPartBytesMin) {
        return fail(Code::invalid,
                    "min-chunk-size is " + std::to_string(options.part_bytes) +
                        "; S3 takes parts of at least 5242880 bytes");
    }
    CAPSTAN_TRY(S3Access access, S3Access::open(parts, options.bucket));
    return std::make_unique<S3Store>(Opening{}, parts, options, std::move(access));
}

S3Store::S3Store(Opening, const S3Parts& parts, S3Options options, S3Access access)
    : parts_(parts),
      options_(std::move(options)),
      access_(std::move(access)),
      client_(access_, parts_, options_.bucket) {}

std::string S3Store::describe() const {
    return "bucket " + options_.bucket + " at " + access_.address().base;
}

Result<void> S3Store::list(std::string_view prefix,
                           const ListOptions& options,
                           const OnPage& on_page) {
    std::string folder(prefix);
    if (!folder.empty()) {
        CAPSTAN_TRY(check_key(folder));
        folder += '/';
    }
    access_.refresh();
    CAPSTAN_TRY(const bool versions, s3::keeps_versions(client_));
    if (!versions) {
        return s3::list_objects(client_, folder, options, on_page);
    }
    // Without the right to ask, removing tells what is locked.
    const auto retention = s3::retention_of(client_);
    return s3::list_versions(
        client_, folder, options, retention ? retention.value() : std::nullopt, on_page);
}

Result<std::unique_ptr<Source>> S3Store::open(const ObjectName& name, std::uint64_t offset) {
    CAPSTAN_TRY(check_key(name.key));
    access_.refresh();
    return s3::open_object(client_, parts_.pace, name, offset);
}

Result<std::unique_ptr<Sink>> S3Store::create(const std::string& key,
                                              const CreateOptions& options) {
    CAPSTAN_TRY(check_key(key));
    access_.refresh();
    return s3::make_upload(client_, parts_.digests, key, options, options_.part_bytes);
}

Result<std::string> S3Store::put_if_absent(const std::string& key, std::string_view bytes) {
    CAPSTAN_TRY(check_key(key));
    access_.refresh();
    auto put = s3::put_object(client_, parts_.digests, key, bytes, {{"if-none-match", "*"}});
    if (!put && put.error().code == Code::conflict) {
        return fail(Code::exists, options_.bucket + "/" + key + " is there already");
    }
    return put;
}

Result<std::string> S3Store::put_if_match(const std::string& key,
                                          std::string_view bytes,
                                          const std::string& etag) {
    CAPSTAN_TRY(check_key(key));
    access_.refresh();
    return s3::put_object(client_, parts_.digests, key, bytes, {{"if-match", etag}});
}

Result<ObjectInfo> S3Store::stat(const ObjectName& name) {
    CAPSTAN_TRY(check_key(name.key));
    access_.refresh();
    S3Call call{"HeadObject", "HEAD", name.key};
    call.right = "s3:GetObject";
    call.query = s3::version_query(name.version);
    CAPSTAN_TRY(call.headers, client_.encryption_headers());
    CAPSTAN_TRY(const S3Answer answer, client_.expect(call));
    if (header_of(answer.headers, "content-length").empty()) {
        return fail(Code::invalid, client_.where(call) + ": the store does not say the size");
    }
    return s3::info_of(name.key, answer.headers);
}

Result<void> S3Store::remove(const ObjectName& name) {
    CAPSTAN_TRY(check_key(name.key));
    access_.refresh();
    S3Call call{"DeleteObject", "DELETE", name.key};
    call.query = s3::version_query(name.version);
    call.right = name.version.empty() ? "s3:DeleteObject" : "s3:DeleteObjectVersion";
    CAPSTAN_TRY(const S3Answer answer, client_.send(call));
    const bool gone = answer.status == 404 && answer.problem.code != "NoSuchBucket";
    if (!answer.ok() && !gone) {
        return fail(client_.error_of(call, answer));
    }
    return capstan::ok();
}

Result<std::size_t> S3Store::remove_unfinished(std::string_view prefix, WallTime before) {
    std::string folder(prefix);
    if (!folder.empty()) {
        CAPSTAN_TRY(check_key(folder));
        folder += '/';
    }
    access_.refresh();
    return s3::remove_uploads(client_, folder, before);
}

Result<std::optional<std::chrono::days>> S3Store::default_retention() {
    access_.refresh();
    return s3::retention_of(client_);
}

}  // namespace capstan::steward
