// Keys and certificates of etcd: read from Secrets through the API, written where etcd reads them
// (decided by the operator: /var/run/capstan/tls, in memory).
//
// Files are replaced one by one, each whole; etcd reads them for every new connection, so a pair
// that is renewed needs no restart. What was written last stays when the API cannot be read.
#pragma once

#include "plugins/steward-bridge/configuration.hpp"
#include "plugins/steward-bridge/member.hpp"
#include "plugins/steward-bridge/pod_map.hpp"

#include <chrono>
#include <string>
#include <string_view>

namespace capstan::steward {

// How soon a renewed Secret reaches etcd.
inline constexpr std::chrono::seconds kSecretsPeriod{30};

// "https://main-local:2379" -> "main-local": what certificates are checked against, also where an
// address takes the name's place.
std::string host_of(std::string_view url);

// The value of a Secret's key. Errors: those of the API; not_found, invalid: name Secret and key.
Result<std::string> read_secret(Call& call,
                                const std::string& ns,
                                const std::string& name,
                                const std::string& key);

// Writes ca.crt, tls.key, tls.crt and, of a client pair, client.key and client.crt where they
// differ. What a client of this kind of connection needs, without server_name. Errors: as of
// read_secret; unavailable: the directory.
Result<HttpTls> write_tls_group(Call& call,
                                const std::string& ns,
                                const TlsGroup& group,
                                const std::string& directory);

class TlsFiles {
public:
    explicit TlsFiles(Member& member) noexcept : member_(member) {}  // borrowed; outlives *this

    // Reads the Secrets that the configuration names, writes what differs, and hands the client
    // pair to `member`. Without TLS nothing happens. With the API out of reach the files of before
    // do.
    // Errors: name Secret and key.
    Result<void> refresh(Call& call, const Configuration& configuration, const PodMap& map);
    // The same when it is due, with a warning instead of an error.
    void keep_fresh(Call& call, const Configuration& configuration, const PodMap& map);

private:
    Result<HttpTls> read_all(Call& call,
                             const Configuration& configuration,
                             const std::string& directory);
    Member& member_;
    MonotonicTime next_{};
    std::string last_problem_;
};

}  // namespace capstan::steward
