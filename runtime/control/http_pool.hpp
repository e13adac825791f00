// HTTP clients for capstan.http/1, one per endpoint and TLS identity, kept for their
// idle connections. [io]
#pragma once

#include "runtime/control/runtime.hpp"

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <string>

namespace capstan::control {

// the one used longest ago goes, when its exchanges have ended
inline constexpr std::size_t kHttpClientsMax = 64;

class HttpPool {
public:
    using Factory = decltype(Parts::http_clients);
    explicit HttpPool(const Factory& factory) : factory_(factory) {}

    // Shared: an exchange keeps its client. Errors: of the factory; unsupported without one.
    Result<std::shared_ptr<net::HttpClient>> client(const net::HttpClientOptions& options);
    void clear() { clients_.clear(); }

private:
    struct Entry {
        std::string key;
        std::shared_ptr<net::HttpClient> client;
    };
    const Factory& factory_;
    std::list<Entry> clients_;  // used last first
};

}  // namespace capstan::control
