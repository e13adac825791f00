// Inside of kube::Client: what its calls share, and the one-request call. Not for other folders.
#pragma once

#include "runtime/kube/client.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace capstan::kube {

inline constexpr std::size_t kWarningsMax = 256;  // distinct texts remembered

class UnaryCall;

// A watch as Client::renew_watches sees it.
class Renewable {
public:
    virtual ~Renewable() = default;
    virtual void renew() = 0;
};

struct ClientState : std::enable_shared_from_this<ClientState> {
    ClientState(net::Loop& l, net::HttpClient& h, ClientOptions o);

    net::Loop& loop;
    net::HttpClient& http;
    const ClientOptions options;
    Flow flow;
    std::set<Renewable*> watches;
    std::unique_ptr<net::Timer> renewing;
    std::unique_ptr<Resources> resources;
    bool closed{false};
    bool unreachable{false};  // the last request got no answer, or the server's failure
    std::function<void()> server_back;
    std::set<std::string, std::less<>> warnings;
    std::map<std::uint64_t, CallHandle> fetches;  // discovery in flight
    std::uint64_t fetch_sequence{0};

    // Common headers. `token` gets what was sent, for TokenSource::refused. `packed`: the answer
    // may be gzip if the connection allows it; never that to a watch, whose events something on the
    // way could hold back to pack them.
    Result<net::Headers> headers(std::string_view accept,
                                 std::string_view content_type,
                                 bool packed,
                                 std::string& token);
    void observe(std::string_view method, int status, MonotonicTime started);  // 0: no response
    void observe_retry(std::string_view method, int status);
    void observe_wait(std::string_view method, MonotonicTime since);
    double random() const { return options.random(); }
    void renew_next(const std::set<Renewable*>& left);
    // `about`: the request they came with, "PATCH /api/v1/…"; each text is told once, with the
    // first.
    void note_warnings(const net::Headers& headers, std::string_view about);
    Error explained(Error error) const {
        return options.explain ? options.explain(std::move(error)) : error;
    }
    // The answer when it is a good one of the API's, else what is wrong with it.
    Result<net::HttpResponse> accept(Result<net::HttpResponse> result, bool creating = false) const;
    // True: the token was refused but another one may do.
    bool renew(int status, const std::string& token);
    void fetch(std::string target, std::string accept, Resources::Fetched done);

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
    std::string accept{};    // empty: JSON
    bool list{false};        // costs the server much
    bool repeatable{false};  // harmless when the first sending took effect
};

// What the answer says about the server's load.
FlowOutcome outcome_of(const Error& error) noexcept;

// Resolves the kind, waits for its turn, sends one request, again as client.hpp says, and reports
// once.
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
    void prepare();
    void take_place();
    void send();
    void answered(Result<net::HttpResponse> result);
    bool send_again(const Result<net::HttpResponse>& result, const Error& error);
    void arm_limit();
    void pause_until(MonotonicTime again);
    void finish_soon(Error error);
    void finish(Result<net::HttpResponse> result);

    const std::shared_ptr<ClientState> client_;
    const MonotonicTime deadline_;
    Done done_;
    RequestSpec spec_;
    std::unique_ptr<net::HttpExchange> exchange_;
    std::unique_ptr<net::Timer> limit_;  // until the request is sent; then HTTP's own
    std::unique_ptr<net::Timer> pause_;
    std::unique_ptr<FlowTicket> place_;
    std::optional<Error> busy_;  // what the server said when it had no time
    const char* waits_for_{"discovery of the kind"};
    std::string token_;
    MonotonicTime queued_{0};
    MonotonicTime started_{0};
    bool live_{true};
    bool renewed_{false};
    bool repeated_{false};
    bool waited_{false};  // since queued_, for a busy server
    int busy_retries_{0};
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
