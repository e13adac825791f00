#include "runtime/webhook/admission_review.hpp"

#include "capstan/clock.hpp"

#include <openssl/evp.h>

#include <algorithm>

namespace capstan::webhook {
namespace {

constexpr std::string_view kKind = "AdmissionReview";
constexpr std::string_view kVersions[] = {"admission.k8s.io/v1", "admission.k8s.io/v1beta1"};
constexpr std::string_view kOperations[] = {"CREATE", "UPDATE", "DELETE", "CONNECT"};

template <class List>
bool is_one_of(const List& list, std::string_view text) {
    return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

// At most `bytes_max`, cut before a character, never in it.
std::string cut(std::string_view text, std::size_t bytes_max) {
    if (text.size() > bytes_max) {
        std::size_t end = bytes_max;
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
            --end;
        }
        text = text.substr(0, end);
    }
    return std::string(text);
}

// Warnings travel in HTTP headers: control characters would make the API server drop them.
std::string printable(std::string text) {
    std::replace_if(
        text.begin(),
        text.end(),
        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; },
        ' ');
    return text;
}

json::Value warnings_of(const std::vector<std::string>& warnings) {
    json::Value list = json::list();
    std::size_t bytes = 0;
    for (const std::string& warning : warnings) {
        std::string text = printable(cut(warning, kWarningBytesMax));
        bytes += text.size();
        if (bytes > kWarningsBytesMax) {
            break;
        }
        list.push_back(std::move(text));
    }
    return list;
}

std::string_view usual_reason(int code) {
    switch (code) {
        case 400: return "BadRequest";
        case 403: return "Forbidden";
        case 404: return "NotFound";
        case 409: return "Conflict";
        case 413: return "RequestEntityTooLarge";
        case 422: return "Invalid";
        case 429: return "TooManyRequests";
        case 500: return "InternalError";
        default: return "";
    }
}

json::Value status_of(int code, std::string_view message, std::string_view reason) {
    json::Value status = {
        {"status", "Failure"}, {"message", cut(message, kMessageBytesMax)}, {"code", code}};
    if (!reason.empty()) {
        status.set("reason", reason);
    }
    return status;
}

std::string envelope(const ReviewId& id, json::Value response) {
    return json::dump(
        {{"kind", kKind}, {"apiVersion", id.api_version}, {"response", std::move(response)}});
}

}  // namespace

Result<Review> parse_review(std::string_view body, ReviewId& id) {
    json::ParseOptions options;
    options.bytes_max = kReviewBytesMax;
    auto parsed = json::parse(body, options);
    if (!parsed) {
        return fail(Code::invalid, "the body is no AdmissionReview: " + parsed.error().message);
    }
    json::Value& document = parsed.value();
    const json::View view(document);
    const std::string_view version = view["apiVersion"].string_or("");
    if (is_one_of(kVersions, version)) {
        id.api_version = version;
    }
    id.uid = view["request"]["uid"].string_or("");
    if (view["kind"].string_or("") != kKind || !is_one_of(kVersions, version)) {
        return fail(Code::invalid, "expected an AdmissionReview of admission.k8s.io/v1 or v1beta1");
    }
    if (id.uid.empty()) {
        return fail(Code::invalid, "/request/uid: missing");
    }
    const std::string_view operation = view["request"]["operation"].string_or("");
    if (!is_one_of(kOperations, operation)) {
        return fail(Code::invalid,
                    "/request/operation: expected CREATE, UPDATE, DELETE or CONNECT");
    }
    Review review;
    review.id = id;
    review.dry_run = view["request"]["dryRun"].bool_or(false);
    review.request = std::move(*document.find("request"));
    return review;
}

std::string render_review(const ReviewId& id, const kube::AdmissionAnswer& answer) {
    json::Value response = {{"uid", id.uid}, {"allowed", answer.allowed}};
    if (!answer.allowed) {
        const int code = answer.code == 0 ? 403 : answer.code;
        response.set("status",
                     status_of(code,
                               answer.message.empty() ? "denied" : answer.message,
                               answer.reason.empty() ? usual_reason(code) : answer.reason));
    }
    const json::Array* operations = answer.patch.if_array();
    if (answer.allowed && operations != nullptr && !operations->empty()) {
        response.set("patch", to_base64(json::dump(answer.patch)));
        response.set("patchType", "JSONPatch");
    }
    if (json::Value warnings = warnings_of(answer.warnings); !warnings.if_array()->empty()) {
        response.set("warnings", std::move(warnings));
    }
    if (!answer.audit.empty()) {
        json::Value audit = json::object();
        for (const auto& [key, value] : answer.audit) {
            audit.set(key, value);
        }
        response.set("auditAnnotations", std::move(audit));
    }
    return envelope(id, std::move(response));
}

std::string render_failure(const ReviewId& id, int code, std::string_view message) {
    return envelope(id,
                    {{"uid", id.uid},
                     {"allowed", false},
                     {"status", status_of(code, message, usual_reason(code))}});
}

std::chrono::nanoseconds handler_time(std::string_view query) {
    std::chrono::nanoseconds limit = kTimeoutDefault;
    while (!query.empty()) {
        const std::size_t end = std::min(query.find('&'), query.size());
        const std::string_view pair = query.substr(0, end);
        constexpr std::string_view kKey = "timeout=";
        if (pair.starts_with(kKey)) {
            const auto asked = parse_duration(pair.substr(kKey.size()));
            if (asked && asked->count() > 0) {
                limit = std::min<std::chrono::nanoseconds>(*asked, kTimeoutMax);
            }
        }
        query.remove_prefix(std::min(end + 1, query.size()));
    }
    return limit - std::min<std::chrono::nanoseconds>(limit / 10, kAnswerMarginMax);
}

std::string to_base64(std::string_view bytes) {
    std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');  // and the terminator it writes
    const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                       reinterpret_cast<const unsigned char*>(bytes.data()),
                                       static_cast<int>(bytes.size()));
    out.resize(static_cast<std::size_t>(length));
    return out;
}

}  // namespace capstan::webhook
