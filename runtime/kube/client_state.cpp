#include "runtime/kube/client_state.hpp"

#include "runtime/kube/status.hpp"
#include "runtime/net/http1.hpp"

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

namespace capstan::kube {
namespace {

ClientOptions with_random(ClientOptions options) {
    if (!options.random) {
        options.random = [engine = std::minstd_rand(1)]() mutable {
            return std::uniform_real_distribution<double>(0, 1)(engine);
        };
    }
    return options;
}

}  // namespace

void ClientObserver::request_sizes(std::string_view, std::string_view, std::size_t, std::size_t) {}
void ClientObserver::request_retried(std::string_view, std::string_view, std::string_view) {}
void ClientObserver::request_waited(std::string_view, std::string_view, std::chrono::nanoseconds) {}

ClientState::ClientState(net::Loop& l, net::HttpClient& h, ClientOptions o)
    : loop(l), http(h), options(with_random(std::move(o))), flow(l, options.random) {}

Result<net::Headers> ClientState::headers(std::string_view accept,
                                          std::string_view content_type,
                                          bool packed,
                                          std::string& token) {
    net::Headers list = {{"Accept", accept.empty() ? "application/json" : std::string(accept)},
                         {"User-Agent", options.user_agent}};
    if (!content_type.empty()) {
        list.emplace_back("Content-Type", content_type);
    }
    std::copy_if(options.headers.begin(),
                 options.headers.end(),
                 std::back_inserter(list),
                 [packed](const auto& header) {
                     return packed || !net::equal_names(header.first, "Accept-Encoding");
                 });
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
    if (unreachable && status > 0 && status < 500) {
        loop.post([weak = weak_from_this()] {
            if (const auto self = weak.lock(); self && !self->closed && self->server_back) {
                self->server_back();
            }
        });
    }
    unreachable = status == 0 || status >= 500;
    if (options.observer != nullptr) {
        const std::string code = status == 0 ? "<error>" : std::to_string(status);
        options.observer->request_done(method, code, options.host, loop.now() - started);
    }
}

void ClientState::observe_retry(std::string_view method, int status) {
    if (options.observer != nullptr) {
        const std::string code = status == 0 ? "<error>" : std::to_string(status);
        options.observer->request_retried(method, code, options.host);
    }
}

void ClientState::observe_wait(std::string_view method, MonotonicTime since) {
    if (options.observer != nullptr) {
        options.observer->request_waited(method, options.host, loop.now() - since);
    }
}

void ClientState::note_warnings(const net::Headers& list, std::string_view about) {
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
            options.observer->warning(std::string(about) + ": " +
                                      value.substr(from + 1, to - from - 1));
        }
    }
}

Result<net::HttpResponse> ClientState::accept(Result<net::HttpResponse> result,
                                              bool creating) const {
    if (!result) {
        return fail(explained(result.error()));
    }
    const net::HttpResponse& answer = result.value();
    if (answer.status < 200 || answer.status > 299) {
        return fail(
            explained(error_of_response(answer.status, answer.headers, answer.body, creating)));
    }
    if (auto foreign = foreign_answer(answer.status, answer.headers)) {
        return fail(std::move(*foreign));
    }
    return result;
}

bool ClientState::renew(int status, const std::string& token) {
    if (status != 401) {
        return false;
    }
    const bool other_token = options.tokens != nullptr && options.tokens->refused(token);
    return (options.refresh && options.refresh()) || other_token;
}

void ClientState::fetch(std::string target, std::string accept, Resources::Fetched done) {
    const std::uint64_t id = ++fetch_sequence;
    const auto finished = [weak = weak_from_this(), id, done = std::move(done)](
                              Result<net::HttpResponse> response) {
        const auto state = weak.lock();
        if (!state) {
            return;
        }
        const auto handle = std::move(state->fetches[id]);  // dropped at the end of this callback
        state->fetches.erase(id);
        done(state->accept(std::move(response)));
    };
    auto call =
        std::make_shared<UnaryCall>(shared_from_this(), loop.now() + kCallTimeout, finished);
    fetches[id] = std::make_unique<HandleOf<UnaryCall>>(call);
    RequestSpec spec;
    spec.target = std::move(target);
    spec.accept = std::move(accept);
    call->start(std::move(spec));
}

void ClientState::renew_next(const std::set<Renewable*>& left) {
    std::set<Renewable*> rest = left;
    while (!rest.empty()) {
        Renewable* next = rest.extract(rest.begin()).value();
        if (watches.contains(next)) {  // of those there were; a new one is on the new connection
            next->renew();
            break;
        }
    }
    if (rest.empty()) {
        renewing.reset();
        return;
    }
    renewing = loop.at(loop.now() + kRenewSpread, [weak = weak_from_this(), rest] {
        if (const auto state = weak.lock(); state && !state->closed) {
            const auto fired = std::move(state->renewing);
            state->renew_next(rest);
        }
    });
}

}  // namespace capstan::kube
