#include "runtime/webhook/server.hpp"

#include "runtime/webhook/admission_review.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

namespace capstan::webhook {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kText = "text/plain; charset=utf-8";
constexpr int kStatuses[] = {200, 400, 413, 500, 503, 504};  // what `code` may be

struct Families {
    explicit Families(obs::Metrics& m)
        : seconds(m.histogram("controller_runtime_webhook_latency_seconds",
                              "Time from the request's head to its answer.",
                              obs::queue_seconds_buckets(),
                              {"webhook"})),
          total(m.counter("controller_runtime_webhook_requests_total",
                          "Reviews answered, by HTTP status.",
                          {"webhook", "code"})),
          in_flight(m.gauge("controller_runtime_webhook_requests_in_flight",
                            "Reviews being answered.",
                            {"webhook"})) {}
    obs::Family<obs::Histogram>& seconds;
    obs::Family<obs::Counter>& total;
    obs::Family<obs::Gauge>& in_flight;
};

struct Webhook {
    std::string path;
    kube::AdmissionHandler handler;
    obs::Histogram& seconds;
    obs::Gauge& in_flight;
    std::map<int, obs::Counter*> totals;
};

int status_of(Code code) {
    switch (code) {
        case Code::overloaded:
        case Code::unavailable:
        case Code::cancelled: return 503;
        case Code::timeout: return 504;
        default: return 200;
    }
}

}  // namespace

struct Server::State {
    State(net::Loop& l, obs::Metrics& metrics) : loop(l), families(metrics) {}

    net::Loop& loop;
    Families families;
    std::vector<std::unique_ptr<Webhook>> webhooks;
    std::size_t in_flight{0};
    bool closed{false};
};

namespace {

// One request, from its head to its answer. Ends once: by an answer, the time limit or the peer.
class ReviewExchange : public std::enable_shared_from_this<ReviewExchange> {
public:
    ReviewExchange(net::Loop& loop,
                   Webhook& webhook,
                   std::function<void()> ended,
                   std::shared_ptr<net::ServerExchange> exchange)
        : loop_(loop),
          webhook_(webhook),
          ended_(std::move(ended)),
          exchange_(std::move(exchange)),
          started_(loop.now()) {
        webhook_.in_flight.add(1);
    }
    ReviewExchange(const ReviewExchange&) = delete;
    ReviewExchange& operator=(const ReviewExchange&) = delete;
    void begin() {
        const std::string& target = exchange_->target();
        const std::size_t question = std::min(target.find('?'), target.size());
        deadline_ =
            started_ +
            handler_time(std::string_view(target).substr(std::min(question + 1, target.size())));
        // These hold it; it is let go when it ends.
        limit_ = loop_.at(deadline_, [self = shared_from_this()] {
            self->finish(504, kText, "no answer within the time limit of the request\n");
        });
        exchange_->on_closed([weak = weak_from_this()] {
            if (const auto self = weak.lock()) {
                self->leave();
            }
        });
        if (net::find_header(exchange_->headers(), "Content-Type") != kJson) {
            return refuse("the content type must be application/json and nothing else");
        }
        exchange_->read_all(kReviewBytesMax, [weak = weak_from_this()](Result<std::string> body) {
            if (const auto self = weak.lock()) {
                self->on_body(std::move(body));
            }
        });
    }

private:
    void on_body(Result<std::string> body) {
        if (!body) {
            if (body.error().code == Code::too_large) {
                exchange_.reset();  // the server has answered 413
                return count(413);
            }
            return leave();
        }
        auto review = parse_review(body.value(), id_);
        std::string().swap(body.value());  // up to 7 MiB that nobody needs any more
        if (!review) {
            return refuse(review.error().message);
        }
        kube::AdmissionQuestion question;
        question.request = std::move(review.value().request);
        question.dry_run = review.value().dry_run;
        question.deadline = deadline_;
        webhook_.handler(std::move(question),
                         [self = shared_from_this()](Result<kube::AdmissionAnswer> answer) {
                             self->on_answer(answer);
                         });
    }

