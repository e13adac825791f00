// An in-process net::HttpClient that talks to a net::ServerHandler (the embedded API server's)
// without sockets, in virtual time, with faults.
//
// Its lies: no TLS, no connection limits, no TCP windows (a stream holds its backlog in memory, up
// to kBacklogBytesMax, after which the writer is told `unavailable`). Thread: the loop's.
#pragma once

#include "runtime/net/http.hpp"
#include "runtime/net/loop.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace capstan::test {

inline constexpr std::size_t kBacklogBytesMax = 64u * 1024 * 1024;

// What happens to one request. All off by default. Evaluated in this order.
struct Fault {
    std::chrono::nanoseconds request_delay{0};  // before the server sees it
    bool refuse{false};                         // unavailable, the server never sees it
    // answered with this status and a Status body; the server never sees it
    std::optional<int> status;
    std::chrono::seconds retry_after{0};  // header of that answer
    bool duplicate{false};                // the server sees it twice; the second answer is dropped
    bool lose_response{false};            // the server does it, the client gets unavailable
    std::chrono::nanoseconds response_delay{0};  // each piece
    std::optional<std::size_t> cut_after_bytes;  // of a stream's body: then unavailable
    std::size_t chunk_bytes{0};  // deliver bodies in pieces of this size; 0: as written
};

struct LocalTransportOptions {
    std::chrono::nanoseconds latency{0};  // each way, each piece
    std::string remote{"127.0.0.1:1"};
    std::string certificate_common_name;  // as if the client had presented this
    std::vector<std::string> certificate_organizations;
};

class LocalTransport final : public net::HttpClient {
public:
    LocalTransport(net::Loop& loop, net::ServerHandler handler, LocalTransportOptions options = {});
    ~LocalTransport() override;

    [[nodiscard]] std::unique_ptr<net::HttpExchange> send(
        net::HttpRequest request, std::function<void(Result<net::HttpResponse>)> done) override;
    [[nodiscard]] std::unique_ptr<net::HttpStream> stream(net::HttpRequest request,
                                                          net::StreamOptions options,
                                                          net::StreamHandler handler) override;

    // Asked once per request; empty: no faults.
    void set_faults(std::function<Fault(const net::HttpRequest&)> faults);
    // Ends every open stream with unavailable; unary requests in flight too. Returns how many.
    std::size_t cut_all();
    // new requests are refused and nothing arrives; open ones stay silent
    void set_partitioned(bool partitioned);
    std::size_t open_streams() const noexcept;
    std::uint64_t requests() const noexcept;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace capstan::test
