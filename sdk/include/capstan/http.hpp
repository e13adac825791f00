// Outgoing HTTP of plugins, with the host's TLS (capstan.http/1): one answer at once, or a stream.
//
//     CAPSTAN_TRY(auto health, call.http().send({.url = "https://main-0.main-peer:2379/health"}));
//
// Errors: unsupported (a host without it), invalid (the request), timeout, unavailable, cancelled,
// fenced. Thread: the caller's, which waits; values.
#pragma once

#include "capstan/capstan.h"
#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan {

class Call;

struct HttpTls {
    std::string ca_pem, certificate_pem, key_pem, server_name;
    bool insecure{false};
};

struct HttpRequest {
    std::string method{"GET"};
    std::string url;
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body;
    std::chrono::milliseconds timeout{10'000};
    HttpTls tls;
};

struct HttpResponse {
    int status{0};
    json::Value headers;  // object, lower-case names
    std::string body;
};

// A streaming exchange on the caller's thread.
class HttpStream {
public:
    HttpStream() noexcept = default;
    HttpStream(Call& call, capstan_http* handle) noexcept : call_(&call), handle_(handle) {}
    HttpStream(HttpStream&& other) noexcept
        : call_(other.call_), handle_(std::exchange(other.handle_, nullptr)) {}
    HttpStream& operator=(HttpStream&& other) noexcept;
    ~HttpStream() { close(); }

    Result<void> write(std::string_view bytes);
    Result<int> head(json::Value* headers = nullptr);  // waits for the status
    // Appends up to 64 KiB to `out`. 0: the end. timeout: `until` passed and
    // the stream is still open.
    Result<std::size_t> read(std::string& out, MonotonicTime until = kNever);
    void close() noexcept;

private:
    Call* call_{nullptr};
    capstan_http* handle_{nullptr};
};

// What Call::http gives.
class Http {
public:
    explicit Http(Call& call) noexcept : call_(&call) {}
    static constexpr std::size_t kBodyBytesMax = 32u * 1024 * 1024;
    Result<HttpResponse> send(const HttpRequest& request);  // too_large above kBodyBytesMax
    Result<HttpStream> open(const HttpRequest& request, std::int64_t body_bytes = 0);

private:
    Call* call_;
};

}  // namespace capstan
