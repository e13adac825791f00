// For tests against real servers: the transport over the runtime's own HTTP client, on a loop that
// runs inside the calls. Time is real.
#pragma once

#include "plugins/steward-bridge/store/transport.hpp"
#include "runtime/net/http_client.hpp"

#include <cstring>
#include <functional>
#include <map>
#include <optional>

namespace capstan::steward::testing {

class NetExchange final : public HttpExchange {
public:
    NetExchange(net::IoLoop& loop, std::chrono::nanoseconds limit) : loop_(loop), limit_(limit) {}

    void start(net::HttpClient& client, net::HttpRequest request, std::int64_t body_bytes) {
        net::StreamOptions options;
        options.body_follows = body_bytes != 0;
        options.body_bytes = body_bytes;
        net::StreamHandler handler;
        handler.on_head = [this](int status, const net::Headers& headers) {
            head_.emplace();
            head_->status = status;
            for (const auto& [name, value] : headers) {
                std::string lower = name;
                for (char& c : lower) {
                    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
                }
                head_->headers.emplace_back(lower, value);
            }
        };
        handler.on_data = [this](std::string_view bytes) {
            data_ += bytes;
            reading_ = false;
        };
        handler.on_end = [this](Result<void> result) {
            end_.emplace(std::move(result));
            reading_ = false;
        };
        stream_ = client.stream(std::move(request), options, std::move(handler));
    }

    Result<void> write(std::string_view bytes) override { return write(bytes, true); }
    Result<void> write(std::string_view bytes, bool last) {
        if (bytes.empty()) {
            return ok();
        }
        std::optional<Result<void>> done;
        stream_->write(
            std::string(bytes), last, [&done](Result<void> r) { done.emplace(std::move(r)); });
        CAPSTAN_TRY(run([&] { return done.has_value() || end_.has_value(); }));
        return done ? *done : *end_;
    }
    Result<HttpHead> head() override {
        CAPSTAN_TRY(run([&] { return head_.has_value() || end_.has_value(); }));
        if (!head_) {
            return *end_ ? Result<HttpHead>(fail(Code::unavailable, "no answer"))
                         : Result<HttpHead>(fail(end_->error()));
        }
        return *head_;
    }
    Result<std::size_t> read(std::span<char> into) override {
        if (data_.size() == used_ && !end_) {
            data_.clear();
            used_ = 0;
            reading_ = true;
            stream_->read();
            CAPSTAN_TRY(run([&] { return !reading_; }));
        }
        if (data_.size() == used_) {
            return *end_ ? Result<std::size_t>(std::size_t{0})
                         : Result<std::size_t>(fail(end_->error()));
        }
        const std::size_t count = std::min(into.size(), data_.size() - used_);
        std::memcpy(into.data(), data_.data() + used_, count);
        used_ += count;
        return count;
    }

private:
    Result<void> run(const std::function<bool()>& done) {
        return loop_.run_until(done, limit_)
                   ? Result<void>(ok())
                   : Result<void>(fail(Code::timeout, "no answer in time"));
    }
    net::IoLoop& loop_;
    const std::chrono::nanoseconds limit_;
    std::optional<HttpHead> head_;
    std::optional<Result<void>> end_;
    std::string data_;
    std::size_t used_{0};
    bool reading_{false};
    std::unique_ptr<net::HttpStream> stream_;
};

class NetTransport final : public Transport {
public:
    Result<std::unique_ptr<HttpExchange>> open(const HttpRequest& request,
                                               std::int64_t body_bytes) override {
        const std::size_t path =
            std::min(request.url.find('/', request.url.find("://") + 3), request.url.size());
        const std::string endpoint = request.url.substr(0, path);
        auto& client = clients_[endpoint + request.tls.ca_pem + (request.tls.insecure ? "!" : "")];
        if (client == nullptr) {
            net::HttpClientOptions options;
            options.endpoint = endpoint;
            options.tls.ca_pem = request.tls.ca_pem;
            options.tls.insecure = request.tls.insecure;
            CAPSTAN_TRY(client, net::make_http_client(*loop_, options));
        }
        net::HttpRequest wanted;
        wanted.method = request.method;
        wanted.target = path == request.url.size() ? "/" : request.url.substr(path);
        wanted.headers = request.headers;
        wanted.deadline = loop_->now() + request.timeout;
        auto exchange = std::make_unique<NetExchange>(*loop_, request.timeout);
        exchange->start(*client, std::move(wanted), body_bytes);
        return std::unique_ptr<HttpExchange>(std::move(exchange));
    }

private:
    const std::unique_ptr<net::IoLoop> loop_{net::make_loop()};
    std::map<std::string, std::unique_ptr<net::HttpClient>> clients_;
};

}  // namespace capstan::steward::testing
