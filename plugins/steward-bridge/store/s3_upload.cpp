// Writing objects: one PUT when they are small, parts when they are not.
#include "plugins/steward-bridge/store/encoding.hpp"
#include "plugins/steward-bridge/store/s3_store.hpp"
#include "plugins/steward-bridge/store/xml.hpp"

#include <algorithm>

namespace capstan::steward::s3 {
namespace {

// Above it parts double: 10,000 of them must be enough for an object of unknown size.
constexpr std::size_t kPartsOfOneSize = 2000;

// S3 wants it where objects are locked. Without MD5 (FIPS) the signed SHA-256 has to do.
Result<void> add_md5(Digests& digests, S3Call& call) {
    const auto md5 = md5_raw(digests, call.body);
    if (md5) {
        call.headers.emplace_back("content-md5", to_base64(md5.value()));
    } else if (md5.error().code != Code::unsupported) {
        return fail(md5.error());
    }
    return ok();
}

std::string escape_xml(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&': out += "&amp;"; break;
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            default: out += c;
        }
    }
    return out;
}

Result<std::string> text_at(std::string_view document, std::string_view path) {
    XmlReader reader(document);
    while (true) {
        CAPSTAN_TRY(auto element, reader.next());
        if (!element) {
            return fail(Code::invalid, "the store's answer holds no " + std::string(path));
        }
        if (element->path == path) {
            return std::move(element->text);
        }
    }
}

class Upload final : public Sink {
public:
    Upload(S3Client& client,
           Digests& digests,
           std::string key,
           const CreateOptions& options,
           std::uint64_t part_bytes)
        : client_(client),
          digests_(digests),
          key_(std::move(key)),
          if_absent_(options.if_absent),
          part_bytes_(std::max(part_bytes, options.bytes_about / (kPartsMax - 1) + 1)) {}
    ~Upload() override { abort(); }
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;

    Result<void> write(std::span<const std::uint8_t> bytes) override {
        if (failed_) {
            return broken();
        }
        while (!bytes.empty()) {
            // Sent only when more comes: the last part is finish()'s.
            if (buffer_.size() == part_bytes_) {
                auto sent = send_part();
                failed_ = !sent;
                CAPSTAN_TRY(std::move(sent));
            }
            const std::size_t count =
                std::min<std::size_t>(bytes.size(), part_bytes_ - buffer_.size());
            buffer_.append(reinterpret_cast<const char*>(bytes.data()), count);
            bytes = bytes.subspan(count);
        }
        return ok();
    }

    Result<void> finish() override {
        if (failed_) {
            return broken();
        }
        failed_ = true;  // until proved otherwise; nothing follows finish()
        if (upload_id_.empty()) {
            auto put = put_object(client_, digests_, key_, buffer_, condition());
            return put ? Result<void>(ok()) : Result<void>(fail(as_exists(put.error())));
        }
        CAPSTAN_TRY(send_part());
        CAPSTAN_TRY(await_part());
        return complete();
    }

private:
    HeaderList condition() const {
        return if_absent_ ? HeaderList{{"if-none-match", "*"}} : HeaderList();
    }
    Error as_exists(Error error) const {
        if (if_absent_ && error.code == Code::conflict) {
            error.code = Code::exists;
        }
        return error;
    }
    Result<void> broken() const {
        return fail(Code::unavailable, key_ + " was not uploaded whole, so it is not published");
    }

    Result<void> begin() {
        S3Call call{"CreateMultipartUpload", "POST", key_};
        call.right = "s3:PutObject";
        call.query = {{"uploads", ""}};
        CAPSTAN_TRY(call.headers, client_.encryption_headers());
        CAPSTAN_TRY(const S3Answer answer, client_.expect(call));
        auto id = text_at(answer.body, "InitiateMultipartUploadResult/UploadId");
        if (!id || id.value().empty()) {
            return fail(
                with_context(id ? Error{Code::invalid, "an empty UploadId", {}} : id.error(),
                             client_.where(call)));
        }
        upload_id_ = std::move(id).value();
        return ok();
    }

    // Sends the buffer as the next part. Its answer is awaited when the one after it is full: until
    // then the producer works.
    Result<void> send_part() {
        if (upload_id_.empty()) {
            CAPSTAN_TRY(begin());
        }
        CAPSTAN_TRY(await_part());
        if (etags_.size() == kPartsMax) {
            return fail(Code::too_large,
                        key_ + " is over 10000 parts; raise min-chunk-size of the store");
        }
        std::swap(sent_bytes_, buffer_);
        buffer_.clear();
        S3Call call{"UploadPart", "PUT", key_};
        call.right = "s3:PutObject";
        call.query = {{"partNumber", std::to_string(etags_.size() + 1)}, {"uploadId", upload_id_}};
        call.body = sent_bytes_;
        call.timeout = kS3PartTimeout;
        CAPSTAN_TRY(call.headers, client_.encryption_headers());
        CAPSTAN_TRY(add_md5(digests_, call));
        started_.emplace(client_.start(call));
        sent_ = std::move(call);
        return ok();
    }

