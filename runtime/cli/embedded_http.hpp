// The embedded API server as a net::HttpClient: requests of the runtime reach it in this process,
// without sockets. Every request is a master's. Owns the server's ticks. Thread: [io].
#pragma once

#include "runtime/local/apiserver/api_server.hpp"
#include "runtime/net/http.hpp"
#include "runtime/net/loop.hpp"

#include <functional>
#include <memory>

namespace capstan::cli {

class EmbeddedHttp final : public net::HttpClient {
public:
    // Told of each answered request that is no GET.
    using Observer =
        std::function<void(const net::HttpRequest& request, const local::ApiResponse& answer)>;

    // borrowed; outlive *this
    EmbeddedHttp(net::Loop& loop, local::ApiServer& server, Observer observer);
    ~EmbeddedHttp() override;

    [[nodiscard]] std::unique_ptr<net::HttpExchange> send(
        net::HttpRequest request, std::function<void(Result<net::HttpResponse>)> done) override;
    // A watch. Any other request is answered whole, as one piece of the body.
    [[nodiscard]] std::unique_ptr<net::HttpStream> stream(net::HttpRequest request,
                                                          net::StreamOptions options,
                                                          net::StreamHandler handler) override;

private:
    struct State;
    std::shared_ptr<State> state_;  // shared with tasks on the loop
};

}  // namespace capstan::cli
