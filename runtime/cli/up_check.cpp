#include "runtime/cli/up_check.hpp"

#include "capstan/json.hpp"
#include "runtime/cli/local_identity.hpp"
#include "runtime/net/http_client.hpp"

namespace capstan::cli {
namespace {

constexpr const char* kKey = "capstan/up";
constexpr std::chrono::seconds kAnswerMax{10};

}  // namespace

UpCheck::UpCheck(net::IoLoop& loop,
                 std::vector<std::string> endpoints,
                 std::function<void(Result<std::string>)> done)
    : loop_(loop),
      endpoints_(std::move(endpoints)),
      done_(std::move(done)),
      value_("written at " + to_rfc3339_micro(loop.wall_now())) {
    if (endpoints_.empty()) {
        finish(fail(Code::unavailable, "no member says where its client endpoint is"));
        return;
    }
    const std::string body = json::dump({{"key", base64(kKey)}, {"value", base64(value_)}});
    send(endpoints_.front(), "/v3/kv/put", body, [this](Result<net::HttpResponse> answer) {
        if (!answer || answer.value().status != 200) {
            finish(
                fail(Code::unavailable,
                     "put through " + endpoints_.front() + " failed: " +
                         (answer ? answer.value().body.substr(0, 200) : answer.error().message)));
            return;
        }
        next();
    });
}

UpCheck::~UpCheck() = default;

void UpCheck::finish(Result<std::string> outcome) {
    loop_.post([done = done_, outcome = std::move(outcome)] { done(outcome); });
}

void UpCheck::next() {
    if (read_ == endpoints_.size()) {
        finish("put through " + endpoints_.front() + ", got it back through all " +
               std::to_string(endpoints_.size()) + " members");
        return;
    }
    const std::string& endpoint = endpoints_[read_++];
    send(endpoint,
         "/v3/kv/range",
         json::dump({{"key", base64(kKey)}}),
         [this, &endpoint](Result<net::HttpResponse> answer) {
             auto parsed =
                 answer ? json::parse(answer.value().body) : Result<json::Value>(answer.error());
             if (!parsed) {
                 finish(fail(with_context(parsed.error(), "get through " + endpoint)));
                 return;
             }
             if (json::View(parsed.value())["kvs"][0]["value"].string_or("") != base64(value_)) {
                 finish(
                     fail(Code::invalid, "get through " + endpoint + " did not give what was put"));
                 return;
             }
             next();
         });
}

void UpCheck::send(const std::string& endpoint,
                   const std::string& path,
                   std::string body,
                   std::function<void(Result<net::HttpResponse>)> done) {
    net::HttpClientOptions options;
    options.endpoint = endpoint;
    auto client = net::make_http_client(loop_, std::move(options));
    if (!client) {
        finish(fail(client.error()));
        return;
    }
    net::HttpRequest request;
    request.method = "POST";
    request.target = path;
    request.headers = {{"content-type", "application/json"}};
    request.body = std::move(body);
    request.deadline = loop_.now() + kAnswerMax;
    auto made = std::move(client).value();
    auto exchange = made->send(std::move(request), std::move(done));
    // The one before may be the caller: it goes after its callback has returned.
    loop_.post([old_exchange = std::shared_ptr<net::HttpExchange>(std::move(exchange_)),
                old_client = std::shared_ptr<net::HttpClient>(std::move(client_))] {});
    client_ = std::move(made);
    exchange_ = std::move(exchange);
}

}  // namespace capstan::cli
