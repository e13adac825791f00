#include "runtime/local/apiserver/authenticator.hpp"

#include "runtime/local/apiserver/persistence_record.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

constexpr std::string_view kBearer = "bearer ";

bool starts_with_ignoring_case(std::string_view text, std::string_view lower) {
    return text.size() >= lower.size() &&
           std::equal(lower.begin(), lower.end(), text.begin(), [](char a, char b) {
               return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
           });
}

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> out;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(separator), text.size());
        out.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
}

// One CSV line; only the last field may be quoted.
Result<void> add_line(Authenticator& authenticator, std::string_view line) {
    const std::size_t quote = std::min(line.find('"'), line.size());
    const std::vector<std::string> fields = split(line.substr(0, quote), ',');
    if (fields.size() < 2 || fields[0].empty() || fields[1].empty()) {
        return fail(Code::invalid, "expected token,user,uid[,\"group1,group2\"]");
    }
    User user{fields[1], {}};
    if (quote < line.size()) {
        const std::size_t end = line.find('"', quote + 1);
        if (end == std::string_view::npos) {
            return fail(Code::invalid, "the quoted groups do not end");
        }
        user.groups = split(line.substr(quote + 1, end - quote - 1), ',');
    } else if (fields.size() > 3) {
        user.groups = {fields[3]};
    }
    return authenticator.set_token(fields[0], std::move(user));
}

}  // namespace

Result<void> Authenticator::set_token(std::string token, User user) {
    if (token.size() < kTokenBytesMin || token.size() > kTokenBytesMax) {
        return fail(Code::invalid,
                    "a token has " + std::to_string(kTokenBytesMin) + " to " +
                        std::to_string(kTokenBytesMax) + " bytes");
    }
    if (tokens_.size() >= kTokensMax) {
        return fail(Code::overloaded, "too many tokens");
    }
    tokens_.insert_or_assign(std::move(token), std::move(user));
    return ok();
}

void Authenticator::remove_token(std::string_view token) {
    tokens_.erase(std::string(token));
}

Result<std::size_t> Authenticator::load_tokens(const std::string& path) {
    CAPSTAN_TRY(const std::string text, read_whole_file(path));
    std::size_t count = 0;
    std::size_t number = 0;
    for (const std::string& line : split(text, '\n')) {
        ++number;
        if (line.empty() || line.front() == '#') {
            continue;
        }
        if (auto added = add_line(*this, line); !added) {
            return fail(with_context(added.error(), path + ":" + std::to_string(number)));
        }
        ++count;
    }
    return count;
}

Answer<User> Authenticator::authenticate(std::string_view authorization,
                                         const std::string& certificate_name,
                                         const std::vector<std::string>& certificate_groups) const {
    if (!authorization.empty()) {
        if (!starts_with_ignoring_case(authorization, kBearer)) {
            return refuse(unauthorized());
        }
        const std::string_view token = authorization.substr(kBearer.size());
        if (const auto found = tokens_.find(std::string(token)); found != tokens_.end()) {
            return found->second;
        }
        std::optional<User> verified = verifier_ ? verifier_(token) : std::nullopt;
        if (!verified) {
            return refuse(unauthorized());
        }
        return *std::move(verified);
    }
    return User{certificate_name, certificate_groups};
}

}  // namespace capstan::local
