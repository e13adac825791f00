// Uploads that nobody finished: they are not listed as objects, but paid for.
#include "plugins/steward-bridge/store/encoding.hpp"
#include "plugins/steward-bridge/store/s3_store.hpp"
#include "plugins/steward-bridge/store/xml.hpp"

namespace capstan::steward::s3 {
namespace {

struct OpenUpload {
    std::string key, id;
    WallTime begun{};
};

struct UploadPage {
    std::vector<OpenUpload> uploads;
    bool truncated{false};
    std::string key_marker, id_marker;
};

// Keys are not asked for in the encoding of URLs: ours have no characters that XML lacks.
Result<UploadPage> parse_uploads(std::string_view document) {
    const std::string root = "ListMultipartUploadsResult/";
    UploadPage page;
    OpenUpload upload;
    XmlReader reader(document);
    while (true) {
        CAPSTAN_TRY(const auto element, reader.next());
        if (!element) {
            return page;
        }
        const std::string& path = element->path;
        if (path == root + "Upload/Key") {
            upload.key = element->text;
        } else if (path == root + "Upload/UploadId") {
            upload.id = element->text;
        } else if (path == root + "Upload/Initiated") {
            // Unknown: as if it were of now.
            upload.begun = parse_rfc3339(element->text).value_or(WallTime::max());
        } else if (path == root + "Upload") {
            page.uploads.push_back(std::exchange(upload, {}));
        } else if (path == root + "IsTruncated") {
            page.truncated = element->text == "true";
        } else if (path == root + "NextKeyMarker") {
            page.key_marker = element->text;
        } else if (path == root + "NextUploadIdMarker") {
            page.id_marker = element->text;
        }
    }
}

}  // namespace

Result<std::size_t> remove_uploads(S3Client& client, std::string_view prefix, WallTime before) {
    S3Call call{"ListMultipartUploads", "GET"};
    call.right = "s3:ListBucketMultipartUploads";
    call.query = {{"uploads", ""}, {"prefix", std::string(prefix)}};
    const HeaderList first = call.query;
    std::pair<std::string, std::string> marker;
    std::size_t removed = 0;
    while (true) {
        CAPSTAN_TRY(const S3Answer answer, client.expect(call));
        auto page = parse_uploads(answer.body);
        if (!page) {
            return fail(with_context(page.error(), client.where(call)));
        }
        for (const OpenUpload& upload : page.value().uploads) {
            if (upload.begun < before && upload.key.starts_with(prefix)) {
                S3Call abort{"AbortMultipartUpload", "DELETE", upload.key};
                abort.query = {{"uploadId", upload.id}};
                CAPSTAN_TRY(const S3Answer gone, client.send(abort));
                if (!gone.ok() && gone.status != 404) {
                    return fail(client.error_of(abort, gone));
                }
                ++removed;
            }
        }
        std::pair<std::string, std::string> next{page.value().key_marker, page.value().id_marker};
        if (!page.value().truncated || next.first.empty() || next == marker) {
            return removed;
        }
        marker = std::move(next);
        call.query = first;
        call.query.emplace_back("key-marker", marker.first);
        call.query.emplace_back("upload-id-marker", marker.second);
    }
}

}  // namespace capstan::steward::s3
