// capstan.http-server/1, the host's side: a handler's thread reads its request and answers it.
#include "runtime/control/host_tables.hpp"
#include "runtime/control/routes.hpp"
#include "runtime/control/unit.hpp"

#include <algorithm>

namespace capstan::control {
namespace {

// The handler returned while another thread of the plugin's still used its exchange.
auto over() {
    return fail(Code::fenced, "this request has ended");
}

std::shared_ptr<ExchangeState> find(capstan_exchange* handle,
                                    std::shared_ptr<CallState>* call,
                                    capstan_rc* rc) {
    clear_report();
    auto state = handles().exchanges.find(handle);
    *call = state == nullptr ? nullptr : state->call.lock();
    if (*call == nullptr) {
        *rc = report(CAPSTAN_E_FENCED, "this request has ended");
        return nullptr;
    }
    *rc = (*call)->check();
    if (*rc != CAPSTAN_OK) {
        report(*rc, "the call may not go on");
        return nullptr;
    }
    return state;
}

capstan_str request_json(capstan_exchange* handle) noexcept {
    const auto state = handles().exchanges.find(handle);
    return state == nullptr ? capstan_str{nullptr, 0} : str(state->request_json);
}

capstan_rc read(capstan_exchange* handle,
                char* buffer,
                std::uint64_t cap,
                std::uint64_t* n) noexcept {
    *n = 0;
    std::shared_ptr<CallState> call;
    capstan_rc rc = CAPSTAN_OK;
    const auto state = find(handle, &call, &rc);
    if (state == nullptr) {
        return rc;
    }
    if (cap == 0) {
        return report(CAPSTAN_E_INVALID, "a buffer of no bytes");
    }
    auto bytes = await_on_loop<std::string, int>(
        *call, call->deadline, [state, cap](std::function<void(Result<std::string>)> done) {
            if (state->exchange == nullptr || state->reading) {
                done(state->reading ? fail(Code::invalid, "another thread reads this request")
                                    : over());
                return 0;
            }
            state->reading = true;
            state->exchange->read(
                static_cast<std::size_t>(std::min<std::uint64_t>(cap, 1024 * 1024)),
                [state, done = std::move(done)](Result<std::string> got) {
                    state->reading = false;
                    done(std::move(got));
                });
            return 0;
        });
    if (!bytes) {
        return report(bytes.error());
    }
    std::copy(bytes.value().begin(), bytes.value().end(), buffer);
    *n = bytes.value().size();
    return CAPSTAN_OK;
}

capstan_rc respond(capstan_exchange* handle,
                   std::int32_t status,
                   capstan_str headers_json) noexcept {
    std::shared_ptr<CallState> call;
    capstan_rc rc = CAPSTAN_OK;
    const auto state = find(handle, &call, &rc);
    if (state == nullptr) {
        return rc;
    }
    if (state->head_sent || status < 100 || status > 599) {
        return report(CAPSTAN_E_INVALID, "the head was sent before, or the status is none");
    }
    net::Headers headers;
    if (headers_json.len > 0) {
        const auto tree = json::parse(view(headers_json));
        if (!tree) {
            return report(tree.error());
        }
        for (const json::Member& header : json::View(tree.value()).object()) {
            const std::string* value = header.value.if_string();
            if (value == nullptr || value->find_first_of("\r\n") != std::string::npos ||
                header.key.find_first_of("\r\n: ") != std::string::npos) {
                return report(CAPSTAN_E_INVALID, "header " + header.key + " is no header");
            }
            headers.emplace_back(header.key, *value);
        }
    }
    state->head_sent = true;
    call->core->parts.loop.post([state, status, h = std::move(headers)]() mutable {
        if (state->exchange != nullptr) {
            state->exchange->start(status, std::move(h));
        }
    });
    return CAPSTAN_OK;
}

capstan_rc write(capstan_exchange* handle, capstan_str bytes) noexcept {
    std::shared_ptr<CallState> call;
    capstan_rc rc = CAPSTAN_OK;
    const auto state = find(handle, &call, &rc);
    if (state == nullptr) {
        return rc;
    }
    if (!state->head_sent || state->ended) {
        return report(CAPSTAN_E_INVALID, "the body comes after the head and before the end");
    }
    if (bytes.len == 0) {
        return CAPSTAN_OK;
    }
    auto wrote = await_on_loop<bool, int>(
        *call, call->deadline, [state, b = text(bytes)](std::function<void(Result<bool>)> done) {
            if (state->exchange == nullptr) {
                done(over());
                return 0;
            }
            state->exchange->write(b, [done](const Result<void>& result) {
                if (result) {
                    done(true);
                } else {
                    done(fail(result.error()));
                }
            });
            return 0;
        });
    return wrote ? CAPSTAN_OK : report(wrote.error());
}

capstan_rc end(capstan_exchange* handle) noexcept {
    std::shared_ptr<CallState> call;
    capstan_rc rc = CAPSTAN_OK;
    const auto state = find(handle, &call, &rc);
    if (state == nullptr) {
        return rc;
    }
    if (!state->head_sent || state->ended) {
        return report(CAPSTAN_E_INVALID, "there is nothing to end");
    }
    state->ended = true;
    call->core->parts.loop.post([state] {
        if (state->exchange != nullptr) {
            state->exchange->end();
        }
    });
    return CAPSTAN_OK;
}

}  // namespace

const capstan_ext_http_server kHttpServerTable{
    {sizeof(capstan_ext_http_server), CAPSTAN_ABI}, &request_json, &read, &respond, &write, &end};

}  // namespace capstan::control
