// What the fake S3 server does with its bucket.
#include "plugins/steward-bridge/store/encoding.hpp"
#include "plugins/steward-bridge/store/fake_s3.hpp"

#include <algorithm>
#include <cstdlib>

namespace capstan::steward::testing {
namespace {

std::string tag(const std::string& name, const std::string& text) {
    return "<" + name + ">" + text + "</" + name + ">";
}

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
    }
    return out;
}

}  // namespace

void FakeS3::put(const std::string& key, std::string bytes) {
    const std::string number = std::to_string(++counter_);
    Version version{versioned ? "version-" + number : "",
                    std::move(bytes),
                    "\"etag-" + number + "\"",
                    pace_.now + clock_ahead,
                    false};
    if (!versioned) {
        objects[key].clear();
    }
    objects[key].push_back(std::move(version));
}

const FakeS3::Version* FakeS3::newest(const std::string& key) const {
    const auto found = objects.find(key);
    return found == objects.end() || found->second.empty() || found->second.back().is_marker
               ? nullptr
               : &found->second.back();
}

const FakeS3::Version* FakeS3::find(const Asked& asked) const {
    if (!asked.has("versionId")) {
        return newest(asked.key);
    }
    const auto found = objects.find(asked.key);
    if (found != objects.end()) {
        for (const Version& version : found->second) {
            if (version.id == asked.get("versionId")) {
                return &version;
            }
        }
    }
    return nullptr;
}

HeaderList FakeS3::describe(const Version& version) const {
    HeaderList out{{"etag", version.etag}, {"last-modified", "Fri, 24 May 2013 00:00:00 GMT"}};
    if (!version.id.empty()) {
        out.emplace_back("x-amz-version-id", version.id);
    }
    return out;
}

FakeS3::Reply FakeS3::bucket(const Asked& asked) {
    if (asked.has("versioning")) {
        return {200,
                {},
                tag("VersioningConfiguration", versioned ? tag("Status", versioning_status) : "")};
    }
    if (asked.has("object-lock")) {
        return lock_configuration.empty() ? error(404, "ObjectLockConfigurationNotFoundError")
                                          : Reply{200, {}, lock_configuration};
    }
    if (asked.has("uploads")) {
        return list_uploads(asked);
    }
    return asked.has("versions") ? list_versions(asked) : list(asked);
}

FakeS3::Reply FakeS3::object(const Asked& asked) {
    if (asked.has("tagging")) {
        return {200, {}, tag("Tagging", tag("TagSet", tags[asked.key]))};
    }
    if (asked.has("uploads") || asked.has("uploadId")) {
        return parts(asked);
    }
    if (asked.method == "PUT") {
        return store(asked);
    }
    return asked.method == "DELETE" ? remove(asked) : get(asked);
}

FakeS3::Reply FakeS3::get(const Asked& asked) {
    const Version* const version = find(asked);
    if (version == nullptr) {
        return error(404, "NoSuchKey");
    }
    if (asked.headers.count("if-match") != 0 && asked.header("if-match") != version->etag) {
        return error(412, "PreconditionFailed");
    }
    Reply reply{200, describe(*version), version->bytes};
    const std::string range = asked.header("range");
    if (!range.empty()) {
        const std::size_t from = std::strtoull(range.c_str() + 6, nullptr, 10);
        if (from >= version->bytes.size()) {
            return error(416, "InvalidRange");
        }
        reply.status = 206;
        reply.body = version->bytes.substr(from);
    }
    reply.headers.emplace_back("content-length", std::to_string(reply.body.size()));
    return reply;
}

std::optional<FakeS3::Reply> FakeS3::unmet(const Asked& asked) {
    const Version* const there = newest(asked.key);
    if (!honours_conditions) {
        return std::nullopt;
    }
    if (asked.header("if-none-match") == "*" && there != nullptr) {
        return error(412, "PreconditionFailed");
    }
    if (asked.headers.count("if-match") != 0 && there == nullptr) {
        return error(404, "NoSuchKey");
    }
    if (asked.headers.count("if-match") != 0 && asked.header("if-match") != there->etag) {
        return error(412, "PreconditionFailed");
    }
    return std::nullopt;
}

FakeS3::Reply FakeS3::store(const Asked& asked) {
    if (auto refused = unmet(asked)) {
        return *refused;
    }
    put(asked.key, asked.body);
    return {200, describe(*newest(asked.key)), ""};
}

