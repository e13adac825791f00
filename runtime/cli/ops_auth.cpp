#include "runtime/cli/ops_auth.hpp"

#include "capstan/json.hpp"
#include "runtime/control/digest.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace capstan::cli {
namespace {

constexpr std::string_view kTokenReviews = "/apis/authentication.k8s.io/v1/tokenreviews";
constexpr std::string_view kAccessReviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

struct Known {
    MonotonicTime until{0};
    bool good{false};
    json::Value user;  // of a token: status.user of its review
};
using Cache = std::map<std::string, Known>;

// nullptr: not known, or no longer.
const Known* find(Cache& cache, const std::string& key, MonotonicTime now) {
    const auto found = cache.find(key);
    if (found == cache.end()) {
        return nullptr;
    }
    if (found->second.until <= now) {
        cache.erase(found);
        return nullptr;
    }
    return &found->second;
}

void keep(Cache& cache, const std::string& key, Known known, MonotonicTime now) {
    if (cache.size() >= kReviewsKept) {
        std::erase_if(cache, [now](const auto& entry) { return entry.second.until <= now; });
    }
    if (cache.size() >= kReviewsKept) {
        cache.erase(std::min_element(cache.begin(), cache.end(), [](const auto& a, const auto& b) {
            return a.second.until < b.second.until;
        }));
    }
    cache.insert_or_assign(key, std::move(known));
}

// "Bearer TOKEN" (RFC 6750, the scheme in any case); "" when it is something else.
std::string bearer_of(std::string_view authorization) {
    constexpr std::string_view kScheme = "bearer ";
    if (authorization.size() <= kScheme.size()) {
        return {};
    }
    for (std::size_t i = 0; i < kScheme.size(); ++i) {
        const char c = authorization[i];
        if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c) != kScheme[i]) {
            return {};
        }
    }
    authorization.remove_prefix(kScheme.size());
    while (authorization.starts_with(' ')) {
        authorization.remove_prefix(1);
    }
    return std::string(authorization);
}

std::string lower(std::string_view method) {
    std::string out(method);
    std::transform(out.begin(), out.end(), out.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    });
    return out;
}

bool may_pass(const Error& error) {
    return error.code == Code::unavailable || error.code == Code::timeout ||
           error.code == Code::overloaded;
}

}  // namespace

struct OpsAuth::State {
    State(net::Loop& l, kube::Client& c, obs::Log g, std::function<double()> r)
        : loop(l), client(c), log(std::move(g)), random(std::move(r)) {}

    net::Loop& loop;
    kube::Client& client;
    obs::Log log;
    std::function<double()> random;
    Cache tokens;                                              // by digest
    Cache decisions;                                           // by user, verb and path
    std::map<std::uint64_t, std::shared_ptr<Review>> reviews;  // under way
    std::uint64_t next_review{0};
};

// One request on its way through both questions.
struct OpsAuth::Review : std::enable_shared_from_this<OpsAuth::Review> {
    using Answered = std::function<void(Review&, const json::Value&)>;

    std::weak_ptr<State> state;
    std::uint64_t id{0};
    std::string token, digest, verb, path;
    json::Value user;
    Done done;
    int tries{0};
    kube::CallHandle call;
    std::unique_ptr<net::Timer> timer;

    void end(int status, std::string text) {
        const auto self = shared_from_this();
        if (const auto s = state.lock()) {
            s->reviews.erase(id);
        }
        if (const Done told = std::exchange(done, nullptr)) {
            told(status, std::move(text));
        }
    }

    void ask(std::string_view target, json::Value body, Answered answered) {
        const auto s = state.lock();
        if (s == nullptr) {
            return;
        }
        ++tries;
        const auto received = [weak = weak_from_this(), target, body, answered](
                                  const Result<net::HttpResponse>& answer) {
            if (const auto self = weak.lock()) {
                self->received(target, body, answered, answer);
            }
        };
        call = s->client.raw("POST",
                             std::string(target),
                             json::dump(body),
                             s->loop.now() + kReviewTimeout,
                             received);
    }

