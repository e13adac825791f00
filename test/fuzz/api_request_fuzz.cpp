// Requests of a client to the embedded API server: each is answered with a status, whatever it
// says, and the server lives on.
//
// Input: requests separated by a line "---"; of each the first line is "METHOD TARGET [TYPE]", TYPE
// one of json, merge, strategic, apply, patch; the rest is the body.
#include "runtime/local/apiserver/api_server.hpp"
#include "test/fuzz/fuzz.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace capstan::local {
namespace {

using fuzz::require;

constexpr std::size_t kRequestsMax = 16;

class StillClock final : public Clock {
public:
    MonotonicTime now() const noexcept override { return std::chrono::hours(1); }
    WallTime wall_now() const noexcept override {
        return WallTime{std::chrono::seconds(1'767'225'600)};
    }
};

std::string_view cut(std::string_view& text, std::string_view mark) {
    const std::size_t at = text.find(mark);
    const std::string_view first = text.substr(0, at);
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + mark.size());
    return first;
}

std::string content_type(std::string_view word) {
    if (word == "merge") {
        return "application/merge-patch+json";
    }
    if (word == "strategic") {
        return "application/strategic-merge-patch+json";
    }
    if (word == "apply") {
        return "application/apply-patch+yaml";
    }
    return word == "patch" ? "application/json-patch+json" : "application/json";
}

void send(ApiServer& server, std::string_view text) {
    std::string_view line = cut(text, "\n");
    ApiRequest request;
    request.method = cut(line, " ");
    request.target = cut(line, " ");
    request.content_type = content_type(line);
    request.body = text;
    request.user_agent = "fuzz/1.0";
    request.user = {"admin", {"system:masters"}};
    if (ApiServer::is_watch(request)) {
        const WatchStart start = server.open_watch(request, {[](std::string_view) {}, [] {}});
        require(start.handle || start.refused.status >= 400, "a watch is opened or refused");
        return;
    }
    const ApiResponse answer = server.handle(request);
    require(answer.status >= 100 && answer.status < 600, "an answer has a status");
    require(answer.status != 500, "nothing a client says is an internal error");
    if (answer.status >= 400) {
        const auto status = json::parse(answer.body);
        require(status && json::View(status.value())["kind"].string_or("") == "Status",
                "a refusal is a Status");
    }
}

}  // namespace
}  // namespace capstan::local

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace capstan::local;
    static const StillClock clock;
    const auto server = ApiServer::create(clock, {.rbac = false}).value();
    std::string_view text(reinterpret_cast<const char*>(data), size);
    for (std::size_t i = 0; i < kRequestsMax && !text.empty(); ++i) {
        send(*server, cut(text, "\n---\n"));
    }
    server->tick();
    return 0;
}
