#include "plugins/steward-bridge/store/encoding.hpp"
#include "plugins/steward-bridge/store/s3_settings.hpp"

#include <algorithm>

namespace capstan::steward {
namespace {

struct Url {
    std::string scheme, host, path;  // host with its port
};

auto wrong_endpoint(const std::string& endpoint, const char* why) {
    return fail(Code::invalid,
                "store endpoint " + quote_foreign(endpoint) + " " + why +
                    "; write it as https://host:port");
}

Result<Url> parse(const std::string& endpoint) {
    const std::size_t colon = endpoint.find("://");
    Url url;
    url.scheme = endpoint.substr(0, std::min(colon, endpoint.size()));
    if (colon == std::string::npos || (url.scheme != "http" && url.scheme != "https")) {
        return wrong_endpoint(endpoint, "is no http or https URL");
    }
    const std::size_t start = colon + 3;
    const std::size_t slash = std::min(endpoint.find('/', start), endpoint.size());
    url.host = endpoint.substr(start, slash - start);
    url.path = endpoint.substr(slash);
    while (url.path.ends_with('/')) {
        url.path.pop_back();
    }
    if (url.host.empty() || endpoint.find_first_of("@?#\" \t\r\n") != std::string::npos) {
        return wrong_endpoint(endpoint, "has no host, or more than host, port and path");
    }
    const std::string usual = url.scheme == "https" ? ":443" : ":80";
    if (url.host.ends_with(usual)) {
        url.host.resize(url.host.size() - usual.size());
    }
    return url;
}

bool is_number_address(const std::string& host) {
    return host.starts_with('[') ||
           host.substr(0, host.find(':')).find_first_not_of("0123456789.") == std::string::npos;
}

Result<void> check_bucket(const std::string& bucket) {
    const auto is_fine = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '.' || c == '_';
    };
    if (bucket.empty() || !std::all_of(bucket.begin(), bucket.end(), is_fine)) {
        return fail(Code::invalid,
                    "store container " + quote_foreign(bucket) +
                        " is no bucket's name; use letters, digits, \"-\" and \".\"");
    }
    return ok();
}

}  // namespace

Result<S3Address> address_of(const S3Settings& settings, const std::string& bucket) {
    CAPSTAN_TRY(check_bucket(bucket));
    const std::string china = settings.region.starts_with("cn-") ? ".cn" : "";
    CAPSTAN_TRY(
        const Url url,
        parse(settings.endpoint.empty() ? "https://s3." + settings.region + ".amazonaws.com" + china
                                        : settings.endpoint));
    if (!settings.sse_key.empty() && url.scheme != "https") {
        return fail(Code::invalid,
                    "store endpoint " + quote_foreign(settings.endpoint) +
                        ": a customer's encryption key is sent over https only");
    }
    // A wildcard certificate covers one label, so a bucket with dots would not verify.
    const bool dotted = url.scheme == "https" && bucket.find('.') != std::string::npos;
    const bool odd = bucket.find_first_of("_ABCDEFGHIJKLMNOPQRSTUVWXYZ") != std::string::npos;
    if (settings.path_style || dotted || odd || is_number_address(url.host)) {
        return S3Address{url.scheme + "://" + url.host, url.host, url.path + "/" + bucket};
    }
    const std::string host = bucket + "." + url.host;
    return S3Address{url.scheme + "://" + host, host, url.path};
}

}  // namespace capstan::steward
