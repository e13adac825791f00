// What `capstan up --once` proves before it ends: a put through one member, read
// back through every other.
#pragma once

#include "capstan/error.hpp"
#include "runtime/net/http.hpp"
#include "runtime/net/io_loop.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace capstan::cli {

// Thread: [io]. `done` runs once: a sentence, or the error (unavailable, invalid: a
// member gave another value).
class UpCheck {
public:
    // `endpoints`: client URLs of the members. Empty is an error.
    UpCheck(net::IoLoop& loop,
            std::vector<std::string> endpoints,
            std::function<void(Result<std::string>)> done);
    ~UpCheck();

private:
    void next();
    void finish(Result<std::string> outcome);
    void send(const std::string& endpoint,
              const std::string& path,
              std::string body,
              std::function<void(Result<net::HttpResponse>)> done);

    net::IoLoop& loop_;
    const std::vector<std::string> endpoints_;
    const std::function<void(Result<std::string>)> done_;
    const std::string value_;
    std::size_t read_{0};
    std::unique_ptr<net::HttpClient> client_;
    std::unique_ptr<net::HttpExchange> exchange_;
};

}  // namespace capstan::cli