    void received(std::string_view target,
                  const json::Value& body,
                  const Answered& answered,
                  const Result<net::HttpResponse>& answer) {
        const auto s = state.lock();
        if (s == nullptr) {
            return;
        }
        Error error;
        if (answer) {
            auto tree = json::parse(answer.value().body);
            if (tree) {
                tries = 0;
                answered(*this, tree.value());
                return;
            }
            error = tree.error();
        } else {
            error = answer.error();
        }
        if (!may_pass(error) || tries >= kReviewTries) {
            s->log.warn("a request to the ops listener cannot be reviewed",
                        {{"reason", target}, {"error", error.message}});
            end(500, "cannot be reviewed: " + std::string(to_string(error.code)));
            return;
        }
        const double jitter = 1.0 + kReviewPauseJitter * s->random();
        const std::chrono::duration<double, std::milli> pause =
            jitter * std::pow(kReviewPauseFactor, tries - 1) *
            std::chrono::duration<double, std::milli>(kReviewPauseFirst);
        timer =
            s->loop.at(s->loop.now() + std::chrono::duration_cast<std::chrono::nanoseconds>(pause),
                       [weak = weak_from_this(), target, body, answered] {
                           if (const auto self = weak.lock()) {
                               self->ask(target, body, answered);
                           }
                       });
    }

    void ask_who() {
        const auto s = state.lock();
        if (const Known* known = find(s->tokens, digest, s->loop.now())) {
            who_is(*known);
            return;
        }
        ask(kTokenReviews,
            {{"apiVersion", "authentication.k8s.io/v1"},
             {"kind", "TokenReview"},
             {"spec", {{"token", token}}}},
            [](Review& self, const json::Value& answer) {
                const auto shared = self.state.lock();
                const json::View status = json::View(answer)["status"];
                Known known{shared->loop.now() + kTokenTtl, false, {}};
                known.good = status["authenticated"].bool_or(false);
                if (const json::Value* named = answer.pointer("/status/user"); named != nullptr) {
                    known.user = *named;
                }
                keep(shared->tokens, self.digest, known, shared->loop.now());
                self.who_is(known);
            });
    }

    void who_is(const Known& known) {
        token.clear();
        if (!known.good) {
            end(401, "the token is not one of the API server's");
            return;
        }
        user = known.user;
        ask_whether();
    }

    void ask_whether() {
        const auto s = state.lock();
        const std::string key = control::sha256(json::dump_sorted(user)) + verb + " " + path;
        if (const Known* known = find(s->decisions, key, s->loop.now())) {
            conclude(known->good);
            return;
        }
        json::Value spec = {{"user", json::View(user)["username"].string_or("")},
                            {"nonResourceAttributes", {{"path", path}, {"verb", verb}}}};
        for (const char* member : {"groups", "uid", "extra"}) {
            if (const json::Value* value = user.find(member); value != nullptr) {
                spec.set(member, *value);
            }
        }
        ask(kAccessReviews,
            {{"apiVersion", "authorization.k8s.io/v1"},
             {"kind", "SubjectAccessReview"},
             {"spec", std::move(spec)}},
            [key](Review& self, const json::Value& answer) {
                const auto shared = self.state.lock();
                const bool allowed = json::View(answer)["status"]["allowed"].bool_or(false);
                const MonotonicTime now = shared->loop.now();
                const MonotonicTime until =
                    now + (allowed ? std::chrono::seconds(kAllowedTtl) : kRefusedTtl);
                keep(shared->decisions, key, {until, allowed, {}}, now);
                self.conclude(allowed);
            });
    }

    void conclude(bool allowed) {
        if (allowed) {
            end(200, "");
            return;
        }
        end(403,
            "user \"" + std::string(json::View(user)["username"].string_or("")) + "\" may not " +
                verb + " the non-resource URL " + path);
    }
};

OpsAuth::OpsAuth(net::Loop& loop,
                 kube::Client& client,
                 obs::Log log,
                 std::function<double()> random)
    : state_(std::make_shared<State>(loop, client, std::move(log), std::move(random))) {}

OpsAuth::~OpsAuth() {
    for (const auto& [id, review] : std::exchange(state_->reviews, {})) {
        review->done = nullptr;
    }
}

void OpsAuth::check(std::string_view authorization,
                    std::string_view method,
                    std::string_view path,
                    Done done) {
    std::string token = bearer_of(authorization);
    if (token.empty() || token.size() > kTokenBytesMax) {
        done(401, "a bearer token of the API server is needed");
        return;
    }
    if (state_->reviews.size() >= kReviewsInFlight) {
        done(503, "too many requests are being reviewed");
        return;
    }
    auto review = std::make_shared<Review>();
    review->state = state_;
    review->id = ++state_->next_review;
    review->digest = control::sha256(token);
    review->token = std::move(token);
    review->verb = lower(method);
    review->path = path;
    review->done = std::move(done);
    state_->reviews[review->id] = review;
    review->ask_who();
}

}  // namespace capstan::cli
