// capstan.http/1 and capstan.http-server/1 of the fake host.
#include "fake_state.hpp"

#include <algorithm>
#include <cstring>

namespace capstan::testing {

namespace {

FakeHttp* to_fake(capstan_http* http) noexcept {
    return reinterpret_cast<FakeHttp*>(http);
}
FakeExchange* to_fake(capstan_exchange* exchange) noexcept {
    return reinterpret_cast<FakeExchange*>(exchange);
}

capstan_rc http_open(capstan_call* raw,
                     capstan_str request_json,
                     std::int64_t,
                     capstan_http** out) noexcept {
    FakeCall* call = testing::to_fake(raw);
    auto request = json::parse(view(request_json));
    const std::string url(request ? json::View(request.value())["url"].string_or("") : "");
    if (const capstan_rc rc = call->state->enter(call, "http.open", url, {}, view(request_json));
        rc != CAPSTAN_OK) {
        return rc;
    }
    if (!request || url.empty() || !call->state->http_handler) {
        return !request || url.empty() ? CAPSTAN_E_INVALID : CAPSTAN_E_UNAVAIL;
    }
    auto http = std::make_unique<FakeHttp>();
    http->call = call;
    http->request = std::move(request).value();
    *out = reinterpret_cast<capstan_http*>(http.release());
    return CAPSTAN_OK;
}

capstan_rc http_write(capstan_http* raw, capstan_str bytes) noexcept {
    to_fake(raw)->sent += view(bytes);
    return CAPSTAN_OK;
}

capstan_rc http_await_head(capstan_http* raw,
                           std::int32_t* status,
                           capstan_str* headers_json) noexcept {
    FakeHttp& http = *to_fake(raw);
    if (!http.answered) {
        http.reply = http.call->state->http_handler(http.request, http.sent);
        http.headers_json = json::dump(http.reply.headers);
        http.answered = true;
    }
    *status = http.reply.status;
    *headers_json = str(http.headers_json);
    return http.reply.rc;
}

capstan_rc http_read(
    capstan_http* raw, char* buffer, std::uint64_t cap, std::uint64_t, std::uint64_t* n) noexcept {
    FakeHttp& http = *to_fake(raw);
    const std::size_t count =
        std::min<std::size_t>(static_cast<std::size_t>(cap), http.reply.body.size() - http.read_at);
    std::memcpy(buffer, http.reply.body.data() + http.read_at, count);
    http.read_at += count;
    *n = count;
    return CAPSTAN_OK;
}

void http_close(capstan_http* raw) noexcept {
    delete to_fake(raw);
}

capstan_str request_json(capstan_exchange* raw) noexcept {
    return str(to_fake(raw)->request_json);
}

capstan_rc exchange_read(capstan_exchange* raw,
                         char* buffer,
                         std::uint64_t cap,
                         std::uint64_t* n) noexcept {
    FakeExchange& exchange = *to_fake(raw);
    const std::size_t count = std::min<std::size_t>(static_cast<std::size_t>(cap),
                                                    exchange.body.size() - exchange.read_at);
    std::memcpy(buffer, exchange.body.data() + exchange.read_at, count);
    exchange.read_at += count;
    *n = count;
    return CAPSTAN_OK;
}

capstan_rc respond(capstan_exchange* raw, std::int32_t status, capstan_str headers_json) noexcept {
    FakeExchange& exchange = *to_fake(raw);
    if (exchange.answer.status != 0) {
        return CAPSTAN_E_INVALID;
    }
    auto headers = json::parse(view(headers_json).empty() ? "{}" : view(headers_json));
    if (!headers || status < 100 || status > 599) {
        return CAPSTAN_E_INVALID;
    }
    exchange.answer.status = status;
    exchange.answer.headers = std::move(headers).value();
    return CAPSTAN_OK;
}

capstan_rc exchange_write(capstan_exchange* raw, capstan_str bytes) noexcept {
    FakeExchange& exchange = *to_fake(raw);
    if (exchange.answer.status == 0 || exchange.ended) {
        return CAPSTAN_E_INVALID;
    }
    exchange.answer.body += view(bytes);
    return CAPSTAN_OK;
}

capstan_rc end(capstan_exchange* raw) noexcept {
    to_fake(raw)->ended = true;
    return CAPSTAN_OK;
}

}  // namespace

const void* fake_http_extension(std::string_view id) noexcept {
    static const capstan_ext_http kHttp{{sizeof(capstan_ext_http), CAPSTAN_ABI},
                                        &http_open,
                                        &http_write,
                                        &http_await_head,
                                        &http_read,
                                        &http_close};
    static const capstan_ext_http_server kServer{{sizeof(capstan_ext_http_server), CAPSTAN_ABI},
                                                 &request_json,
                                                 &exchange_read,
                                                 &respond,
                                                 &exchange_write,
                                                 &end};
    if (id == "capstan.http/1") {
        return &kHttp;
    }
    return id == "capstan.http-server/1" ? &kServer : nullptr;
}

}  // namespace capstan::testing
