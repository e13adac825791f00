// Inside of kube::Client: what its verbs have in common. Not for other folders.
#pragma once

#include "capstan/json.hpp"
#include "runtime/kube/client_state.hpp"
#include "runtime/kube/status.hpp"
#include "runtime/net/url.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace capstan::kube {

// What one verb on one key knows about itself when the answer comes. The resource is filled in by
// discovery.
struct Verb {
    std::string name;
    GroupVersionKind gvk;
    std::string ns;
    std::string object;
    std::string what;  // describe(), for errors

    void resolved(const Resource& resource) { what = describe(name, resource, ns, object); }
    Error error(Error inner) const {
        return with_context(
            std::move(inner),
            what.empty() ? name + " " + gvk.kind + " " + ObjectKey{ns, object}.to_string() : what);
    }
};

// True for a 404 that is about the kind, not the object.
inline bool is_kind_missing(const net::HttpResponse& response) {
    if (response.status != 404) {
        return false;
    }
    const auto body = json::parse(response.body);
    return !body || json::View(body.value())["details"]["name"].string_or("").empty();
}

inline Result<net::HttpResponse> check(ClientState& client,
                                       const Verb& verb,
                                       Result<net::HttpResponse> result) {
    if (result && is_kind_missing(result.value())) {
        client.resources->forget(verb.gvk);
    }
    auto accepted = client.accept(std::move(result), verb.name == "create");
    if (!accepted) {
        return fail(verb.error(accepted.error()));
    }
    return accepted;
}

inline MonotonicTime deadline_or(const ClientState& client,
                                 MonotonicTime deadline,
                                 std::chrono::seconds otherwise) {
    return deadline == kNever ? client.loop.now() + otherwise : deadline;
}

inline Error bad_answer(const Verb& verb, const Error& inner) {
    return verb.error(
        Error{Code::unavailable, "answer of the server is no object: " + inner.message, {}});
}

inline std::string with_query(std::string path, const net::Query& query) {
    return query.empty() ? path : path + "?" + net::build_query(query);
}

inline void add(net::Query& query, std::string_view key, std::string_view value) {
    if (!value.empty()) {
        query.emplace_back(key, value);
    }
}

}  // namespace capstan::kube
