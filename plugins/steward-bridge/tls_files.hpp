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

namespace capstan::steward {

// How soon a renewed Secret reaches etcd.
inline constexpr std::chrono::seconds kSecretsPeriod{30};

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
    Result<void> write_group(Call& call,
                             const TlsGroup& group,
                             const std::string& directory,
                             HttpTls* client);
    Member& member_;
    MonotonicTime next_{};
    std::string last_problem_;
};

}  // namespace capstan::steward
