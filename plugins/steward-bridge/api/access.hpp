// Who may use the steward's HTTP API.
//
// Over TLS a verified client certificate of the backup CA opens everything, and what only reads
// needs none. Over plain HTTP only this pod is answered, with a bearer token: this steward's own
// (file "token" of the run directory) or the cluster's, from a file that a Secret fills. Health and
// metrics are open. Rules: docs/steward-api.md. Thread: any.
#pragma once

#include "capstan/plugin.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::steward {

enum class RouteKind : std::uint8_t {
    open,    // says nothing worth protecting
    read,    // tells about the cluster
    change,  // does something
};

// What a request shows of itself.
struct Caller {
    std::string_view authorization;  // header
    std::string_view remote;         // "127.0.0.1:40210", "unix"
    bool tls{false};
    bool certified{false};  // a client certificate of the configured CA

    static Caller of(const Exchange& exchange);
};

struct Denial {
    int status{401};
    std::string reason;   // TitleCase, for programs
    std::string message;  // one sentence, with the remedy
};

class Access {
public:
    // `own_token`: never empty. `token_files`: of tokens that all stewards of the cluster know.
    // They are read when needed, so a new one counts at once; one that is not there is no token.
    Access(std::string own_token, std::vector<std::string> token_files)
        : own_token_(std::move(own_token)), token_files_(std::move(token_files)) {}

    // nullopt: go on.
    std::optional<Denial> check(RouteKind kind, const Caller& caller) const;
    // What other stewards of this cluster accept, of the first file that has one; "": none has.
    std::string cluster_token() const;

private:
    bool knows(std::string_view authorization) const;

    const std::string own_token_;
    const std::vector<std::string> token_files_;
};

// Takes the same time wherever they differ. An empty secret equals nothing.
bool equals_secret(std::string_view secret, std::string_view given) noexcept;
// "127.9.9.9:80", "[::1]:80", "[::ffff:127.0.0.1]:80", "unix"
bool is_loopback_peer(std::string_view remote) noexcept;

}  // namespace capstan::steward
