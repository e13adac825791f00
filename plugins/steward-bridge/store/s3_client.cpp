#include "plugins/steward-bridge/store/s3_client.hpp"

#include "plugins/steward-bridge/store/encoding.hpp"
#include "plugins/steward-bridge/store/retry.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

namespace capstan::steward {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;

bool is_one_of(std::string_view code, std::initializer_list<std::string_view> codes) {
    return std::find(codes.begin(), codes.end(), code) != codes.end();
}

bool is_worth_repeating(const S3Answer& answer) {
    switch (answer.status) {
        case 408:
        case 429:
        case 500:
        case 502:
        case 503:
        case 504: return true;
        case 400: return answer.problem.code == "RequestTimeout";
        case 409:
            return is_one_of(answer.problem.code,
                             {"OperationAborted", "ConditionalRequestConflict"});
        default: return false;
    }
}

// A HEAD is answered without a body, so any refusal may be one of the keys.
bool is_about_keys(const S3Call& call, const S3Answer& answer) {
    return (answer.status == 401 || answer.status == 403 || answer.status == 400) &&
           ((answer.status != 400 && call.method == "HEAD") || is_one_of(answer.problem.code,
                                                                         {"ExpiredToken",
                                                                          "InvalidToken",
                                                                          "InvalidAccessKeyId",
                                                                          "TokenRefreshRequired",
                                                                          "SignatureDoesNotMatch",
                                                                          "AccessDenied"}));
}

// Seconds only; a date is rare and the usual back-off then serves.
std::chrono::milliseconds retry_after(const S3Answer& answer) {
    const std::string_view text = header_of(answer.headers, "retry-after");
    std::uint32_t seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return std::chrono::seconds(whole ? seconds : 0);
}

Result<std::string> read_body(HttpExchange& exchange) {
    std::string body;
    std::vector<char> buffer(kReadBytes);
    while (true) {
        CAPSTAN_TRY(const std::size_t n, exchange.read(buffer));
        if (n == 0) {
            return body;
        }
        if (body.size() + n > kS3AnswerBytesMax) {
            return fail(Code::too_large, "the answer is over 16 MiB");
        }
        body.append(buffer.data(), n);
    }
}

}  // namespace

Result<HeaderList> S3Client::encryption_headers() const {
    const std::string& key = access_.settings().sse_key;
    if (key.empty()) {
        return HeaderList();
    }
    CAPSTAN_TRY(const std::string md5, md5_raw(parts_.digests, key));
    const std::string name = "x-amz-server-side-encryption-customer-";
    return HeaderList{{name + "algorithm", "AES256"},
                      {name + "key", to_base64(key)},
                      {name + "key-md5", to_base64(md5)}};
}

Result<HttpRequest> S3Client::signed_request(const S3Call& call, std::string& date) {
    CAPSTAN_TRY(const Credentials credentials, access_.credentials());
    const S3Address& address = access_.address();
    Signing signing;
    signing.method = call.method;
    signing.path = address.path_prefix;
    if (!call.key.empty()) {
        signing.path += "/" + uri_encode(call.key, true);
    } else if (signing.path.empty()) {
        signing.path = "/";
    }
    signing.query = call.query;
    CAPSTAN_TRY(signing.payload_sha256, sha256_hex(parts_.digests, call.body));
    date = to_amz_date(parts_.pace.wall_now());
    signing.headers = call.headers;
    signing.headers.emplace_back("x-amz-date", date);
    signing.headers.emplace_back("x-amz-content-sha256", signing.payload_sha256);
    if (!credentials.session_token.empty()) {
        signing.headers.emplace_back("x-amz-security-token", credentials.session_token);
    }
    HttpRequest request;
    request.headers = signing.headers;
    signing.headers.emplace_back("host", address.host);
    CAPSTAN_TRY(const std::string authorization,
                authorization_of(
                    parts_.digests, credentials, {date, access_.settings().region, "s3"}, signing));
    request.headers.emplace_back("authorization", authorization);
    request.method = call.method;
    const std::string query = canonical_query(call.query);
    request.url = address.base + signing.path + (query.empty() ? "" : "?" + query);
    request.timeout = call.timeout;
    request.tls = access_.tls();
    return request;
}

Result<S3Started> S3Client::start(const S3Call& call) {
    S3Started started;
    CAPSTAN_TRY(const HttpRequest request, signed_request(call, started.sent_date));
    CAPSTAN_TRY(started.exchange,
                parts_.transport.open(request, static_cast<std::int64_t>(call.body.size())));
    // In one piece, so that the whole body counts as written when the store answers before its end.
    started.written = started.exchange->write(call.body);
    return started;
}

Result<S3Answer> S3Client::await(const S3Call& call, bool streaming, Result<S3Started> started) {
    if (!started) {
        return fail(started.error());
    }
    auto& [exchange, written, sent_date] = started.value();
    auto head = exchange->head();
    if (!head) {
        return fail(written ? head.error() : written.error());
    }
    S3Answer answer;
    answer.sent_date = sent_date;
    answer.status = head.value().status;
    answer.headers = std::move(head.value().headers);
    if (streaming && answer.ok()) {
        answer.exchange = std::move(exchange);
        return answer;
    }
    CAPSTAN_TRY(answer.body, read_body(*exchange));  // to its end, so that the connection is kept
    if (!answer.ok() || call.error_in_success) {
        answer.problem = parse_problem(answer.body);
    }
    if (answer.ok() && !answer.problem.code.empty()) {
        answer.status = answer.problem.code == "SlowDown" ? 503 : 500;
    }
    return answer;
}

Result<S3Answer> S3Client::run(const S3Call& call, bool streaming, Result<S3Started> started) {
    Backoff backoff(parts_.pace);
    bool renewed = false;
    bool repeated = false;
    while (true) {
        auto answer =
            await(call, streaming, repeated || renewed ? start(call) : std::move(started));
        std::chrono::milliseconds asked{0};
        if (!answer) {
            const Code code = answer.error().code;
            if (code != Code::unavailable && code != Code::timeout) {
                return fail(with_context(answer.error(), where(call)));
            }
        } else {
            answer.value().repeated = repeated;
            if (is_about_keys(call, answer.value()) && !std::exchange(renewed, true) &&
                access_.renew()) {
                continue;
            }
            if (!is_worth_repeating(answer.value())) {
                return answer;
            }
            asked = retry_after(answer.value());
        }
        const bool last = call.once;
        CAPSTAN_TRY(const bool again, last ? Result<bool>(false) : backoff.wait(asked));
        if (!again && !answer) {
            return fail(with_context(answer.error(), where(call)));
        }
        if (!again) {
            return answer;
        }
        repeated = true;
    }
}

Result<S3Answer> S3Client::send(const S3Call& call) {
    return run(call, false, start(call));
}

Result<S3Answer> S3Client::open(const S3Call& call) {
    return run(call, true, start(call));
}

Result<S3Answer> S3Client::finish(const S3Call& call, Result<S3Started> started) {
    return run(call, false, std::move(started));
}

Result<S3Answer> S3Client::expect(const S3Call& call) {
    CAPSTAN_TRY(S3Answer answer, send(call));
    if (!answer.ok()) {
        return fail(error_of(call, answer));
    }
    return answer;
}

}  // namespace capstan::steward
