// Where the bearer token of a request comes from. Thread: [io].
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace capstan::kube {

inline constexpr std::chrono::seconds kTokenTtl{60};  // a token file is read again after this long
inline constexpr std::size_t kTokenBytesMax = 64 * 1024;

class TokenSource {
public:
    virtual ~TokenSource() = default;
    // False: finding the token takes time; it is looked for, and `then` runs once when token() can
    // answer, well or badly. Never calls inside the call. True: ask token(), `then` is dropped.
    virtual bool ready(std::function<void()> then);
    // The token for a request that starts now; empty: send none. Errors: invalid (no file and no
    // older token; what an exec plugin said).
    virtual Result<std::string> token() = 0;
    // The server refused `used`: true when another token may be available and the request is worth
    // sending again.
    virtual bool refused(const std::string& used) = 0;
    // Why the last look for a newer token was in vain; "" when it was not.
    virtual std::string trouble() const { return {}; }
    // Ends what ready() started; nobody who waits is told. For the end of the process.
    virtual void close() {}
};

std::unique_ptr<TokenSource> make_fixed_token(std::string token);

// Reads the whole file; injected in tests. Errors: invalid.
using ReadFile = std::function<Result<std::string>(const std::string& path)>;
Result<std::string> read_small_file(const std::string& path);  // at most 1 MiB
// What a token file holds, trimmed. Errors: of `read`; invalid (nothing, or no token).
Result<std::string> read_token(const std::string& path, const ReadFile& read);

// Hears of each new problem with the file once, and of its end with nullptr.
using TokenTold = std::function<void(const Error* problem)>;

// Opened by path each time (the mount is swapped, not rewritten), trimmed; on a failed read the
// older token stays. `first`: used until the first read, may be empty.
std::unique_ptr<TokenSource> make_file_token(const Clock& clock,
                                             std::string path,
                                             std::string first,
                                             ReadFile read = read_small_file,
                                             TokenTold told = {});

}  // namespace capstan::kube