FakeS3::Reply FakeS3::parts(const Asked& asked) {
    const std::string id = asked.get("uploadId");
    if (asked.has("uploads")) {
        const std::string made = "upload-" + std::to_string(++counter_);
        uploads[made] = {asked.key, pace_.now};
        return {200, {}, tag("InitiateMultipartUploadResult", tag("UploadId", made))};
    }
    const auto upload = uploads.find(id);
    if (upload == uploads.end()) {
        return error(404, "NoSuchUpload");
    }
    if (asked.method == "DELETE") {
        uploads.erase(upload);
        return {204, {}, ""};
    }
    if (asked.method == "PUT") {
        const std::string part = asked.get("partNumber");
        upload->second.parts[std::atoi(part.c_str())] = asked.body;
        return {200, {{"etag", "\"part-" + part + "\""}}, ""};
    }
    if (auto refused = unmet(asked)) {
        return *refused;
    }
    std::string whole;
    for (const auto& [number, bytes] : upload->second.parts) {
        const std::string named = tag("PartNumber", std::to_string(number)) +
                                  tag("ETag", "\"part-" + std::to_string(number) + "\"");
        if (asked.body.find(named) == std::string::npos) {
            return error(400, "InvalidPart");
        }
        whole += bytes;
    }
    put(asked.key, whole);
    Version& made = objects[asked.key].back();
    made.etag.insert(made.etag.size() - 1, "-" + std::to_string(upload->second.parts.size()));
    uploads.erase(upload);
    return {200, {}, "  \n" + tag("CompleteMultipartUploadResult", tag("ETag", made.etag))};
}

FakeS3::Reply FakeS3::remove(const Asked& asked) {
    auto& versions = objects[asked.key];
    if (asked.has("versionId")) {
        std::erase_if(versions, [&](const Version& v) { return v.id == asked.get("versionId"); });
    } else if (versioned) {
        versions.push_back({"marker-" + std::to_string(++counter_), "", "", pace_.now, true});
    } else {
        versions.clear();
    }
    if (versions.empty()) {
        objects.erase(asked.key);
    }
    return {204, {}, ""};
}

std::string FakeS3::encode(const std::string& key) const {
    if (!url_encoding) {
        return escaped(key);
    }
    std::string out = uri_encode(key, true);  // a space as "+", as S3 has it
    for (std::size_t at = 0; (at = out.find("%20", at)) != std::string::npos;) {
        out.replace(at, 3, "+");
    }
    return out;
}

FakeS3::Reply FakeS3::list(const Asked& asked) {
    const std::string prefix = asked.get("prefix");
    const int page = std::atoi(asked.get("max-keys").c_str());
    std::string body, next;
    int count = 0;
    for (const auto& [key, versions] : objects) {
        if (!key.starts_with(prefix) || newest(key) == nullptr ||
            key <= asked.get("continuation-token")) {
            continue;
        }
        if (count == page) {
            body += tag("IsTruncated", "true") + tag("NextContinuationToken", escaped(next));
            break;
        }
        ++count;
        next = key;
        body += tag("Contents",
                    tag("Key", encode(key)) + tag("LastModified", "2013-05-24T00:00:00.000Z") +
                        tag("ETag", newest(key)->etag) +
                        tag("Size", std::to_string(newest(key)->bytes.size())));
    }
    body += url_encoding ? tag("EncodingType", "url") : "";
    return {200, {}, tag("ListBucketResult", body)};
}

// Pages of one.
FakeS3::Reply FakeS3::list_uploads(const Asked& asked) const {
    for (const auto& [id, upload] : uploads) {
        if (upload.key.starts_with(asked.get("prefix")) && id > asked.get("upload-id-marker")) {
            return {200,
                    {},
                    tag("ListMultipartUploadsResult",
                        tag("Upload",
                            tag("Key", escaped(upload.key)) + tag("UploadId", id) +
                                tag("Initiated", to_rfc3339(upload.begun))) +
                            tag("IsTruncated", "true") + tag("NextKeyMarker", escaped(upload.key)) +
                            tag("NextUploadIdMarker", id))};
        }
    }
    return {200, {}, tag("ListMultipartUploadsResult", tag("IsTruncated", "false"))};
}

FakeS3::Reply FakeS3::list_versions(const Asked& asked) {
    const std::string prefix = asked.get("prefix");
    const std::pair<std::string, std::string> marker{asked.get("key-marker"),
                                                     asked.get("version-id-marker")};
    const int page = std::atoi(asked.get("max-keys").c_str());
    std::string body, last_key, last_id;
    int count = 0;
    bool behind = marker.first.empty();
    bool truncated = false;
    for (const auto& [key, versions] : objects) {
        for (auto v = versions.rbegin(); v != versions.rend() && key.starts_with(prefix); ++v) {
            if (!behind) {
                behind = key == marker.first && v->id == marker.second;
                continue;
            }
            if (count == page) {
                truncated = true;
                break;
            }
            ++count;
            last_key = key;
            last_id = v->id;
            body += tag(v->is_marker ? "DeleteMarker" : "Version",
                        tag("Key", encode(key)) + tag("VersionId", v->id) +
                            tag("LastModified", to_rfc3339(v->modified)) +
                            (v->is_marker ? "" : tag("Size", std::to_string(v->bytes.size()))));
        }
    }
    if (truncated) {
        body += tag("IsTruncated", "true") + tag("NextKeyMarker", encode(last_key)) +
                tag("NextVersionIdMarker", last_id);
    }
    body += url_encoding ? tag("EncodingType", "url") : "";
    return {200, {}, tag("ListVersionsResult", body)};
}

}  // namespace capstan::steward::testing
