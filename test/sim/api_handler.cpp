#include "test/sim/api_handler.hpp"

#include "capstan/json.hpp"

#include <algorithm>
#include <utility>

namespace capstan::test {

// One watch: the server's events on one side, the exchange on the other.
struct ApiHost::Feed {
    std::shared_ptr<net::ServerExchange> exchange;  // shared as ServerHandler gives it
    std::unique_ptr<local::WatchHandle> watch;
    bool open{false};  // the initial events are through
    bool over{false};
    bool ended{false};  // by the server; what is held back goes out first
    struct Piece {
        std::string lines;
        MonotonicTime due;
    };
    std::deque<Piece> held;
    std::unique_ptr<net::Timer> timer;
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
    if (local::ApiServer::is_watch(request)) {
        serve_watch(exchange, request);
        return;
    }
    const std::uint64_t before = server_->revision();
    local::ApiResponse response = server_->handle(request);
    if (on_write && request.method != "GET") {
        const bool changed = server_->revision() != before;
        on_write({request.method, request.target, response.status, changed, response.body});
    }
    response.headers.emplace_back("Content-Type", response.content_type);
    exchange->respond(response.status, std::move(response.headers), std::move(response.body));
    arm();
}

void ApiHost::serve_watch(const std::shared_ptr<net::ServerExchange>& exchange,
                          const local::ApiRequest& request) {
    if (loop_.now() < no_watch_before_) {
        exchange->respond(503, {}, "{}");
        return;
    }
    if (std::exchange(expire_, false)) {
        server_->compact_history();
    }
    auto feed = std::make_shared<Feed>();  // shared by the sink and the exchange's end
    feed->exchange = exchange;
    local::WatchSink sink;
    sink.on_lines = [this, weak = std::weak_ptr<Feed>(feed)](std::string_view lines) {
        if (const auto f = weak.lock(); f != nullptr && !f->over) {
            take(f, lines);
        }
    };
    sink.on_end = [this, weak = std::weak_ptr<Feed>(feed)] {
        // Not inside the server's call: ending drops the watch's handle.
        loop_.post([this, weak] {
            if (const auto f = weak.lock()) {
                f->ended = true;
                pass_on(weak);
            }
        });
    };
    local::WatchStart started = server_->open_watch(request, std::move(sink));
    if (started.handle == nullptr) {
        exchange->respond(started.refused.status,
                          {{"Content-Type", started.refused.content_type}},
                          std::move(started.refused.body));
        return;
    }
    exchange->start(200, {{"Content-Type", "application/json"}});
    feed->open = true;
    feed->watch = std::move(started.handle);
    exchange->on_closed([feed] {
        feed->over = true;
        feed->watch.reset();
        feed->timer.reset();
    });
    std::erase_if(feeds_, [](const auto& weak) { return weak.expired(); });
    feeds_.push_back(feed);
    pass_on(feed);
    arm();
}

void ApiHost::take(const std::shared_ptr<Feed>& feed, std::string_view lines) {
    WatchFault fault;
    if (feed->open && watch_faults) {
        fault = watch_faults(lines);
    }
    if (fault.cut_all) {
        cut_watches(fault);
        return;
    }
    if (fault.cut) {
        cut(feed, fault);
        return;
    }
    const MonotonicTime after = feed->held.empty() ? MonotonicTime(0) : feed->held.back().due;
    feed->held.push_back({std::string(lines), std::max(loop_.now() + fault.hold, after)});
    for (std::size_t i = 0; fault.lag > 0 && i + fault.lag < feed->held.size(); ++i) {
        feed->held[i].due = loop_.now();
    }
    pass_on(feed);
}

void ApiHost::pass_on(const std::weak_ptr<Feed>& weak) {
    const auto feed = weak.lock();
    if (feed == nullptr || feed->over || !feed->open) {
        return;  // a watch that is being opened may yet be refused
    }
    while (!feed->held.empty() && feed->held.front().due <= loop_.now()) {
        feed->exchange->write(std::move(feed->held.front().lines), [](const Result<void>&) {});
        feed->held.pop_front();
    }
    if (!feed->held.empty()) {
        feed->timer = loop_.at(feed->held.front().due, [this, weak] { pass_on(weak); });
    } else if (feed->ended) {
        feed->over = true;
        feed->exchange->end();
    }
}

void ApiHost::cut_watches(const WatchFault& fault) {
    for (const auto& weak : feeds_) {
        if (const auto feed = weak.lock(); feed != nullptr && !feed->over) {
            cut(feed, fault);
        }
    }
}

void ApiHost::cut(const std::shared_ptr<Feed>& feed, const WatchFault& fault) {
    feed->over = true;
    no_watch_before_ = std::max<MonotonicTime>(no_watch_before_, loop_.now() + fault.outage);
    expire_ = expire_ || fault.expire;
    // Not inside the server's call. Without an end the client sees a broken connection.
    loop_.post([feed] {
        feed->watch.reset();
        feed->exchange.reset();
    });
}

int ApiHost::put_config_map(const std::string& name, const std::string& value) {
    const std::string path = "/api/v1/namespaces/ns/configmaps";
    const json::Value data = {{"value", value}};
    const json::Value object = {
        {"apiVersion", "v1"},
        {"kind", "ConfigMap"},
        {"metadata", {{"name", name}, {"namespace", "ns"}}},
        {"data", data},
    };
    const auto created = ask("POST", path, json::dump(object));
    if (created.status != 409) {
        return created.status;
    }
    const json::Value patch = {{"data", data}};
    return ask("PATCH", path + "/" + name, json::dump(patch), "application/merge-patch+json")
        .status;
}

}  // namespace capstan::test
