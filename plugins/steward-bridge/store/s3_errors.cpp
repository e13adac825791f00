#include "plugins/steward-bridge/store/encoding.hpp"
#include "plugins/steward-bridge/store/retry.hpp"
#include "plugins/steward-bridge/store/s3_client.hpp"
#include "plugins/steward-bridge/store/xml.hpp"

#include <chrono>

namespace capstan::steward {
namespace {

// "20130524T000000Z" -> "2013-05-24T00:00:00Z"
std::string readable(const std::string& amz_date) {
    if (amz_date.size() != 16) {
        return amz_date;
    }
    std::string out = amz_date;
    for (const std::size_t at : {4u, 7u}) {
        out.insert(at, "-");
    }
    for (const std::size_t at : {13u, 16u}) {
        out.insert(at, ":");
    }
    return out;
}

std::string server_time(const S3Answer& answer) {
    if (!answer.problem.server_time.empty()) {
        return answer.problem.server_time;
    }
    const auto date = parse_http_date(header_of(answer.headers, "date"));
    return date ? to_rfc3339(*date) : "";
}

bool is_skew(const S3Answer& answer) {
    if (answer.problem.code == "RequestTimeTooSkewed") {
        return true;
    }
    if (answer.status != 403 || answer.body.size() > 0) {
        return false;
    }
    // A HEAD: only the clocks tell.
    const auto theirs = parse_http_date(header_of(answer.headers, "date"));
    const auto ours = parse_rfc3339(readable(answer.sent_date));
    return theirs && ours && std::chrono::abs(*theirs - *ours) >= std::chrono::minutes(15);
}

std::string skew_text(const S3Answer& answer) {
    const std::string theirs = server_time(answer);
    return "the clocks differ by more than the store allows: this machine says " +
           readable(answer.sent_date) + ", the store says " +
           (theirs.empty() ? "another time" : theirs) + "; set this machine's clock (NTP)";
}

std::string forbidden_text(const S3Call& call, const S3Answer& answer, const S3Settings& settings) {
    const std::string& code = answer.problem.code;
    if (is_skew(answer)) {
        return skew_text(answer);
    }
    if (code == "InvalidAccessKeyId" || code == "SignatureDoesNotMatch" || code == "ExpiredToken" ||
        code == "InvalidToken") {
        return "the store refuses the keys (" + code + "); correct those in " + settings.origin;
    }
    const std::string right = call.right.empty() ? "s3:" + call.operation : call.right;
    const std::string locked =
        call.method == "DELETE" ? ", unless object lock still keeps this version" : "";
    return "the right " + right + " is missing" + locked + "; grant it to the keys in " +
           settings.origin;
}

std::string wrong_place_text(const S3Answer& answer, const S3Settings& settings) {
    std::string region = answer.problem.region;
    if (region.empty()) {
        region = header_of(answer.headers, "x-amz-bucket-region");
    }
    return "the bucket is elsewhere" + (region.empty()
                                            ? std::string("; correct region or endpoint")
                                            : ": in region " + region + ", not " + settings.region +
                                                  "; correct the region in " + settings.origin);
}

Code code_of_status(const S3Answer& answer) {
    switch (answer.status) {
        case 401:
        case 403: return Code::forbidden;
        case 404: return answer.problem.code == "NoSuchBucket" ? Code::invalid : Code::not_found;
        case 408: return Code::timeout;
        case 409: return Code::unavailable;  // another request is under way
        case 412: return Code::conflict;
        case 413: return Code::too_large;
        case 429: return Code::overloaded;
        case 501: return Code::unsupported;
        case 503: return Code::overloaded;
        default: break;
    }
    return answer.status >= 500 ? Code::unavailable : Code::invalid;
}

}  // namespace

S3Problem parse_problem(std::string_view document) {
    S3Problem out;
    XmlReader reader(document);
    while (true) {
        const auto element = reader.next();
        if (!element || !element.value()) {
            return out;
        }
        const auto& [path, text] = *element.value();
        if (path == "Error/Code") {
            out.code = text;
        } else if (path == "Error/Message") {
            out.message = text;
        } else if (path == "Error/Region") {
            out.region = text;
        } else if (path == "Error/ServerTime") {
            out.server_time = text;
        }
    }
}

std::string S3Client::where(const S3Call& call) const {
    return call.operation + " " + bucket_ + (call.key.empty() ? "" : "/" + call.key) + " at " +
           access_.address().base;
}

Error S3Client::error_of(const S3Call& call, const S3Answer& answer) const {
    const S3Settings& settings = access_.settings();
    const S3Problem& problem = answer.problem;
    Error error{code_of_status(answer), {}, {}};
    std::string text = "HTTP " + std::to_string(answer.status);
    if (!problem.code.empty()) {
        text += " " + quote_foreign(problem.code + ": " + problem.message);
    }
    if (error.code == Code::forbidden) {
        text += ": " + forbidden_text(call, answer, settings);
    } else if (problem.code == "NoSuchBucket") {
        text += ": there is no such bucket; make it, or correct the store's container";
    } else if (answer.status == 301 || answer.status == 307 ||
               problem.code == "AuthorizationHeaderMalformed") {
        error.code = Code::invalid;
        text += ": " + wrong_place_text(answer, settings);
    } else if (error.code == Code::unsupported) {
        text += ": this store does not know the request; use one that does";
    } else if (error.code == Code::overloaded) {
        error.retry_after = kRetryAskedMax;
        text += ": the store asks to slow down; it is tried again later";
    }
    error.message = where(call) + ": " + text;
    return error;
}

}  // namespace capstan::steward
