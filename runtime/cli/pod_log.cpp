#include "runtime/cli/pod_log.hpp"

#include "capstan/json.hpp"

#include <string>

namespace capstan::cli {
namespace {

void refuse(net::ServerExchange& exchange,
            int status,
            const char* reason,
            const std::string& message) {
    exchange.respond(status,
                     {{"content-type", "application/json"}},
                     json::dump({
                         {"kind", "Status"},
                         {"apiVersion", "v1"},
                         {"metadata", json::object()},
                         {"status", "Failure"},
                         {"message", message},
                         {"reason", reason},
                         {"code", status},
                     }));
}

// A followed log: bytes in order, the end when the container has ended, and nothing
// after the peer has gone.
class Follow : public std::enable_shared_from_this<Follow> {
public:
    explicit Follow(std::shared_ptr<net::ServerExchange> exchange)
        : exchange_(std::move(exchange)) {}

    void begin(std::unique_ptr<local::LogFollow> follow) { follow_ = std::move(follow); }
    void data(std::string_view bytes) {
        pending_.append(bytes);
        pump();
    }
    void end() {
        ended_ = true;
        pump();
    }
    void close() {
        closed_ = true;
        follow_.reset();
    }

private:
    void pump() {
        if (writing_ || closed_) {
            return;
        }
        if (pending_.empty()) {
            if (ended_) {
                closed_ = true;
                exchange_->end();
                follow_.reset();
            }
            return;
        }
        writing_ = true;
        exchange_->write(std::exchange(pending_, {}),
                         [self = shared_from_this()](const Result<void>& written) {
                             self->writing_ = false;
                             self->closed_ = self->closed_ || !written;
                             self->pump();
                         });
    }

    std::shared_ptr<net::ServerExchange> exchange_;  // shared: as ServerHandler gives it
    std::unique_ptr<local::LogFollow> follow_;
    std::string pending_;
    bool writing_{false}, ended_{false}, closed_{false};
};

}  // namespace

void serve_pod_log(local::Node* node,
                   const local::PodLogRequest& request,
                   std::shared_ptr<net::ServerExchange> exchange) {
    if (node == nullptr) {
        refuse(*exchange, 503, "ServiceUnavailable", "the node is not started yet");
        return;
    }
    local::LogOptions options;
    options.container = request.container;
    options.previous = request.previous;
    if (request.tail_lines >= 0) {
        options.tail_lines = request.tail_lines;
    }
    if (request.limit_bytes >= 0) {
        options.limit_bytes = request.limit_bytes;
    }
    const ObjectKey pod{request.ns, request.pod};
    const auto refuse_error = [&](const Error& error) {
        const bool missing = error.code == Code::not_found;
        refuse(*exchange, missing ? 404 : 400, missing ? "NotFound" : "BadRequest", error.message);
    };
    if (!request.follow) {
        auto text = node->read_log(pod, options);
        if (!text) {
            refuse_error(text.error());
            return;
        }
        exchange->respond(200, {{"content-type", "text/plain"}}, std::move(text).value());
        return;
    }
    // shared with the callbacks of node and exchange
    auto stream = std::make_shared<Follow>(exchange);
    auto follow = node->follow_log(
        pod,
        options,
        [stream](std::string_view bytes) { stream->data(bytes); },
        [stream] { stream->end(); });
    if (!follow) {
        refuse_error(follow.error());
        return;
    }
    exchange->start(200, {{"content-type", "text/plain"}});
    exchange->on_closed([stream] { stream->close(); });
    stream->begin(std::move(follow).value());
}

}  // namespace capstan::cli
