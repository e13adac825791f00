#include "test/sim/api_handler.hpp"

#include <algorithm>

namespace capstan::test {

// One watch: the server's events on one side, the exchange on the other.
struct ApiHost::Feed {
    std::shared_ptr<net::ServerExchange> exchange;  // shared as ServerHandler gives it
    std::unique_ptr<local::WatchHandle> watch;
    bool over{false};
};

ApiHost::ApiHost(net::Loop& loop, std::unique_ptr<local::ApiServer> server)
    : loop_(loop), server_(std::move(server)) {
    arm();
}

ApiHost::~ApiHost() {
    for (const auto& weak : feeds_) {
        if (const auto feed = weak.lock()) {
            feed->over = true;
            feed->watch.reset();
        }
    }
}

void ApiHost::arm() {
    const MonotonicTime next = server_->next_tick();
    if (next == armed_for_) {
        return;
    }
    armed_for_ = next;
    tick_.reset();
    if (next != kNever) {
        tick_ = loop_.at(next, [this] {
            armed_for_ = kNever;
            server_->tick();
            arm();
        });
    }
}

local::ApiResponse ApiHost::ask(std::string method,
                                std::string target,
                                std::string body,
                                std::string content_type) {
    local::ApiRequest request;
    request.method = std::move(method);
    request.target = std::move(target);
    request.body = std::move(body);
    request.content_type = std::move(content_type);
    request.accept = "application/json";
    request.user_agent = "person/1";
    request.user = {"person", {"system:masters"}};
    local::ApiResponse response = server_->handle(request);
    arm();
    return response;
}

net::ServerHandler ApiHost::handler() {
    return [this](std::shared_ptr<net::ServerExchange> exchange) {
        exchange->read_all(local::kBodyBytesMax, [this, exchange](Result<std::string> body) {
            if (body) {
                serve(exchange, std::move(body).value());
            }
        });
    };
}

void ApiHost::serve(const std::shared_ptr<net::ServerExchange>& exchange, std::string body) {
    local::ApiRequest request;
    request.method = exchange->method();
    request.target = exchange->target();
    request.content_type = std::string(net::find_header(exchange->headers(), "content-type"));
    request.accept = std::string(net::find_header(exchange->headers(), "accept"));
    request.user_agent = std::string(net::find_header(exchange->headers(), "user-agent"));
    request.body = std::move(body);
    request.user = {"operator", {"system:masters"}};
    if (!local::ApiServer::is_watch(request)) {
        local::ApiResponse response = server_->handle(request);
        response.headers.emplace_back("Content-Type", response.content_type);
        exchange->respond(response.status, std::move(response.headers), std::move(response.body));
        arm();
        return;
    }
    auto feed = std::make_shared<Feed>();  // shared by the sink and the exchange's end
    feed->exchange = exchange;
    exchange->start(200, {{"Content-Type", "application/json"}});
    local::WatchSink sink;
    sink.on_lines = [weak = std::weak_ptr<Feed>(feed)](std::string_view lines) {
        if (const auto f = weak.lock(); f != nullptr && !f->over) {
            f->exchange->write(std::string(lines), [](const Result<void>&) {});
        }
    };
    sink.on_end = [this, weak = std::weak_ptr<Feed>(feed)] {
        // Not inside the server's call: ending drops the watch's handle.
        loop_.post([weak] {
            if (const auto f = weak.lock(); f != nullptr && !f->over) {
                f->over = true;
                f->exchange->end();
            }
        });
    };
    local::WatchStart started = server_->open_watch(request, std::move(sink));
    if (started.handle == nullptr) {
        const std::string line = R"({"type":"ERROR","object":)" + started.refused.body + "}\n";
        exchange->write(line, [](const Result<void>&) {});
        exchange->end();
        return;
    }
    feed->watch = std::move(started.handle);
    exchange->on_closed([feed] {
        feed->over = true;
        feed->watch.reset();
    });
    std::erase_if(feeds_, [](const auto& weak) { return weak.expired(); });
    feeds_.push_back(feed);
    arm();
}

}  // namespace capstan::test
