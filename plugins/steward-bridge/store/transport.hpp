// HTTP, time and chance as the S3 store needs them: in the plugin the host's, in tests a fake
// server.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "capstan/http.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::steward {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

// "" when absent; names of `headers` are lower case.
std::string_view header_of(const HeaderList& headers, std::string_view name) noexcept;

struct HttpHead {
    int status{0};
    HeaderList headers;  // lower-case names
};

// One request and its answer. Destroying it gives up what is not finished.
class HttpExchange {
public:
    virtual ~HttpExchange() = default;

    virtual Result<void> write(std::string_view bytes) = 0;
    virtual Result<HttpHead> head() = 0;  // waits; once, after the whole body was written
    // Fills the front of `into`; 0: the end. Errors: unavailable (cut), timeout.
    virtual Result<std::size_t> read(std::span<char> into) = 0;
};

class Transport {
public:
    virtual ~Transport() = default;

    // `request.body` is ignored: `body_bytes` are written to the exchange. The timeout is for the
    // head, and for each wait for more of the body. Errors: invalid, unavailable, timeout,
    // cancelled.
    virtual Result<std::unique_ptr<HttpExchange>> open(const HttpRequest& request,
                                                       std::int64_t body_bytes) = 0;
};

class Pace {
public:
    virtual ~Pace() = default;

    virtual WallTime wall_now() = 0;
    virtual Result<void> sleep(std::chrono::nanoseconds duration) = 0;  // cancelled
    virtual double chance() = 0;                                        // 0 to below 1
};

}  // namespace capstan::steward
