#include "plugins/steward-bridge/store/sigv4.hpp"

#include "plugins/steward-bridge/store/encoding.hpp"
#include "plugins/steward-bridge/stream/stream.hpp"

#include <algorithm>

namespace capstan::steward {
namespace {

Result<std::string> finish(std::unique_ptr<Hasher> hasher, std::string_view bytes) {
    CAPSTAN_TRY(hasher->update(bytes_of(bytes)));
    return hasher->finish();
}

Result<std::string> hmac(Digests& digests, std::string_view key, std::string_view text) {
    CAPSTAN_TRY(auto hasher, digests.hmac_sha256(key));
    return finish(std::move(hasher), text);
}

// Spaces in a row count as one, those at the ends not at all.
std::string folded(std::string_view value) {
    std::string out;
    for (const char c : value) {
        if (c != ' ' || (!out.empty() && out.back() != ' ')) {
            out += c;
        }
    }
    if (out.ends_with(' ')) {
        out.pop_back();
    }
    return out;
}

}  // namespace

std::string canonical_query(const HeaderList& query) {
    HeaderList encoded;
    for (const auto& [name, value] : query) {
        encoded.emplace_back(uri_encode(name, false), uri_encode(value, false));
    }
    std::sort(encoded.begin(), encoded.end());
    std::string out;
    for (const auto& [name, value] : encoded) {
        out += (out.empty() ? "" : "&") + name + "=" + value;
    }
    return out;
}

Result<std::string> sha256_hex(Digests& digests, std::string_view bytes) {
    CAPSTAN_TRY(auto hasher, digests.sha256());
    CAPSTAN_TRY(const std::string raw, finish(std::move(hasher), bytes));
    return to_hex(raw);
}

Result<std::string> md5_raw(Digests& digests, std::string_view bytes) {
    CAPSTAN_TRY(auto hasher, digests.md5());
    return finish(std::move(hasher), bytes);
}

Result<std::string> authorization_of(Digests& digests,
                                     const Credentials& credentials,
                                     const SigningScope& scope,
                                     const Signing& request) {
    HeaderList headers = request.headers;
    std::sort(headers.begin(), headers.end());
    std::string canonical =
        request.method + "\n" + request.path + "\n" + canonical_query(request.query) + "\n";
    std::string names;
    for (const auto& [name, value] : headers) {
        canonical += name + ":" + folded(value) + "\n";
        names += (names.empty() ? "" : ";") + name;
    }
    canonical += "\n" + names + "\n" + request.payload_sha256;

    const std::string day = scope.amz_date.substr(0, 8);
    const std::string where = day + "/" + scope.region + "/" + scope.service + "/aws4_request";
    CAPSTAN_TRY(const std::string canonical_digest, sha256_hex(digests, canonical));
    const std::string to_sign =
        "AWS4-HMAC-SHA256\n" + scope.amz_date + "\n" + where + "\n" + canonical_digest;

    std::string key = "AWS4" + credentials.secret_key;
    for (const std::string_view part : {std::string_view(day),
                                        std::string_view(scope.region),
                                        std::string_view(scope.service),
                                        std::string_view("aws4_request")}) {
        CAPSTAN_TRY(key, hmac(digests, key, part));
    }
    CAPSTAN_TRY(const std::string signature, hmac(digests, key, to_sign));
    return "AWS4-HMAC-SHA256 Credential=" + credentials.access_key + "/" + where +
           ", SignedHeaders=" + names + ", Signature=" + to_hex(signature);
}

}  // namespace capstan::steward