    void on_answer(const Result<kube::AdmissionAnswer>& answer) {
        if (answer) {
            return finish(200, kJson, render_review(id_, answer.value()));
        }
        const int status = status_of(answer.error().code);
        if (status == 200) {
            return finish(200, kJson, render_failure(id_, 500, answer.error().message));
        }
        finish(status, kText, answer.error().message + "\n");
    }

    void refuse(const std::string& why) { finish(400, kJson, render_failure(id_, 400, why)); }

    void finish(int status, std::string_view type, std::string body) {
        if (exchange_ == nullptr) {
            return;
        }
        const auto exchange = std::exchange(exchange_, nullptr);
        net::Headers headers{{"Content-Type", std::string(type)}};
        if (status == 503) {
            headers.emplace_back("Retry-After", "1");
        }
        exchange->respond(status, std::move(headers), std::move(body));
        count(status);
    }

    void count(int status) {
        webhook_.totals.at(status)->add();
        webhook_.seconds.observe(std::chrono::duration<double>(loop_.now() - started_).count());
        leave();
    }

    // The peer is gone, or has its answer.
    void leave() {
        exchange_.reset();
        if (ended_) {
            webhook_.in_flight.add(-1);
            std::exchange(ended_, nullptr)();
        }
        // Posted: it may be the timer that runs this, and it holds *this.
        if (limit_ != nullptr) {
            loop_.post([limit = std::shared_ptr<net::Timer>(std::move(limit_))] {});
        }
    }

    net::Loop& loop_;
    Webhook& webhook_;
    std::function<void()> ended_;
    std::shared_ptr<net::ServerExchange> exchange_;  // null: over
    const MonotonicTime started_;
    MonotonicTime deadline_{kNever};
    ReviewId id_;
    std::unique_ptr<net::Timer> limit_;
};

void answer(net::ServerExchange& exchange, int status, const char* text) {
    net::Headers headers{{"Content-Type", std::string(kText)}};
    if (status == 503) {
        headers.emplace_back("Retry-After", "1");
    } else if (status == 405) {
        headers.emplace_back("Allow", "POST");
    }
    exchange.respond(status, std::move(headers), text);
}

}  // namespace

Server::Server(net::Loop& loop, obs::Metrics& metrics, std::vector<Endpoint> endpoints)
    : state_(std::make_shared<State>(loop, metrics)) {
    Families& families = state_->families;
    for (Endpoint& endpoint : endpoints) {
        auto webhook = std::make_unique<Webhook>(Webhook{endpoint.path,
                                                         std::move(endpoint.handler),
                                                         families.seconds.with({endpoint.path}),
                                                         families.in_flight.with({endpoint.path}),
                                                         {}});
        for (const int status : kStatuses) {
            const std::string code = std::to_string(status);
            webhook->totals[status] = &families.total.with({endpoint.path, code});
        }
        state_->webhooks.push_back(std::move(webhook));
    }
}

Server::~Server() {
    state_->closed = true;
}

net::ServerHandler Server::handler() {
    return [state = state_](std::shared_ptr<net::ServerExchange> exchange) {
        const std::string& target = exchange->target();
        const std::string_view path =
            std::string_view(target).substr(0, std::min(target.find('?'), target.size()));
        Webhook* found = nullptr;
        for (const auto& webhook : state->webhooks) {
            if (webhook->path == path) {
                found = webhook.get();
            }
        }
        if (found == nullptr) {
            return answer(*exchange, 404, "no plugin has a webhook with this path\n");
        }
        if (exchange->method() != "POST") {
            return answer(*exchange, 405, "use POST\n");
        }
        if (state->closed || state->in_flight >= kReviewsInFlightMax) {
            found->totals.at(503)->add();
            return answer(*exchange, 503, "too many reviews are being answered\n");
        }
        ++state->in_flight;
        std::make_shared<ReviewExchange>(
            state->loop, *found, [state] { --state->in_flight; }, std::move(exchange))
            ->begin();
    };
}

}  // namespace capstan::webhook
