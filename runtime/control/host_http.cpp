// capstan.http/1: outgoing HTTP. The exchange lives on the loop; the plugin's thread waits for it.
#include "runtime/control/host_tables.hpp"

#include "runtime/control/call.hpp"
#include "runtime/control/unit.hpp"

#include <algorithm>
#include <cstring>

namespace capstan::control {

struct HttpState : std::enable_shared_from_this<HttpState> {
    std::shared_ptr<CallState> call;
    std::unique_ptr<Signal> signal;
    MonotonicTime head_deadline{kNever};
    std::int64_t body_bytes{0};
    // Plugin's thread only:
    std::int64_t written{0};
    bool body_ended{false};
    std::string headers_json;
    std::string chunk;
    std::size_t chunk_used{0};
    // Loop only:
    std::shared_ptr<net::HttpClient> client;
    std::unique_ptr<net::HttpStream> stream;
    // Guarded by mutex:
    std::mutex mutex;
    bool has_head{false};
    int status{0};
    net::Headers headers;
    std::string data;
    bool reading{false};
    std::optional<Result<void>> end;
    std::optional<Result<void>> wrote;

    template <class F>
    void change(F&& f) {
        {
            const std::lock_guard lock(mutex);
            f();
        }
        signal->notify();
    }
    void drop() {
        call->core->parts.loop.post([self = shared_from_this()] {
            self->stream.reset();
            self->client.reset();
        });
    }
};

namespace {

struct Wanted {
    net::HttpClientOptions client;
    net::HttpRequest request;
    std::chrono::milliseconds timeout{10'000};
};

Result<Wanted> parse_request(std::string_view request_json) {
    CAPSTAN_TRY(const json::Value tree, json::parse(request_json));
    const json::View wanted(tree);
    Wanted out;
    CAPSTAN_TRY(const std::string_view url, wanted["url"].as_string());
    const std::size_t scheme = url.find("://");
    if (scheme == std::string_view::npos || url.starts_with("unix:")) {
        return fail(wanted["url"].error("expected http:// or https://"));
    }
    const std::size_t path = url.find_first_of("/?", scheme + 3);
    out.client.endpoint = std::string(url.substr(0, path));
    out.request.target = path == std::string_view::npos ? "/" : std::string(url.substr(path));
    if (out.request.target[0] == '?') {
        out.request.target.insert(0, "/");
    }
    out.request.method = std::string(wanted["method"].string_or("GET"));
    for (const json::Member& header : wanted["headers"].object()) {
        const std::string* value = header.value.if_string();
        if (value == nullptr) {
            return fail(Code::invalid, "/headers/" + header.key + ": expected string");
        }
        out.request.headers.emplace_back(header.key, *value);
    }
    out.timeout = std::chrono::milliseconds(
        std::clamp<std::int64_t>(wanted["timeoutMs"].int_or(10'000), 1, 3'600'000));
    const json::View tls = wanted["tls"];
    out.client.tls.ca_pem = tls["caPem"].string_or("");
    out.client.tls.certificate_pem = tls["certificatePem"].string_or("");
    out.client.tls.key_pem = tls["keyPem"].string_or("");
    out.client.tls.server_name = tls["serverName"].string_or("");
    out.client.tls.insecure = tls["insecure"].bool_or(false);
    return out;
}

net::StreamHandler handler_of(const std::shared_ptr<HttpState>& state) {
    net::StreamHandler handler;
    handler.on_head = [state](int status, const net::Headers& headers) {
        state->change([&] {
            state->has_head = true;
            state->status = status;
            state->headers = headers;
        });
    };
    handler.on_data = [state](std::string_view bytes) {
        state->change([&] {
            state->data.append(bytes);
            state->reading = false;
        });
    };
    handler.on_end = [state](Result<void> result) {
        state->change([&] {
            state->end.emplace(std::move(result));
            state->reading = false;
        });
    };
    return handler;
}

capstan_rc open(capstan_call* handle,
                capstan_str request_json,
                std::int64_t body_len,
                capstan_http** out) noexcept {
    capstan_rc rc = CAPSTAN_OK;
    const auto call = enter(handle, &rc);
    if (call == nullptr) {
        return rc;
    }
    call->core->parts.threads.yield_point();
    auto wanted = parse_request(view(request_json));
    if (!wanted) {
        return report(wanted.error());
    }
    auto state = std::make_shared<HttpState>();  // shared with the loop
    state->call = call;
    state->signal = call->core->parts.threads.make_signal();
    state->body_bytes = body_len;
    state->body_ended = body_len == 0;
    state->head_deadline = call->core->now() + wanted.value().timeout;
    Core& core = *call->core;
    auto opened = await_on_loop<bool, int>(
        *call,
        call->deadline,
        [&core, state, w = std::move(wanted).value()](std::function<void(Result<bool>)> done) {
            auto client = core.http.client(w.client);
            if (!client) {
                done(fail(client.error()));
                return 0;
            }
            state->client = std::move(client).value();
            net::HttpRequest request = w.request;
            request.deadline = state->head_deadline;
            kube::WriteGate* const gate = core.parts.gate;
            if (gate != nullptr && kube::changes_something(request.method, "")) {
                const Result<MonotonicTime> until = gate->admit();
                if (!until) {
                    done(fail(until.error()));
                    return 0;
                }
                request.deadline = std::min(request.deadline, until.value());
            }
            net::StreamOptions options;
            options.body_follows = state->body_bytes != 0;
            options.body_bytes = state->body_bytes;
            state->stream = state->client->stream(std::move(request), options, handler_of(state));
            done(true);
            return 0;
        });
    if (!opened) {
        state->drop();
        return report(opened.error());
    }
    *out = static_cast<capstan_http*>(handles().https.insert(state));
    if (*out == nullptr) {
        state->drop();
        return report(CAPSTAN_E_TOO_LARGE, "no HTTP handle is left");
    }
    call->hold(*out, [state, h = *out] {
        handles().https.take(h);
        state->drop();
    });
    return CAPSTAN_OK;
}

std::shared_ptr<HttpState> find(capstan_http* handle, capstan_rc* rc) {
    clear_report();
    auto state = handles().https.find(handle);
    if (state == nullptr) {
        *rc = report(CAPSTAN_E_FENCED, "this exchange was closed");
        return nullptr;
    }
    *rc = state->call->check();
    if (*rc != CAPSTAN_OK) {
        report(*rc, "the call may not go on");
        return nullptr;
    }
    state->call->core->parts.threads.yield_point();
    return state;
}

// Ends the body with `last`. Waits until the loop took the bytes.
capstan_rc send_body(HttpState& state, std::string bytes, bool last) {
    state.call->core->parts.loop.post(
        [self = state.shared_from_this(), b = std::move(bytes), last]() mutable {
            if (self->stream != nullptr) {
                self->stream->write(std::move(b), last, [self](Result<void> result) {
                    self->change([&] { self->wrote.emplace(std::move(result)); });
                });
            }
        });
    // An answer may come, and end the exchange, before the body is out.
    const auto ready = [&state] {
        const std::lock_guard lock(state.mutex);
        return state.wrote.has_value() || state.end.has_value();
    };
    const capstan_rc rc = state.call->wait(*state.signal, ready, state.call->deadline);
    if (rc != CAPSTAN_OK) {
        return report(rc, "sending was interrupted");
    }
    std::optional<Result<void>> outcome;
    {
        const std::lock_guard lock(state.mutex);
        const bool answered = state.end && *state.end;
        outcome = state.wrote && !answered ? std::move(state.wrote) : state.end;
        state.wrote.reset();
    }
    return *outcome ? CAPSTAN_OK : report(outcome->error());
}

capstan_rc write(capstan_http* handle, capstan_str bytes) noexcept {
    capstan_rc rc = CAPSTAN_OK;
    const auto state = find(handle, &rc);
    if (state == nullptr) {
        return rc;
    }
    const auto size = static_cast<std::int64_t>(bytes.len);
    if (state->body_ended ||
        (state->body_bytes >= 0 && state->written + size > state->body_bytes)) {
        return report(CAPSTAN_E_INVALID, "more body than announced");
    }
    if (size == 0) {
        return CAPSTAN_OK;
    }
    state->written += size;
    state->body_ended = state->written == state->body_bytes;
    return send_body(*state, text(bytes), state->body_ended);
}

std::string headers_to_json(const net::Headers& headers) {
    json::Value out = json::object();
    for (const auto& [name, value] : headers) {
        std::string lower = name;
        std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
            return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        });
        json::Value* known = out.find(lower);
        out.set(lower, known == nullptr ? value : *known->if_string() + ", " + value);
    }
    return json::dump(out);
}

capstan_rc await_head(capstan_http* handle,
                      std::int32_t* status,
                      capstan_str* headers_json) noexcept {
    capstan_rc rc = CAPSTAN_OK;
    const auto state = find(handle, &rc);
    if (state == nullptr) {
        return rc;
    }
    if (!state->body_ended) {
        if (state->body_bytes >= 0) {
            return report(CAPSTAN_E_INVALID, "less body than announced");
        }
        state->body_ended = true;
        if (rc = send_body(*state, "", true); rc != CAPSTAN_OK) {
            return rc;
        }
    }
    const auto ready = [&state] {
        const std::lock_guard lock(state->mutex);
        return state->has_head || state->end.has_value();
    };
    rc = state->call->wait(*state->signal, ready, state->head_deadline);
    if (rc != CAPSTAN_OK) {
        return report(rc, "no response head came in time");
    }
    const std::lock_guard lock(state->mutex);
    if (!state->has_head) {
        return *state->end ? report(CAPSTAN_E_UNAVAIL, "the exchange ended without a response")
                           : report(state->end->error());
    }
    state->headers_json = headers_to_json(state->headers);
    *status = state->status;
    *headers_json = str(state->headers_json);
    return CAPSTAN_OK;
}

capstan_rc read(capstan_http* handle,
                char* buffer,
                std::uint64_t cap,
                std::uint64_t until_ns,
                std::uint64_t* n) noexcept {
    *n = 0;
    capstan_rc rc = CAPSTAN_OK;
    const auto state = find(handle, &rc);
    if (state == nullptr) {
        return rc;
    }
    const auto has_data = [&state] {
        const std::lock_guard lock(state->mutex);
        return !state->data.empty() || state->end.has_value();
    };
    if (state->chunk_used == state->chunk.size()) {
        bool ask = false;
        {
            const std::lock_guard lock(state->mutex);
            ask = state->data.empty() && !state->end && !state->reading;
            state->reading = state->reading || ask;
        }
        if (ask) {
            state->call->core->parts.loop.post([state] {
                if (state->stream != nullptr) {
                    state->stream->read();
                }
            });
        }
        rc = state->call->wait(*state->signal, has_data, time_of(until_ns));
        if (rc != CAPSTAN_OK) {
            return report(rc, "no data came in time");
        }
        const std::lock_guard lock(state->mutex);
        if (state->data.empty()) {
            return *state->end ? CAPSTAN_OK : report(state->end->error());
        }
        state->chunk = std::exchange(state->data, {});
        state->chunk_used = 0;
    }
    const std::size_t count = std::min<std::size_t>(state->chunk.size() - state->chunk_used,
                                                    static_cast<std::size_t>(cap));
    std::memcpy(buffer, state->chunk.data() + state->chunk_used, count);
    state->chunk_used += count;
    *n = count;
    return CAPSTAN_OK;
}

void close(capstan_http* handle) noexcept {
    if (const auto state = handles().https.take(handle)) {
        state->call->let_go(handle);
        state->drop();
    }
}

}  // namespace

const capstan_ext_http kHttpTable{
    {sizeof(capstan_ext_http), CAPSTAN_ABI}, &open, &write, &await_head, &read, &close};

}  // namespace capstan::control