    Result<void> await_part() {
        if (!started_) {
            return ok();
        }
        Result<S3Started> started = std::move(*started_);
        started_.reset();
        CAPSTAN_TRY(const S3Answer answer, client_.finish(sent_, std::move(started)));
        if (!answer.ok()) {
            return fail(client_.error_of(sent_, answer));
        }
        etags_.emplace_back(header_of(answer.headers, "etag"));
        if (etags_.back().empty()) {
            return fail(Code::invalid,
                        client_.where(sent_) + ": the store gave no ETag for a part");
        }
        bytes_ += sent_bytes_.size();
        if (etags_.size() % kPartsOfOneSize == 0) {
            part_bytes_ *= 2;
        }
        return ok();
    }

    Result<void> complete() {
        std::string body =
            "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
        for (std::size_t i = 0; i < etags_.size(); ++i) {
            body += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" +
                    escape_xml(etags_[i]) + "</ETag></Part>";
        }
        body += "</CompleteMultipartUpload>";
        S3Call call{"CompleteMultipartUpload", "POST", key_};
        call.right = "s3:PutObject";
        call.query = {{"uploadId", upload_id_}};
        call.headers = condition();
        call.body = body;
        call.timeout = kS3PartTimeout;
        call.error_in_success = true;
        CAPSTAN_TRY(const S3Answer answer, client_.send(call));
        if (!answer.ok()) {
            // An earlier try may have completed it: then the upload is gone and the object there.
            if (answer.repeated && (answer.status == 404 || answer.status == 412) && is_ours()) {
                upload_id_.clear();
                return ok();
            }
            return fail(as_exists(client_.error_of(call, answer)));
        }
        CAPSTAN_TRY(text_at(answer.body, "CompleteMultipartUploadResult/ETag"));
        upload_id_.clear();
        return ok();
    }

    // The etag of a completed upload ends in the number of its parts.
    bool is_ours() {
        S3Call call{"HeadObject", "HEAD", key_};
        call.right = "s3:GetObject";
        auto headers = client_.encryption_headers();
        if (!headers) {
            return false;
        }
        call.headers = std::move(headers).value();
        const auto answer = client_.expect(call);
        if (!answer) {
            return false;
        }
        const ObjectInfo info = info_of(key_, answer.value().headers);
        std::string etag = info.etag;
        std::erase(etag, '"');
        return info.bytes == bytes_ && etag.ends_with("-" + std::to_string(etags_.size()));
    }

    // What cannot be aborted now is for the bucket's lifecycle rule.
    void abort() {
        started_.reset();
        if (upload_id_.empty()) {
            return;
        }
        S3Call call{"AbortMultipartUpload", "DELETE", key_};
        call.query = {{"uploadId", upload_id_}};
        call.once = true;
        const auto answer = client_.send(call);
        static_cast<void>(answer);
    }

    S3Client& client_;
    Digests& digests_;
    const std::string key_;
    const bool if_absent_;
    std::uint64_t part_bytes_;
    std::string buffer_;
    std::string sent_bytes_;  // of the part that is out
    S3Call sent_;
    std::optional<Result<S3Started>> started_;
    std::string upload_id_;  // empty: nothing to abort
    std::vector<std::string> etags_;
    std::uint64_t bytes_{0};
    bool failed_{false};
};

// Whether an earlier try of a conditional PUT was the one that holds the place now.
Result<bool> holds(S3Client& client, const std::string& key, std::string_view bytes) {
    S3Call call{"GetObject", "GET", key};
    CAPSTAN_TRY(call.headers, client.encryption_headers());
    CAPSTAN_TRY(const S3Answer answer, client.send(call));
    return answer.ok() && answer.body == bytes;
}

}  // namespace

Result<std::string> put_object(S3Client& client,
                               Digests& digests,
                               const std::string& key,
                               std::string_view bytes,
                               const HeaderList& condition) {
    S3Call call{"PutObject", "PUT", key};
    call.body = bytes;
    call.timeout = kS3PartTimeout;
    CAPSTAN_TRY(call.headers, client.encryption_headers());
    CAPSTAN_TRY(add_md5(digests, call));
    call.headers.insert(call.headers.end(), condition.begin(), condition.end());
    CAPSTAN_TRY(const S3Answer answer, client.send(call));
    if (answer.ok()) {
        return std::string(header_of(answer.headers, "etag"));
    }
    if (answer.status == 412 && answer.repeated) {
        CAPSTAN_TRY(const bool ours, holds(client, key, bytes));
        if (ours) {
            S3Call head{"HeadObject", "HEAD", key};
            head.right = "s3:GetObject";
            CAPSTAN_TRY(head.headers, client.encryption_headers());
            CAPSTAN_TRY(const S3Answer there, client.expect(head));
            return std::string(header_of(there.headers, "etag"));
        }
    }
    return fail(client.error_of(call, answer));
}

std::unique_ptr<Sink> make_upload(S3Client& client,
                                  Digests& digests,
                                  const std::string& key,
                                  const CreateOptions& options,
                                  std::uint64_t part_bytes) {
    return std::make_unique<Upload>(client, digests, key, options, part_bytes);
}

}  // namespace capstan::steward::s3
