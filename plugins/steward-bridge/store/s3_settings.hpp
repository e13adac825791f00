// How to reach a bucket and as whom: read from the files and variables that etcd-backup-restore
// reads, with the same names.
//
//   AWS_APPLICATION_CREDENTIALS_JSON  path of one JSON file
//   AWS_APPLICATION_CREDENTIALS       a directory: its first *.json file, else a file per field
//   neither                           AWS_REGION, AWS_ACCESS_KEY_ID, AWS_ROLE_ARN … of AWS's tools
//
// Values; line ends around a field are no part of it.
#pragma once

#include "plugins/steward-bridge/store/sigv4.hpp"

#include "capstan/error.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace capstan::steward {

// Value of a variable; empty when unset.
using Environment = std::function<std::string(const std::string& name)>;
Environment process_environment();

struct S3Settings {
    std::string region;
    Credentials keys;  // without access key: web identity
    std::string role_arn, token_path, session_name;
    std::string endpoint;      // "https://host:port"; empty: AWS
    std::string sts_endpoint;  // empty: AWS
    std::string ca_pem;        // the only trusted roots; empty: the system's
    std::string sse_key;       // SSE-C, 32 raw bytes; empty: none
    bool path_style{false};
    bool insecure{false};
    std::string origin;  // "directory /var/etcd-backup": for messages

    friend bool operator==(const S3Settings&, const S3Settings&) = default;
};

// `prefix` of the variables of the first two kinds: "", "SOURCE_" or "SECONDARY_".
// Errors: invalid (names file and field), not_found, forbidden, unavailable.
Result<S3Settings> load_s3_settings(const Environment& environment, std::string_view prefix);

struct S3Address {
    std::string base;         // "https://bucket.s3.eu-1.amazonaws.com"
    std::string host;         // as the Host header says it
    std::string path_prefix;  // encoded, "/bucket" or ""
};

// Path style where asked for, for addresses that are numbers, and for buckets with dots over TLS.
// Errors: invalid (the endpoint, the bucket's name, SSE-C without TLS).
Result<S3Address> address_of(const S3Settings& settings, const std::string& bucket);

}  // namespace capstan::steward
