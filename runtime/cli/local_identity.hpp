// The keys and certificates of one `.capstan` directory, made at the first start and kept.
//
// Files below DIR/pki, mode 0600: ca.{crt,key}, server.{crt,key} (localhost, 127.0.0.1), admin and
// operator client pairs, tokens.key; and DIR/steward-token. The server certificate is issued anew
// when less than 30 days are left. Thread: [startup].
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "runtime/net/pki.hpp"

#include <string>

namespace capstan::cli {

struct LocalIdentity {
    std::string ca_pem;
    net::KeyPair server;
    net::KeyPair admin;      // CN capstan-admin, O system:masters
    net::KeyPair operator_;  // CN capstan-operator, no group: RBAC decides
    std::string token_key;
    std::string steward_token_file;  // DIR/steward-token: opens the HTTP API of every steward

    // `dir`: absolute, exists. Errors: unavailable (names the file), invalid (a damaged
    // file, with the remedy).
    static Result<LocalIdentity> load_or_create(const std::string& dir, WallTime now);
};

// A kubeconfig with everything inline.
std::string make_kubeconfig(const std::string& server,
                            const std::string& ca_pem,
                            const net::KeyPair& client,
                            const std::string& user);

std::string base64(std::string_view bytes);

}  // namespace capstan::cli
