#include "runtime/local/apiserver/http_binding.hpp"

#include "runtime/local/apiserver/status.hpp"
#include "runtime/local/apiserver/tick_timer.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace capstan::local {
namespace {

// Read beyond the limit, so that the refusal is a Status; from here on it is a plain 413.
constexpr std::size_t kBodyReadMax = 2 * kBodyBytesMax;

using ExchangePtr = std::shared_ptr<net::ServerExchange>;

// Of net only the interfaces are used, so that the simulator links no sockets:
// hence no net::find_header.
std::string header(const net::ServerExchange& exchange, std::string_view lower_name) {
    for (const auto& [name, value] : exchange.headers()) {
        const bool same =
            name.size() == lower_name.size() &&
            std::equal(name.begin(), name.end(), lower_name.begin(), [](char a, char b) {
                return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
            });
        if (same) {
            return value;
        }
    }
    return {};
}

void send(net::ServerExchange& exchange, ApiResponse response) {
    net::Headers headers = std::move(response.headers);
    headers.emplace_back("Content-Type", response.content_type);
    headers.emplace_back("Cache-Control", "no-cache, private");
    exchange.respond(response.status, std::move(headers), std::move(response.body));
}

// One watch on the wire. Shared: the binding owns it, a write in flight and the exchange's
// close keep it for a moment.
class WatchStream : public std::enable_shared_from_this<WatchStream> {
public:
    WatchStream(ExchangePtr exchange, std::size_t backlog_bytes_max)
        : exchange_(std::move(exchange)), backlog_bytes_max_(backlog_bytes_max) {}

    WatchSink sink() {
        // Weak: the hub may keep the sink for a moment after the stream is gone.
        const std::weak_ptr<WatchStream> weak = weak_from_this();
        return {[weak](std::string_view lines) {
                    if (const auto self = weak.lock()) {
                        self->append(lines);
                    }
                },
                [weak] {
                    if (const auto self = weak.lock()) {
                        self->finish();
                    }
                }};
    }

    // Head and whatever the watch has already sent.
    void start(std::unique_ptr<WatchHandle> handle) {
        handle_ = std::move(handle);
        exchange_->on_closed([self = shared_from_this()] { self->drop(); });
        exchange_->start(
            200, {{"Content-Type", "application/json"}, {"Cache-Control", "no-cache, private"}});
        started_ = true;
        flush();
    }

    void finish() {
        ending_ = true;
        flush();
    }

    bool over() const noexcept { return over_; }

private:
    void append(std::string_view lines) {
        if (over_ || ending_) {
            return;
        }
        pending_ += lines;
        // Initial events may be large; they count against the backlog only once the stream runs.
        if (started_ && pending_.size() > backlog_bytes_max_) {
            pending_.clear();
            close();
            return;
        }
        flush();
    }
    void flush() {
        if (!started_ || over_ || writing_) {
            return;
        }
        if (pending_.empty()) {
            if (ending_) {
                close();
            }
            return;
        }
        writing_ = true;
        exchange_->write(std::exchange(pending_, {}),
                         [self = shared_from_this()](Result<void> written) {
                             self->writing_ = false;
                             if (written) {
                                 self->flush();
                             } else {
                                 self->drop();
                             }
                         });
    }
    void close() {
        if (!over_) {
            over_ = true;
            handle_.reset();
            exchange_->end();
            exchange_.reset();
        }
    }
    void drop() {
        over_ = true;
        handle_.reset();
        pending_.clear();
        exchange_.reset();
    }

    ExchangePtr exchange_;
    std::size_t backlog_bytes_max_;
    std::unique_ptr<WatchHandle> handle_;
    std::string pending_;
    bool started_{false};
    bool writing_{false};
    bool ending_{false};
    bool over_{false};
};

}  // namespace

struct HttpBinding::State : std::enable_shared_from_this<HttpBinding::State> {
    State(net::Loop& binding_loop,
          ApiServer& binding_server,
          const Authenticator& binding_authenticator,
          HttpBindingOptions binding_options)
        : loop(binding_loop),
          server(binding_server),
          authenticator(binding_authenticator),
          options(std::move(binding_options)) {}

    net::Loop& loop;
    ApiServer& server;
    const Authenticator& authenticator;
    HttpBindingOptions options;
    bool open{true};
    std::vector<std::shared_ptr<WatchStream>> streams;  // those over go when the next one comes
    std::optional<TickTimer> ticks;                     // until the binding goes

    void accept(const ExchangePtr& exchange) {
        if (exchange->method() == "GET" || exchange->method() == "HEAD") {
            serve(exchange, {});
            return;
        }
        exchange->read_all(kBodyReadMax,
                           [self = shared_from_this(), exchange](Result<std::string> body) {
                               if (body && self->open) {
                                   self->serve(exchange, std::move(body).assume_value());
                               }
                           });
    }

    void serve(const ExchangePtr& exchange, std::string body) {
        auto user = authenticator.authenticate(header(*exchange, "authorization"),
                                               exchange->certificate_common_name(),
                                               exchange->certificate_organizations());
        if (!user) {
            send(*exchange, to_response(user.error()));
            return;
        }
        ApiRequest request;
        request.method = exchange->method();
        request.target = exchange->target();
        request.content_type = header(*exchange, "content-type");
        request.accept = header(*exchange, "accept");
        request.user_agent = header(*exchange, "user-agent");
        request.body = std::move(body);
        request.user = std::move(user).assume_value();
        if (ApiServer::is_watch(request)) {
            watch(exchange, request);
        } else if (options.pod_log && ApiServer::is_pod_log(request)) {
            PodLogCheck check = server.check_pod_log(request);
            if (check.allowed) {
                options.pod_log(check.request, exchange);
            } else {
                send(*exchange, std::move(check.refused));
            }
        } else {
            send(*exchange, server.handle(request));
        }
    }

    void watch(const ExchangePtr& exchange, const ApiRequest& request) {
        auto stream = std::make_shared<WatchStream>(exchange, options.watch_backlog_bytes_max);
        WatchStart start = server.open_watch(request, stream->sink());
        if (!start.handle) {
            send(*exchange, std::move(start.refused));
            return;
        }
        std::erase_if(streams, [](const auto& old) { return old->over(); });
        streams.push_back(stream);
        stream->start(std::move(start.handle));
    }
};

HttpBinding::HttpBinding(net::Loop& loop,
                         ApiServer& server,
                         const Authenticator& authenticator,
                         HttpBindingOptions options)
    : state_(std::make_shared<State>(loop, server, authenticator, std::move(options))) {
    state_->ticks.emplace(loop, server);
}

HttpBinding::~HttpBinding() {
    state_->open = false;
    state_->ticks.reset();
    for (const auto& stream : std::exchange(state_->streams, {})) {
        stream->finish();
    }
}

net::ServerHandler HttpBinding::handler() {
    return [weak = std::weak_ptr<State>(state_)](ExchangePtr exchange) {
        const auto state = weak.lock();
        if (state && state->open) {
            state->accept(exchange);
            return;
        }
        StatusError error;
        error.code = 503;
        error.reason = "ServiceUnavailable";
        error.message = "the API server is shutting down";
        error.retry_after_s = 1;
        send(*exchange, to_response(error));
    };
}

}  // namespace capstan::local
