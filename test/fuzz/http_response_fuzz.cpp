// HTTP/1.1 messages from a peer: the way the bytes arrive must not change what is understood.
//
// Input: one byte of choices (role, HEAD, small header limit, end of stream), one that seeds the
// cuts, then the bytes.
#include "runtime/net/http1.hpp"
#include "test/fuzz/fuzz.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace capstan::net {
namespace {

struct Message {
    int status{0};
    std::string method, target;
    Headers headers;
    bool keep_alive{false};
    std::int64_t content_length{0};
    std::string body;
    bool done{false};
};

constexpr int kMalformed = static_cast<int>(Http1Parser::Problem::malformed);

struct Seen {
    std::vector<Message> messages;
    int problem{0};
};

// The messages of one connection, as its reader takes them: bytes not consumed come again.
Seen read(std::string_view stream, std::uint8_t choices, std::uint32_t seed, bool whole) {
    constexpr std::size_t kMessagesMax = 8;
    const Role role = (choices & 1) != 0 ? Role::request : Role::response;
    const bool no_body = (choices & 2) != 0 && role == Role::response;
    const std::size_t header_bytes_max = (choices & 4) != 0 ? 128 : 16 * 1024;
    Seen seen;
    fuzz::Pieces pieces(stream, seed);
    std::string buffer;
    auto parser = std::make_unique<Http1Parser>(role, header_bytes_max, no_body);
    Message message;
    bool given = false;
    const auto take_body = [&] {
        if (parser->head_done()) {
            message.body += parser->body();
            parser->body().clear();
        }
    };
    const auto keep = [&] {
        if (parser->head_done()) {
            const Head& head = parser->head();
            message.status = head.status;
            message.method = head.method;
            message.target = head.target;
            message.headers = head.headers;
            message.keep_alive = head.keep_alive;
            message.content_length = head.content_length;
        }
        message.done = parser->done();
        seen.messages.push_back(std::move(message));
        message = {};
    };
    for (;;) {
        std::string_view piece = stream;
        if (whole ? given : !pieces.next(piece)) {
            break;
        }
        given = true;
        buffer += piece;
        while (!buffer.empty()) {
            const std::string exact = buffer;
            const auto step = parser->parse(exact);
            fuzz::require(step.consumed <= exact.size(), "no more is consumed than there is");
            buffer.erase(0, step.consumed);
            if (step.problem != Http1Parser::Problem::none) {
                fuzz::require(!step.text.empty(), "a problem has a text");
                seen.problem = static_cast<int>(step.problem);
                return seen;
            }
            take_body();
            if (!parser->done()) {
                if (step.consumed == 0) {
                    break;
                }
                continue;
            }
            keep();
            if (seen.messages.size() == kMessagesMax) {
                return seen;
            }
            parser = std::make_unique<Http1Parser>(role, header_bytes_max, no_body);
        }
    }
    if ((choices & 8) != 0 && parser->head_done()) {
        const bool over = parser->finish();
        take_body();
        fuzz::require(over == parser->done(), "an end of the body is an end of the message");
    }
    keep();
    return seen;
}

bool same(const Message& a, const Message& b) {
    const auto headers = [](const Message& m) {
        std::string text;
        for (const auto& header : m.headers) {
            text += header.first + ":" + header.second + "\n";
        }
        return text;
    };
    return a.status == b.status && a.method == b.method && a.target == b.target &&
           headers(a) == headers(b) && a.keep_alive == b.keep_alive &&
           a.content_length == b.content_length && a.body == b.body && a.done == b.done;
}

}  // namespace
}  // namespace capstan::net

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace capstan::net;
    capstan::fuzz::Input input(data, size);
    const std::uint8_t choices = input.byte();
    const std::uint32_t seed = input.byte();
    const Seen whole = read(input.rest(), choices, seed, true);
    const Seen cut = read(input.rest(), choices, seed, false);
    if (whole.problem != 0 || cut.problem != 0) {
        // A bad head may be seen at once or only when its end has come; it is never taken. Where
        // exactly the limit of a head is depends on how it arrives.
        const bool taken = std::any_of(
            cut.messages.begin() +
                static_cast<std::ptrdiff_t>(std::min(whole.messages.size(), cut.messages.size())),
            cut.messages.end(),
            [](const Message& message) { return message.done; });
        capstan::fuzz::require(whole.problem != kMalformed || !taken, "what is malformed stays so");
        return 0;
    }
    capstan::fuzz::require(
        whole.messages.size() == cut.messages.size() &&
            std::equal(whole.messages.begin(), whole.messages.end(), cut.messages.begin(), same),
        "chunking does not change the messages");
    return 0;
}
