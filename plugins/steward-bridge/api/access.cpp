#include "plugins/steward-bridge/api/access.hpp"

#include "plugins/steward-bridge/files.hpp"

#include <algorithm>

namespace capstan::steward {
namespace {

constexpr std::size_t kTokenBytesMin = 16;  // a shorter one can be guessed

std::string trimmed(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
        text.pop_back();
    }
    return text;
}

std::string token_of(const std::string& file) {
    auto text = read_file(file);
    std::string token = text ? trimmed(std::move(text).value()) : std::string();
    return token.size() < kTokenBytesMin ? std::string() : token;
}

Denial no_token(const Caller& caller, bool tls) {
    Denial denial;
    denial.reason = caller.authorization.empty() ? "NoCredentials" : "WrongToken";
    denial.message = caller.authorization.empty()
                         ? "this path needs credentials; "
                         : "the bearer token is not one this steward knows; ";
    denial.message +=
        tls ? "show a client certificate of the backup CA, or a bearer token"
            : "send \"Authorization: Bearer …\" with the token of the file \"token\" in the run "
              "directory, or the cluster's token";
    return denial;
}

}  // namespace

Caller Caller::of(const Exchange& exchange) {
    Caller caller;
    caller.authorization = exchange.header("authorization");
    caller.remote = exchange.remote();
    caller.tls = exchange.over_tls();
    caller.certified = exchange.certified();
    return caller;
}

bool equals_secret(std::string_view secret, std::string_view given) noexcept {
    if (secret.empty() || secret.size() != given.size()) {
        return false;
    }
    unsigned difference = 0;
    for (std::size_t i = 0; i < secret.size(); ++i) {
        difference |= static_cast<unsigned char>(secret[i]) ^ static_cast<unsigned char>(given[i]);
    }
    return difference == 0;
}

bool is_loopback_peer(std::string_view remote) noexcept {
    if (remote.starts_with("[")) {
        remote.remove_prefix(1);
        if (remote.starts_with("::ffff:")) {
            remote.remove_prefix(7);
        }
    }
    return remote == "unix" || remote.starts_with("127.") || remote.starts_with("::1]");
}

std::string Access::cluster_token() const {
    for (const std::string& file : token_files_) {
        if (std::string token = token_of(file); !token.empty()) {
            return token;
        }
    }
    return {};
}

bool Access::knows(std::string_view authorization) const {
    constexpr std::string_view kScheme = "Bearer ";
    if (!authorization.starts_with(kScheme)) {
        return false;
    }
    const std::string_view given = authorization.substr(kScheme.size());
    return equals_secret(own_token_, given) ||
           std::any_of(token_files_.begin(), token_files_.end(), [given](const std::string& file) {
               return equals_secret(token_of(file), given);
           });
}

std::optional<Denial> Access::check(RouteKind kind, const Caller& caller) const {
    if (kind == RouteKind::open) {
        return std::nullopt;
    }
    if (!caller.tls && !is_loopback_peer(caller.remote)) {
        return Denial{403,
                      "NotOnLoopback",
                      "plain HTTP is answered on loopback only, this came from " +
                          std::string(caller.remote) + "; set spec.backup.tls of the Etcd"};
    }
    if (caller.certified || (caller.tls && kind == RouteKind::read) ||
        knows(caller.authorization)) {
        return std::nullopt;
    }
    return no_token(caller, caller.tls);
}

}  // namespace capstan::steward
