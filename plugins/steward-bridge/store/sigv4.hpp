// AWS Signature Version 4 with signed payloads, as S3 wants it (one encoding of the path).
//
// Source: "Authenticating Requests: Using the Authorization Header" of the S3 API reference.
#pragma once

#include "plugins/steward-bridge/store/transport.hpp"
#include "plugins/steward-bridge/stream/digest.hpp"

#include <string>
#include <string_view>

namespace capstan::steward {

struct Credentials {
    std::string access_key, secret_key;
    std::string session_token;  // empty: long-lived keys

    friend bool operator==(const Credentials&, const Credentials&) = default;
};

struct Signing {
    std::string method;
    std::string path;            // encoded; starts with "/"
    HeaderList query;            // names and values, not encoded
    HeaderList headers;          // lower-case names, host among them; all are signed
    std::string payload_sha256;  // hex
};

struct SigningScope {
    std::string amz_date;  // "20260102T030405Z"
    std::string region;
    std::string service{"s3"};
};

// "a=1&b=x%20y", sorted as the signature wants it; also what is sent.
std::string canonical_query(const HeaderList& query);

// The value of the Authorization header. Errors: of the digests.
Result<std::string> authorization_of(Digests& digests,
                                     const Credentials& credentials,
                                     const SigningScope& scope,
                                     const Signing& request);

Result<std::string> sha256_hex(Digests& digests, std::string_view bytes);
Result<std::string> md5_raw(Digests& digests, std::string_view bytes);

}  // namespace capstan::steward
