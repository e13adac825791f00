// Signed requests to one bucket: tried again where that may help, refusals in words.
#pragma once

#include "plugins/steward-bridge/store/s3_access.hpp"
#include "plugins/steward-bridge/store/transport.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::steward {

inline constexpr std::size_t kS3AnswerBytesMax = 16u * 1024 * 1024;  // a page of the longest keys
inline constexpr std::chrono::seconds kS3Timeout{60};
inline constexpr std::chrono::seconds kS3PartTimeout{180};

struct S3Call {
    std::string operation;  // "PutObject"; the right is "s3:" + operation unless `right` says more
    std::string method;
    std::string key{};  // empty: the bucket
    HeaderList query{};
    HeaderList headers{};  // lower-case names
    std::string_view body{};
    std::string right{};
    std::chrono::milliseconds timeout{kS3Timeout};
    bool error_in_success{false};  // an answer with 200 may hold an error
    bool once{false};              // no second try
};

struct S3Problem {
    std::string code, message, region, server_time;
};

struct S3Answer {
    int status{0};
    HeaderList headers;
    std::string body;      // when not streaming, or not a success
    S3Problem problem;     // when not a success
    bool repeated{false};  // an earlier try may have taken effect
    std::string sent_date;
    std::unique_ptr<HttpExchange> exchange;  // streaming and a success

    bool ok() const noexcept { return status >= 200 && status < 300; }
};

// A request that is out, its answer not awaited yet.
struct S3Started {
    std::unique_ptr<HttpExchange> exchange;
    Result<void> written{capstan::ok()};
    std::string sent_date;
};

class S3Client {
public:
    S3Client(S3Access& access, const S3Parts& parts, std::string bucket)
        : access_(access), parts_(parts), bucket_(std::move(bucket)) {}

    // The answer of the last try, whatever its status. Errors: unavailable, timeout (no answer),
    // cancelled, and of the credentials.
    Result<S3Answer> send(const S3Call& call);
    // The same, leaving the body of a success to be read.
    Result<S3Answer> open(const S3Call& call);
    // send() in two steps, so that the caller works while the store does. `call`, with its body, is
    // the same in both: it may be sent again.
    Result<S3Started> start(const S3Call& call);
    Result<S3Answer> finish(const S3Call& call, Result<S3Started> started);
    // send(), and any status but 2xx is an error.
    Result<S3Answer> expect(const S3Call& call);

    // Why `answer` is no success, and what helps.
    Error error_of(const S3Call& call, const S3Answer& answer) const;
    // The three headers of SSE-C, when a key is set.
    Result<HeaderList> encryption_headers() const;
    std::string where(const S3Call& call) const;  // "PutObject b/key at https://…"

private:
    Result<S3Answer> run(const S3Call& call, bool streaming, Result<S3Started> started);
    Result<S3Answer> await(const S3Call& call, bool streaming, Result<S3Started> started);
    Result<HttpRequest> signed_request(const S3Call& call, std::string& date);

    S3Access& access_;
    const S3Parts& parts_;
    const std::string bucket_;
};

// The error an S3 server describes in XML; empty when it is none.
S3Problem parse_problem(std::string_view document);

}  // namespace capstan::steward
