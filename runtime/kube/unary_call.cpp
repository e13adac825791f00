#include "runtime/kube/client_state.hpp"

#include "runtime/kube/status.hpp"

#include <algorithm>
#include <utility>

namespace capstan::kube {

Result<net::Headers> ClientState::headers(std::string_view content_type, std::string& token) {
    net::Headers list = {{"Accept", "application/json"}, {"User-Agent", options.user_agent}};
    if (!content_type.empty()) {
        list.emplace_back("Content-Type", content_type);
    }
    token.clear();
    if (options.tokens != nullptr) {
        CAPSTAN_TRY(token, options.tokens->token());
        if (!token.empty()) {
            list.emplace_back("Authorization", "Bearer " + token);
        }
    }
    return list;
}

void ClientState::observe(std::string_view method, int status, MonotonicTime started) {
    if (options.observer != nullptr) {
        const std::string code = status == 0 ? "<error>" : std::to_string(status);
        options.observer->request_done(method, code, options.host, loop.now() - started);
    }
}

void ClientState::note_warnings(const net::Headers& list) {
    for (const auto& [name, value] : list) {
        const bool is_warning =
            name.size() == 7 && (name[0] == 'W' || name[0] == 'w') && value.starts_with("299 ");
        if (!is_warning || options.observer == nullptr ||
            net::find_header({{name, value}}, "warning").empty()) {
            continue;
        }
        const std::size_t from = value.find('"');
        const std::size_t to = value.rfind('"');
        if (from == std::string::npos || to <= from || warnings.size() >= kWarningsMax) {
            continue;
        }
        if (warnings.insert(value.substr(from + 1, to - from - 1)).second) {
            options.observer->warning(std::string_view(value).substr(from + 1, to - from - 1));
        }
    }
}

bool ClientState::renew(int status, const std::string& token) {
    return status == 401 && options.tokens != nullptr && options.tokens->refused(token);
}

void ClientState::fetch(std::string target, std::function<void(Result<std::string>)> done) {
    const std::uint64_t id = ++fetch_sequence;
    const auto finished = [weak = weak_from_this(), id, done = std::move(done)](
                              Result<net::HttpResponse> response) {
        const auto state = weak.lock();
        if (!state) {
            return;
        }
        const auto handle = std::move(state->fetches[id]);  // dropped at the end of this callback
        state->fetches.erase(id);
        if (!response) {
            done(fail(response.error()));
        } else if (response.value().status != 200) {
            const net::HttpResponse& answer = response.value();
            done(fail(error_of_response(answer.status, answer.headers, answer.body, false)));
        } else {
            done(std::move(response.value().body));
        }
    };
    auto call =
        std::make_shared<UnaryCall>(shared_from_this(), loop.now() + kCallTimeout, finished);
    fetches[id] = std::make_unique<HandleOf<UnaryCall>>(call);
    RequestSpec spec;
    spec.target = std::move(target);
    call->start(std::move(spec));
}

UnaryCall::UnaryCall(std::shared_ptr<ClientState> client, MonotonicTime deadline, Done done)
    : client_(std::move(client)), deadline_(deadline), done_(std::move(done)) {}

void UnaryCall::start(const GroupVersionKind& gvk, Build build) {
    // Discovery may take longer than this call has.
    resolve_limit_ = client_->loop.at(deadline_, [weak = weak_from_this()] {
        if (const auto self = weak.lock()) {
            self->finish(fail(Code::timeout, "no discovery of the kind before the deadline"));
        }
    });
    client_->resources->resolve(
        gvk, [weak = weak_from_this(), build = std::move(build)](Result<Resource> resource) {
            const auto self = weak.lock();
            if (!self || !self->live() || !self->done_) {
                return;  // cancelled, or its deadline has passed
            }
            self->resolve_limit_.reset();
            if (!resource) {
                self->finish(fail(resource.error()));
                return;
            }
            Result<RequestSpec> spec = build(resource.value());
            if (!spec) {
                self->finish(fail(spec.error()));
                return;
            }
            self->spec_ = std::move(spec).value();
            self->send();
        });
}

void UnaryCall::start(RequestSpec spec) {
    spec_ = std::move(spec);
    send();
}

void UnaryCall::cancel() {
    live_ = false;
    done_ = nullptr;
    resolve_limit_.reset();
    client_->retire(std::move(exchange_));
}

void UnaryCall::send() {
    if (spec_.body.size() > kRequestBytesMax) {
        finish_soon(Error{Code::too_large,
                          "request body of " + std::to_string(spec_.body.size()) + " bytes",
                          {}});
        return;
    }
    MonotonicTime deadline = deadline_;
    if (client_->options.gate != nullptr && changes_something(spec_.method, spec_.target)) {
        const Result<MonotonicTime> until = client_->options.gate->admit();
        if (!until) {
            finish_soon(until.error());
            return;
        }
        deadline = std::min(deadline, until.value());
    }
    auto headers = client_->headers(spec_.content_type, token_);
    if (!headers) {
        finish_soon(headers.error());
        return;
    }
    net::HttpRequest request;
    request.method = spec_.method;
    request.target = spec_.target;
    request.headers = std::move(headers).value();
    request.body = spec_.body;  // kept for a second sending
    request.deadline = deadline;
    started_ = client_->loop.now();
    client_->retire(std::move(exchange_));
    exchange_ = client_->http.send(std::move(request),
                                   [weak = weak_from_this()](Result<net::HttpResponse> result) {
                                       if (const auto self = weak.lock()) {
                                           self->answered(std::move(result));
                                       }
                                   });
}

void UnaryCall::answered(Result<net::HttpResponse> result) {
    if (!live()) {
        return;
    }
    client_->observe(spec_.method, result ? result.value().status : 0, started_);
    if (result) {
        client_->note_warnings(result.value().headers);
        if (!retried_ && client_->renew(result.value().status, token_)) {
            retried_ = true;
            send();
            return;
        }
    }
    finish(std::move(result));
}

void UnaryCall::finish_soon(Error error) {
    client_->loop.post([weak = weak_from_this(), error = std::move(error)]() mutable {
        if (const auto self = weak.lock()) {
            self->finish(fail(std::move(error)));
        }
    });
}

void UnaryCall::finish(Result<net::HttpResponse> result) {
    resolve_limit_.reset();
    if (live() && done_) {
        const Done done = std::exchange(done_, nullptr);
        done(std::move(result));
    }
}

}  // namespace capstan::kube
