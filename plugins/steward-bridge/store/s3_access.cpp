#include "plugins/steward-bridge/store/s3_access.hpp"

#include "plugins/steward-bridge/files.hpp"
#include "plugins/steward-bridge/store/encoding.hpp"
#include "plugins/steward-bridge/store/retry.hpp"
#include "plugins/steward-bridge/store/xml.hpp"

#include <algorithm>
#include <array>

namespace capstan::steward {
namespace {

constexpr std::chrono::minutes kRenewBefore{5};
constexpr std::chrono::seconds kStsTimeout{30};
constexpr std::size_t kStsBytesMax = 64 * 1024;

std::string without_line_end(std::string text) {
    while (text.ends_with('\n') || text.ends_with('\r')) {
        text.pop_back();
    }
    return text;
}

struct Assumed {
    Credentials keys;
    WallTime until{};
};

Result<Assumed> parse_assumed(std::string_view document) {
    const std::string base =
        "AssumeRoleWithWebIdentityResponse/AssumeRoleWithWebIdentityResult/Credentials/";
    Assumed out;
    XmlReader reader(document);
    while (true) {
        CAPSTAN_TRY(const auto element, reader.next());
        if (!element) {
            break;
        }
        if (element->path == base + "AccessKeyId") {
            out.keys.access_key = element->text;
        } else if (element->path == base + "SecretAccessKey") {
            out.keys.secret_key = element->text;
        } else if (element->path == base + "SessionToken") {
            out.keys.session_token = element->text;
        } else if (element->path == base + "Expiration") {
            out.until = parse_rfc3339(element->text).value_or(WallTime{});
        }
    }
    if (out.keys.access_key.empty() || out.keys.secret_key.empty()) {
        return fail(Code::invalid, "the answer to AssumeRoleWithWebIdentity holds no keys");
    }
    return out;
}

// "AccessDenied: …" of an answer that is an error.
std::string reason_in(std::string_view document) {
    std::string code, message;
    XmlReader reader(document);
    while (true) {
        const auto element = reader.next();
        if (!element || !element.value()) {
            break;
        }
        if (element.value()->path == "ErrorResponse/Error/Code") {
            code = element.value()->text;
        } else if (element.value()->path == "ErrorResponse/Error/Message") {
            message = element.value()->text;
        }
    }
    return quote_foreign(code.empty() ? document : code + ": " + message);
}

}  // namespace

Result<S3Access> S3Access::open(const S3Parts& parts, const std::string& bucket) {
    S3Access access(parts, bucket);
    CAPSTAN_TRY(access.load());
    return access;
}

Result<void> S3Access::load() {
    const S3Overrides& overrides = parts_.overrides;
    const auto environment = [this, &overrides](const std::string& name) {
        const bool is_region = name == "AWS_REGION" && !overrides.region.empty();
        return is_region ? overrides.region : parts_.environment(name);
    };
    CAPSTAN_TRY(S3Settings read, load_s3_settings(environment, parts_.variable_prefix));
    if (!parts_.endpoint_override.empty()) {
        read.endpoint = parts_.endpoint_override;
    }
    if (!overrides.region.empty()) {
        read.region = overrides.region;
    }
    if (!overrides.ca_file.empty()) {
        CAPSTAN_TRY(read.ca_pem, read_file(overrides.ca_file));
        read.insecure = false;
    }
    read.path_style = read.path_style || overrides.path_style;
    CAPSTAN_TRY(address_, address_of(read, bucket_));
    if (read.role_arn != settings_.role_arn || read.token_path != settings_.token_path) {
        assumed_ = {};
    }
    settings_ = std::move(read);
    return ok();
}

bool S3Access::refresh() {
    const S3Settings before = settings_;
    return load() && !(settings_ == before);
}

bool S3Access::renew() {
    const bool had_assumed = !assumed_.access_key.empty();
    assumed_ = {};
    return refresh() || had_assumed;
}

HttpTls S3Access::tls() const {
    HttpTls tls;
    tls.ca_pem = settings_.ca_pem;
    tls.insecure = settings_.insecure;
    return tls;
}

HttpTls S3Access::sts_tls() const {
    HttpTls tls;
    tls.ca_pem = settings_.sts_endpoint.empty() ? std::string() : settings_.ca_pem;
    return tls;
}

Result<Credentials> S3Access::credentials() {
    if (!settings_.keys.access_key.empty()) {
        return settings_.keys;
    }
    const WallTime now = parts_.pace.wall_now();
    if (assumed_.access_key.empty() || now + kRenewBefore >= assumed_until_) {
        const auto assumed = assume_role();
        // The old keys serve until their end, when the new ones cannot be had.
        if (!assumed && (assumed_.access_key.empty() || now >= assumed_until_)) {
            return fail(assumed.error());
        }
    }
    return assumed_;
}

Result<void> S3Access::assume_role() {
    auto token = read_file(settings_.token_path);
    if (!token) {
        return fail(with_context(token.error(), "web identity token"));
    }
    CAPSTAN_TRY(const std::string answer, ask_sts(without_line_end(std::move(token).value())));
    CAPSTAN_TRY(Assumed assumed, parse_assumed(answer));
    assumed_ = std::move(assumed.keys);
    // Without a time: an hour is the least that roles last.
    assumed_until_ = assumed.until == WallTime{} ? parts_.pace.wall_now() + std::chrono::hours(1)
                                                 : assumed.until;
    return ok();
}

Result<std::string> S3Access::ask_sts(const std::string& token) {
    const std::string body = canonical_query({{"Action", "AssumeRoleWithWebIdentity"},
                                              {"Version", "2011-06-15"},
                                              {"RoleArn", settings_.role_arn},
                                              {"RoleSessionName", settings_.session_name},
                                              {"WebIdentityToken", token}});
    Backoff backoff(parts_.pace);
    while (true) {
        auto answer = ask_sts_once(body);
        if (answer ||
            (answer.error().code != Code::unavailable && answer.error().code != Code::timeout)) {
            return answer;
        }
        CAPSTAN_TRY(const bool again, backoff.wait(answer.error().retry_after));
        if (!again) {
            return answer;
        }
    }
}

Result<std::string> S3Access::ask_sts_once(const std::string& body) {
    HttpRequest request;
    request.method = "POST";
    const std::string china = settings_.region.starts_with("cn-") ? ".cn" : "";
    request.url = settings_.sts_endpoint.empty()
                      ? "https://sts." + settings_.region + ".amazonaws.com" + china
                      : settings_.sts_endpoint;
    request.url += request.url.ends_with('/') ? "" : "/";
    request.headers = {{"content-type", "application/x-www-form-urlencoded"}};
    request.timeout = kStsTimeout;
    request.tls = sts_tls();
    CAPSTAN_TRY(const auto exchange,
                parts_.transport.open(request, static_cast<std::int64_t>(body.size())));
    CAPSTAN_TRY(exchange->write(body));
    CAPSTAN_TRY(const HttpHead head, exchange->head());
    std::string answer;
    std::array<char, 8192> buffer;
    std::size_t n = 1;
    while (n != 0 && answer.size() < kStsBytesMax) {
        CAPSTAN_TRY(n, exchange->read(buffer));
        answer.append(buffer.data(), n);
    }
    if (head.status == 200) {
        return answer;
    }
    const std::string what = "take on role " + settings_.role_arn + " at " + request.url + ": ";
    if (head.status >= 500 || head.status == 429) {
        return fail(Code::unavailable,
                    what + "HTTP " + std::to_string(head.status) + " " + reason_in(answer));
    }
    return fail(
        Code::forbidden,
        what + reason_in(answer) + "; let the role trust the token in " + settings_.token_path);
}

}  // namespace capstan::steward
