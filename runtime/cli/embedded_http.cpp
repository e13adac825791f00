#include "runtime/cli/embedded_http.hpp"

#include "runtime/local/apiserver/rbac.hpp"
#include "runtime/local/apiserver/tick_timer.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace capstan::cli {
namespace {

constexpr std::size_t kPieceBytes = 64u * 1024;  // of a stream, as net::StreamHandler promises

local::ApiRequest to_api(const net::HttpRequest& request) {
    local::ApiRequest out;
    out.method = request.method;
    out.target = request.target;
    out.content_type = std::string(net::find_header(request.headers, "content-type"));
    out.accept = std::string(net::find_header(request.headers, "accept"));
    out.user_agent = std::string(net::find_header(request.headers, "user-agent"));
    out.body = request.body;
    out.user = {"capstan",
                {std::string(local::kGroupMasters), std::string(local::kGroupAuthenticated)}};
    return out;
}

net::HttpResponse to_http(local::ApiResponse answer) {
    net::HttpResponse out;
    out.status = answer.status;
    out.headers = std::move(answer.headers);
    out.headers.emplace_back("Content-Type", std::move(answer.content_type));
    out.body = std::move(answer.body);
    return out;
}

class Exchange final : public net::HttpExchange {
public:
    explicit Exchange(std::shared_ptr<bool> open) : open_(std::move(open)) {}
    ~Exchange() override { *open_ = false; }

private:
    const std::shared_ptr<bool> open_;  // shared with the task that answers
};

// One stream: the server's lines on one side, reads on the other.
struct Feed : std::enable_shared_from_this<Feed> {
    Feed(net::Loop& feed_loop, net::StreamHandler feed_handler)
        : loop(feed_loop), handler(std::move(feed_handler)) {}

    net::Loop& loop;
    net::StreamHandler handler;
    std::unique_ptr<local::WatchHandle> watch;
    std::string pending;
    bool reading{false};
    bool posted{false};
    bool ended{false};  // by the server
    bool open{true};    // the client holds its end

    void append(std::string_view lines) {
        pending += lines;
        wake();
    }
    void end() {
        ended = true;
        wake();
    }
    void read() {
        reading = true;
        wake();
    }
    void close() {
        open = false;
        watch.reset();
    }

private:
    // Callbacks never run inside the call that registered them, nor inside the server.
    void wake() {
        if (open && reading && !posted && (!pending.empty() || ended)) {
            posted = true;
            loop.post([self = shared_from_this()] { self->deliver(); });
        }
    }
    void deliver() {
        posted = false;
        if (!open || !reading) {
            return;
        }
        reading = false;
        if (!pending.empty()) {
            const std::string piece = pending.substr(0, kPieceBytes);
            pending.erase(0, piece.size());
            handler.on_data(piece);
            return;
        }
        watch.reset();
        handler.on_end(ok());
    }
};

class Stream final : public net::HttpStream {
public:
    explicit Stream(std::shared_ptr<Feed> feed) : feed_(std::move(feed)) {}
    ~Stream() override { feed_->close(); }
    void read() override { feed_->read(); }
    void write(std::string, bool, std::function<void(Result<void>)> done) override {
        feed_->loop.post([done = std::move(done)] {
            done(fail(Code::unsupported, "the embedded API server takes no body in pieces"));
        });
    }

private:
    const std::shared_ptr<Feed> feed_;  // shared with the watch's sink and tasks on the loop
};

}  // namespace

struct EmbeddedHttp::State {
    State(net::Loop& state_loop, local::ApiServer& state_server, Observer state_observer)
        : loop(state_loop), server(state_server), observer(std::move(state_observer)) {}

    net::Loop& loop;
    local::ApiServer& server;
    const Observer observer;
    std::optional<local::TickTimer> ticks;  // until the client goes; tasks may outlive it

    net::HttpResponse answer(const net::HttpRequest& request) {
        local::ApiResponse response = server.handle(to_api(request));
        if (observer && request.method != "GET") {
            observer(request, response);
        }
        return to_http(std::move(response));
    }

    void open(const std::shared_ptr<Feed>& feed, const net::HttpRequest& request) {
        const local::ApiRequest api = to_api(request);
        net::HttpResponse head{200, {{"Content-Type", "application/json"}}, {}};
        if (local::ApiServer::is_watch(api)) {
            local::WatchSink sink;
            sink.on_lines = [weak = std::weak_ptr<Feed>(feed)](std::string_view lines) {
                if (const auto f = weak.lock()) {
                    f->append(lines);
                }
            };
            sink.on_end = [weak = std::weak_ptr<Feed>(feed)] {
                if (const auto f = weak.lock()) {
                    f->end();
                }
            };
            local::WatchStart start = server.open_watch(api, std::move(sink));
            feed->watch = std::move(start.handle);
            if (feed->watch == nullptr) {
                head = to_http(std::move(start.refused));
            }
        } else {
            head = answer(request);
        }
        feed->handler.on_head(head.status, head.headers);
        if (feed->watch == nullptr) {
            feed->append(head.body);
            feed->end();
        }
    }
};

EmbeddedHttp::EmbeddedHttp(net::Loop& loop, local::ApiServer& server, Observer observer)
    : state_(std::make_shared<State>(loop, server, std::move(observer))) {
    state_->ticks.emplace(loop, server);
}

EmbeddedHttp::~EmbeddedHttp() {
    state_->ticks.reset();
}

std::unique_ptr<net::HttpExchange> EmbeddedHttp::send(
    net::HttpRequest request, std::function<void(Result<net::HttpResponse>)> done) {
    auto open = std::make_shared<bool>(true);
    state_->loop.post([weak = std::weak_ptr<State>(state_),
                       open,
                       request = std::move(request),
                       done = std::move(done)] {
        if (const auto state = weak.lock(); state != nullptr && *open) {
            done(state->answer(request));
        }
    });
    return std::make_unique<Exchange>(std::move(open));
}

std::unique_ptr<net::HttpStream> EmbeddedHttp::stream(net::HttpRequest request,
                                                      net::StreamOptions,
                                                      net::StreamHandler handler) {
    auto feed = std::make_shared<Feed>(state_->loop, std::move(handler));
    state_->loop.post([weak = std::weak_ptr<State>(state_), feed, request = std::move(request)] {
        if (const auto state = weak.lock(); state != nullptr && feed->open) {
            state->open(feed, request);
        }
    });
    return std::make_unique<Stream>(std::move(feed));
}

}  // namespace capstan::cli
