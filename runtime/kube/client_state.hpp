// Inside of kube::Client: what its calls share, and the one-request call. Not for other folders.
#pragma once

#include "runtime/kube/client.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace capstan::kube {

inline constexpr std::size_t kWarningsMax = 256;  // distinct texts remembered

class UnaryCall;

struct ClientState : std::enable_shared_from_this<ClientState> {
    ClientState(net::Loop& l, net::HttpClient& h, ClientOptions o)
        : loop(l), http(h), options(std::move(o)) {}

    net::Loop& loop;
    net::HttpClient& http;
    const ClientOptions options;
    std::unique_ptr<Resources> resources;
    bool closed{false};
    std::set<std::string, std::less<>> warnings;
    std::map<std::uint64_t, CallHandle> fetches;  // discovery in flight
    std::uint64_t fetch_sequence{0};

    // Common headers. `token` gets what was sent, for TokenSource::refused.
    Result<net::Headers> headers(std::string_view content_type, std::string& token);
    void observe(std::string_view method, int status, MonotonicTime started);  // 0: no response
    void note_warnings(const net::Headers& headers);
    // True: the token was refused but another one may do.
    bool renew(int status, const std::string& token);
    void fetch(std::string target, std::function<void(Result<std::string>)> done);

    // Exchanges are let go between callbacks, never inside their own.
    template <class T>
    void retire(std::unique_ptr<T> exchange) {
        if (exchange) {
            loop.post([kept = std::shared_ptr<T>(std::move(exchange))] {});
        }
    }
};

struct RequestSpec {
    std::string method{"GET"};
    std::string target;
    std::string content_type;
    std::string body;
};

// Resolves the kind, sends one request, once more after a renewed token, and reports once.
class UnaryCall : public std::enable_shared_from_this<UnaryCall> {
public:
    using Build = std::function<Result<RequestSpec>(const Resource&)>;
    using Done = std::function<void(Result<net::HttpResponse>)>;  // any status

    UnaryCall(std::shared_ptr<ClientState> client, MonotonicTime deadline, Done done);

    void start(const GroupVersionKind& gvk, Build build);
    void start(RequestSpec spec);
    void cancel();
    bool live() const noexcept { return live_ && !client_->closed; }

private:
    void send();
    void answered(Result<net::HttpResponse> result);
    void finish_soon(Error error);
    void finish(Result<net::HttpResponse> result);

    const std::shared_ptr<ClientState> client_;
    const MonotonicTime deadline_;
    Done done_;
    RequestSpec spec_;
    std::unique_ptr<net::HttpExchange> exchange_;
    std::unique_ptr<net::Timer> resolve_limit_;
    std::string token_;
    MonotonicTime started_{0};
    bool live_{true};
    bool retried_{false};
};

// The handle of a call: cancels it.
template <class T>
class HandleOf final : public Call {
public:
    explicit HandleOf(std::shared_ptr<T> call) : call_(std::move(call)) {}
    ~HandleOf() override { call_->cancel(); }
    HandleOf(const HandleOf&) = delete;
    HandleOf& operator=(const HandleOf&) = delete;

private:
    const std::shared_ptr<T> call_;  // shared with the callbacks under way
};

// "get pods foo/main".
std::string describe(std::string_view verb,
                     const Resource& resource,
                     std::string_view ns,
                     std::string_view name);
CallHandle start_watch(std::shared_ptr<ClientState> client,
                       const GroupVersionKind& gvk,
                       WatchOptions options,
                       WatchHandler handler);

}  // namespace capstan::kube
