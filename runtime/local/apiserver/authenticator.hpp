// Who is asking: bearer tokens and verified client certificates to users.
//
// Thread: the server's.
#pragma once

#include "runtime/local/apiserver/rbac.hpp"
#include "runtime/local/apiserver/status.hpp"

#include "capstan/error.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace capstan::local {

inline constexpr std::size_t kTokensMax = 100'000;
inline constexpr std::size_t kTokenBytesMax = 8 * 1024;
inline constexpr std::size_t kTokenBytesMin = 16;  // shorter ones can be guessed

class Authenticator {
public:
    // Errors: invalid (too short or long), overloaded (kTokensMax). A known
    // token gets the new user.
    Result<void> set_token(std::string token, User user);
    void remove_token(std::string_view token);

    // Asked for a token that is not in the table: for tokens that carry their own proof.
    // nullopt: not one of those.
    using Verifier = std::function<std::optional<User>(std::string_view token)>;
    void set_verifier(Verifier verifier) { verifier_ = std::move(verifier); }

    // Adds the tokens of a file in kube-apiserver's --token-auth-file form:
    // `token,user,uid,"group1,group2"` per line, '#' starts a comment. Errors: not_found,
    // unavailable, invalid with the line.
    Result<std::size_t> load_tokens(const std::string& path);

    // `authorization`: the header's value. A certificate counts when there is no token. Nothing at
    // all is anonymous (empty name); a token nobody knows is 401.
    Answer<User> authenticate(std::string_view authorization,
                              const std::string& certificate_name,
                              const std::vector<std::string>& certificate_groups) const;

private:
    std::unordered_map<std::string, User> tokens_;
    Verifier verifier_;
};

}  // namespace capstan::local
