#include "runtime/kube/client_state.hpp"
#include "runtime/kube/status.hpp"

#include <algorithm>
#include <utility>

namespace capstan::kube {

FlowOutcome outcome_of(const Error& error) noexcept {
    switch (error.code) {
        case Code::overloaded: return FlowOutcome::overloaded;
        case Code::timeout:  // a server that lags is not one that is busy
            return is_too_large_resource_version(error) ? FlowOutcome::good : FlowOutcome::timeout;
        case Code::unavailable: return FlowOutcome::failed;
        default: return FlowOutcome::good;
    }
}

UnaryCall::UnaryCall(std::shared_ptr<ClientState> client, MonotonicTime deadline, Done done)
    : client_(std::move(client)), deadline_(deadline), done_(std::move(done)) {}

// Whatever comes before the sending may take longer than this call has.
void UnaryCall::arm_limit() {
    limit_ = client_->loop.at(deadline_, [weak = weak_from_this()] {
        const auto self = weak.lock();
        if (!self) {
            return;
        }
        self->place_.reset();
        self->pause_.reset();
        if (self->busy_) {
            self->finish(fail(*self->busy_));
        } else {
            self->finish(
                fail(Code::timeout,
                     "not sent: no " + std::string(self->waits_for_) + " before the deadline"));
        }
    });
}

void UnaryCall::start(const GroupVersionKind& gvk, Build build) {
    arm_limit();
    client_->resources->resolve(
        gvk, [weak = weak_from_this(), build = std::move(build)](Result<Resource> resource) {
            const auto self = weak.lock();
            if (!self || !self->live() || !self->done_) {
                return;  // cancelled, or its deadline has passed
            }
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
            self->prepare();
        });
}

void UnaryCall::start(RequestSpec spec) {
    arm_limit();
    spec_ = std::move(spec);
    prepare();
}

void UnaryCall::cancel() {
    live_ = false;
    done_ = nullptr;
    limit_.reset();
    pause_.reset();
    place_.reset();
    client_->retire(std::move(exchange_));
}

void UnaryCall::prepare() {
    if (spec_.body.size() > kRequestBytesMax) {
        finish_soon(Error{Code::too_large,
                          "request body of " + std::to_string(spec_.body.size()) + " bytes",
                          {}});
        return;
    }
    if (!std::exchange(waited_, false)) {
        queued_ = client_->loop.now();
    }
    waits_for_ = "credentials";
    TokenSource* tokens = client_->options.tokens;
    const auto then = [weak = weak_from_this()] {
        if (const auto self = weak.lock(); self && self->live() && self->done_) {
            self->take_place();
        }
    };
    if (tokens == nullptr || tokens->ready(then)) {
        take_place();
    }
}

void UnaryCall::take_place() {
    waits_for_ = "turn among the other requests";
    const FlowClass which = spec_.method != "GET" ? FlowClass::mutate
                            : spec_.list          ? FlowClass::list
                                                  : FlowClass::read;
    client_->flow.enter(which, place_, [weak = weak_from_this()] {
        if (const auto self = weak.lock(); self && self->live() && self->done_) {
            self->send();
        }
    });
}

void UnaryCall::send() {
    MonotonicTime deadline = deadline_;
    if (client_->options.gate != nullptr && changes_something(spec_.method, spec_.target)) {
        const Result<MonotonicTime> until = client_->options.gate->admit();
        if (!until) {
            finish_soon(until.error());
            return;
        }
        deadline = std::min(deadline, until.value());
    }
    auto headers =
        client_->headers(spec_.accept, spec_.content_type, spec_.method == "GET", token_);
    if (!headers) {
        finish_soon(headers.error());
        return;
    }
    limit_.reset();
    net::HttpRequest request;
    request.method = spec_.method;
    request.target = client_->options.base_path + spec_.target;
    request.headers = std::move(headers).value();
    request.body = spec_.body;  // kept for a second sending
    request.deadline = deadline;
    started_ = client_->loop.now();
    if (started_ != queued_) {
        client_->observe_wait(spec_.method, queued_);
    }
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
    const int status = result ? result.value().status : 0;
    client_->observe(spec_.method, status, started_);
    Error error;
    if (!result) {
        error = result.error();
    } else if (status >= 400) {
        const net::HttpResponse& answer = result.value();
        error = error_of_response(status, answer.headers, answer.body, false);
    } else {
        error.code = Code::invalid;  // none: a good outcome
    }
    FlowOutcome outcome = outcome_of(error);
    if (!result && error.code == Code::overloaded) {
        outcome = FlowOutcome::dropped;  // a limit of our own
    } else if (result && concerns_one_request(status, result.value().headers)) {
        outcome = FlowOutcome::failed;
    }
    place_->ended(outcome, error.retry_after);
    place_.reset();
    if (result) {
        client_->note_warnings(result.value().headers,
                               spec_.method + " " + spec_.target.substr(0, spec_.target.find('?')));
        if (client_->options.observer != nullptr) {
            client_->options.observer->request_sizes(
                spec_.method, client_->options.host, spec_.body.size(), result.value().body.size());
        }
        if (!renewed_ && client_->renew(status, token_)) {
            renewed_ = true;
            client_->observe_retry(spec_.method, status);
            arm_limit();
            prepare();
            return;
        }
    }
    if (!send_again(result, error)) {
        finish(std::move(result));
    }
}

bool UnaryCall::send_again(const Result<net::HttpResponse>& result, const Error& error) {
    const MonotonicTime now = client_->loop.now();
    if (result && error.code == Code::overloaded && busy_retries_ < kBusyRetriesMax) {
        ++busy_retries_;
        if (now + error.retry_after >= deadline_) {
            return false;
        }
        client_->observe_retry(spec_.method, result.value().status);
        busy_ = error;
        pause_until(now + std::max(error.retry_after, kPauseFirst));
        queued_ = now;
        waited_ = true;
        return true;
    }
    const MonotonicTime again =
        now + std::chrono::nanoseconds(static_cast<std::int64_t>(
                  static_cast<double>(std::chrono::nanoseconds(kBrokenPause).count()) *
                  (1 + client_->random() / 2)));
    if (!result && error.code == Code::unavailable && spec_.repeatable && !repeated_ &&
        again < deadline_) {
        repeated_ = true;
        client_->observe_retry(spec_.method, 0);
        pause_until(again);
        return true;
    }
    return false;
}

void UnaryCall::pause_until(MonotonicTime again) {
    arm_limit();
    pause_ = client_->loop.at(again, [weak = weak_from_this()] {
        if (const auto self = weak.lock(); self && self->live() && self->done_) {
            const auto fired = std::move(self->pause_);
            self->prepare();
        }
    });
}

void UnaryCall::finish_soon(Error error) {
    place_.reset();
    client_->loop.post([weak = weak_from_this(), error = std::move(error)]() mutable {
        if (const auto self = weak.lock()) {
            self->finish(fail(std::move(error)));
        }
    });
}

void UnaryCall::finish(Result<net::HttpResponse> result) {
    limit_.reset();
    if (live() && done_) {
        const Done done = std::exchange(done_, nullptr);
        done(std::move(result));
    }
}

}  // namespace capstan::kube
