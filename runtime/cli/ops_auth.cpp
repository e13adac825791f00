#include "runtime/cli/ops_auth.hpp"

#include "capstan/json.hpp"
#include "runtime/control/digest.hpp"
#include "runtime/kube/status.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace capstan::cli {
namespace {

constexpr std::string_view kTokenReviews = "/apis/authentication.k8s.io/v1/tokenreviews";
constexpr std::string_view kUnknownToken = "the token is not one of the API server's";
constexpr std::string_view kAccessReviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

struct Known {
    MonotonicTime until{0};
    bool good{false};
    json::Value user;  // of a token: status.user of its review
};
using Cache = std::map<std::string, Known>;

// nullptr: not known, or no longer.
const Known* find(const Cache& cache, const std::string& key, MonotonicTime now) {
    const auto found = cache.find(key);
    return found == cache.end() || found->second.until <= now ? nullptr : &found->second;
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

std::string not_allowed(const json::Value& user, const std::string& verb, const std::string& path) {
    return "user \"" + std::string(json::View(user)["username"].string_or("")) + "\" may not " +
           verb + " the non-resource URL " + path;
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
    Cache tokens;     // good ones, by digest; those that are old tell who was good
    Cache unknown;    // bad ones, which must not push good ones out
    Cache decisions;  // by user, verb and path
    std::map<std::string, std::shared_ptr<Review>> reviews;  // under way, by token, verb and path

    const Known* find_token(const std::string& digest) const {
        const Known* good = find(tokens, digest, loop.now());
        return good != nullptr ? good : find(unknown, digest, loop.now());
    }
    const Known* find_decision(const json::Value& user,
                               const std::string& verb,
                               const std::string& path) const {
        return find(decisions, decision_key(user, verb, path), loop.now());
    }
    static std::string decision_key(const json::Value& user,
                                    const std::string& verb,
                                    const std::string& path) {
        return control::sha256(json::dump_sorted(user)) + verb + " " + path;
    }
};

// Equal requests on their way through both questions.
struct OpsAuth::Review : std::enable_shared_from_this<OpsAuth::Review> {
    using Answered = std::function<void(Review&, const json::Value&)>;

    std::weak_ptr<State> state;
    std::string key;  // among the reviews under way
    std::string token, digest, verb, path;
    json::Value user;
    std::vector<Done> done;
    int tries{0};
    kube::CallHandle call;
    std::unique_ptr<net::Timer> timer;

    void end(int status, const std::string& text) {
        const auto self = shared_from_this();
        if (const auto s = state.lock()) {
            s->reviews.erase(key);
        }
        for (const Done& told : std::exchange(done, {})) {
            told(status, text);
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
            end(500, "cannot be reviewed: " + std::string(kube::word_of(error)));
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
        if (const Known* known = s->find_token(digest)) {
            who_is(*known);
            return;
        }
        ask(kTokenReviews,
            {{"apiVersion", "authentication.k8s.io/v1"},
             {"kind", "TokenReview"},
             {"spec", {{"token", token}}}},
            [](Review& self, const json::Value& answer) {
                const auto shared = self.state.lock();
                const MonotonicTime now = shared->loop.now();
                Known known;
                known.good = json::View(answer)["status"]["authenticated"].bool_or(false);
                known.until =
                    now + (known.good ? std::chrono::seconds(kTokenTtl) : kUnknownTokenTtl);
                if (const json::Value* named = answer.pointer("/status/user"); named != nullptr) {
                    known.user = *named;
                }
                if (!known.good) {
                    shared->tokens.erase(self.digest);  // it was good once
                }
                keep(known.good ? shared->tokens : shared->unknown, self.digest, known, now);
                self.who_is(known);
            });
    }

    void who_is(const Known& known) {
        token.clear();
        if (!known.good) {
            end(401, std::string(kUnknownToken));
            return;
        }
        user = known.user;
        ask_whether();
    }

    void ask_whether() {
        const auto s = state.lock();
        if (const Known* known = s->find_decision(user, verb, path)) {
            conclude(known->good);
            return;
        }
        const std::string decision = State::decision_key(user, verb, path);
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
            [decision](Review& self, const json::Value& answer) {
                const auto shared = self.state.lock();
                const bool allowed = json::View(answer)["status"]["allowed"].bool_or(false);
                const MonotonicTime now = shared->loop.now();
                const MonotonicTime until =
                    now + (allowed ? std::chrono::seconds(kAllowedTtl) : kRefusedTtl);
                keep(shared->decisions, decision, {until, allowed, {}}, now);
                self.conclude(allowed);
            });
    }

    void conclude(bool allowed) {
        end(allowed ? 200 : 403, allowed ? "" : not_allowed(user, verb, path));
    }
};

OpsAuth::OpsAuth(net::Loop& loop,
                 kube::Client& client,
                 obs::Log log,
                 std::function<double()> random)
    : state_(std::make_shared<State>(loop, client, std::move(log), std::move(random))) {}

OpsAuth::~OpsAuth() {
    for (const auto& [key, review] : std::exchange(state_->reviews, {})) {
        review->done.clear();
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
    const std::string digest = control::sha256(token), verb = lower(method), place(path);
    if (const Known* known = state_->find_token(digest)) {
        if (!known->good) {
            done(401, std::string(kUnknownToken));
            return;
        }
        if (const Known* decision = state_->find_decision(known->user, verb, place)) {
            done(decision->good ? 200 : 403,
                 decision->good ? "" : not_allowed(known->user, verb, place));
            return;
        }
    }
    const std::string key = digest + verb + " " + place;
    const auto same = state_->reviews.find(key);
    const bool shared = same != state_->reviews.end();
    const std::size_t room =
        kReviewsInFlight + (state_->tokens.contains(digest) ? kReviewsReserved : 0);
    if (shared ? same->second->done.size() >= kSharersMax : state_->reviews.size() >= room) {
        done(429, "too many requests are being reviewed; try again in a second");
        return;
    }
    if (shared) {
        same->second->done.push_back(std::move(done));
        return;
    }
    auto review = std::make_shared<Review>();
    review->state = state_;
    review->key = key;
    review->digest = digest;
    review->token = std::move(token);
    review->verb = verb;
    review->path = place;
    review->done.push_back(std::move(done));
    state_->reviews[key] = review;
    review->ask_who();
}

}  // namespace capstan::cli
