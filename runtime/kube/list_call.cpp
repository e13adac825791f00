#include "runtime/kube/client.hpp"
#include "runtime/kube/compact_copy.hpp"
#include "runtime/kube/raw_json.hpp"
#include "runtime/kube/verb.hpp"

#include <utility>

namespace capstan::kube {
namespace {

// A list answer being decoded, kDecodeBatch items per loop turn, so that other work is not held up.
struct ListDecode : std::enable_shared_from_this<ListDecode> {
    std::shared_ptr<ClientState> client;
    std::weak_ptr<UnaryCall> call;
    std::shared_ptr<Verb> verb;
    Projection projection;
    std::function<void(Result<ListPage>)> done;
    std::string body;
    std::vector<std::string_view> items;  // into body
    std::size_t next{0};                  // of items
    ListPage page;

    Result<void> open() {
        const std::size_t length = raw::value_length(body);
        const bool whole =
            length > 0 && body.find_first_not_of(" \t\r\n", length) == std::string::npos;
        if (!whole || body.front() != '{') {
            return fail(Code::unavailable, "answer of the server is no list");
        }
        CAPSTAN_TRY(json::Value metadata,
                    json::parse(raw::member(body, "metadata").value_or("{}")));
        page.resource_version = json::View(metadata)["resourceVersion"].string_or("");
        page.continue_token = json::View(metadata)["continue"].string_or("");
        const auto array = raw::member(body, "items");
        if (array && array->starts_with('[')) {
            raw::each(*array, [&](std::string_view, std::string_view item) {
                items.push_back(item);
                return true;
            });
        }
        page.items.reserve(items.size());
        return ok();
    }
    void go_on() {
        const auto live = call.lock();
        if (!live || !live->live()) {
            return;
        }
        for (std::size_t n = 0; n < kDecodeBatch && next < items.size(); ++n) {
            const std::string_view item = items[next++];
            if (auto object = Object::decode(item, projection, &verb->gvk)) {
                page.items.push_back(std::move(object).value());
            } else {
                page.unreadable.push_back(
                    unreadable(item, projection, verb->gvk, object.error().message));
            }
        }
        if (next == items.size()) {
            done(std::move(page));
            return;
        }
        client->loop.post([self = shared_from_this()] { self->go_on(); });
    }
};

net::Query list_query(const ListOptions& options) {
    net::Query query;
    add(query, "limit", options.limit > 0 ? std::to_string(options.limit) : "");
    add(query, "labelSelector", options.label_selector);
    add(query, "fieldSelector", options.field_selector);
    if (!options.continue_token.empty()) {
        add(query, "continue", options.continue_token);
    } else if (options.match == ListMatch::any) {
        add(query, "resourceVersion", "0");
    } else if (options.match == ListMatch::not_older_than && !options.resource_version.empty()) {
        add(query, "resourceVersion", options.resource_version);
        add(query, "resourceVersionMatch", "NotOlderThan");
    }
    return query;
}

}  // namespace

CallHandle Client::list(const GroupVersionKind& gvk,
                        ListOptions options,
                        std::function<void(Result<ListPage>)> done) {
    const auto decode = std::make_shared<ListDecode>();
    decode->client = state_;
    decode->verb = std::make_shared<Verb>(Verb{"list", gvk, options.ns, "", ""});
    decode->projection = std::move(options.projection);
    decode->done = std::move(done);
    auto call = std::make_shared<UnaryCall>(
        state_,
        deadline_or(*state_, options.deadline, kListTimeout),
        [decode](Result<net::HttpResponse> result) {
            auto checked = check(*decode->client, *decode->verb, std::move(result));
            if (!checked) {
                decode->done(fail(checked.error()));
                return;
            }
            decode->body = std::move(checked.value().body);
            if (const auto opened = decode->open(); !opened) {
                decode->done(fail(decode->verb->error(opened.error())));
                return;
            }
            decode->go_on();
        });
    decode->call = call;
    call->start(gvk, [decode, options](const Resource& resource) -> Result<RequestSpec> {
        decode->verb->resolved(resource);
        CAPSTAN_TRY(std::string path, object_path(resource, options.ns, {}));
        RequestSpec spec;
        spec.target = with_query(std::move(path), list_query(options));
        spec.list = true;
        spec.accept = metadata_only(decode->projection) ? kAcceptPartialList : std::string_view();
        return spec;
    });
    return std::make_unique<HandleOf<UnaryCall>>(std::move(call));
}

}  // namespace capstan::kube
