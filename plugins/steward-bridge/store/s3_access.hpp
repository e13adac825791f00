// Who a store's requests are from, now: settings read again when their files change, keys by web
// identity before the old ones end.
#pragma once

#include "plugins/steward-bridge/store/s3_settings.hpp"
#include "plugins/steward-bridge/store/transport.hpp"

namespace capstan::steward {

// What a command line says; wins over files and variables. Empty: nothing.
struct S3Overrides {
    std::string region;
    std::string ca_file;  // PEM, the only trusted roots
    bool path_style{false};
};

struct S3Parts {
    Environment environment;
    std::string variable_prefix;    // "", "SOURCE_", "SECONDARY_"
    std::string endpoint_override;  // wins over what the files say
    Digests& digests;               // these three outlive the store
    Transport& transport;
    Pace& pace;
    S3Overrides overrides{};
};

class S3Access {
public:
    // Errors: as load_s3_settings and address_of.
    static Result<S3Access> open(const S3Parts& parts, const std::string& bucket);

    // Reads the files again. Broken ones leave everything as it was: a Secret may be in the middle
    // of a change. True: something is different now.
    bool refresh();
    // As refresh(), and keys by web identity are not used again: the store has refused them.
    bool renew();

    const S3Settings& settings() const noexcept { return settings_; }
    const S3Address& address() const noexcept { return address_; }
    HttpTls tls() const;
    // Errors: forbidden (the role refuses the token), not_found (no token), unavailable, timeout.
    Result<Credentials> credentials();

private:
    // Its own: what is said of the store's certificate is not said of Amazon's STS, and the token
    // that goes there is worth more than what is stored. Always verified.
    HttpTls sts_tls() const;
    S3Access(const S3Parts& parts, std::string bucket)
        : parts_(parts), bucket_(std::move(bucket)) {}
    Result<void> load();
    Result<void> assume_role();
    Result<std::string> ask_sts(const std::string& token);
    Result<std::string> ask_sts_once(const std::string& body);

    S3Parts parts_;
    std::string bucket_;
    S3Settings settings_;
    S3Address address_;
    Credentials assumed_;
    WallTime assumed_until_{};
};

}  // namespace capstan::steward
