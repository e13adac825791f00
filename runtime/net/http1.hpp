// HTTP/1.1 framing without I/O: an incremental parser (Beast inside) and serializers.
//
// RFC 9112. Both Content-Length and chunked bodies; trailers are read and dropped. Thread: one.
#pragma once

#include "runtime/net/http.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace capstan::net {

struct Head {
    int status{0};       // responses
    std::string method;  // requests
    std::string target;
    int minor{1};  // of HTTP/1.x
    Headers headers;
    bool keep_alive{true};
    bool expects_continue{false};
    std::int64_t content_length{-1};  // -1: chunked, until the end, or none
};

enum class Role : std::uint8_t { request, response };

class Http1Parser {
public:
    // `no_body`: the answer to HEAD, whose headers speak of a body that does not come.
    Http1Parser(Role role, std::size_t header_bytes_max, bool no_body = false);
    ~Http1Parser();
    Http1Parser(const Http1Parser&) = delete;
    Http1Parser& operator=(const Http1Parser&) = delete;

    enum class Problem : std::uint8_t { none, malformed, head_too_large };
    struct Step {
        // from the front of the input; the rest must come again with more behind it
        std::size_t consumed{0};
        Problem problem{Problem::none};
        std::string text;
    };
    // Goes as far as the input allows, at most to the end of this message. Requires: not
    // done, no problem before.
    Step parse(std::string_view input);
    // The peer ended. True: that was the end of the body. False: the message is cut short.
    bool finish();

    bool head_done() const noexcept;
    bool done() const noexcept;
    Head& head() noexcept;         // requires: head_done()
    std::string& body() noexcept;  // what was parsed and not yet taken

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// Line breaks and zero bytes in header text become spaces, so that no text can add headers.
void append_header(std::string& out, std::string_view name, std::string_view value);
std::string_view reason_phrase(int status) noexcept;
// "keep-alive, Upgrade", without case
bool has_token(std::string_view list, std::string_view token) noexcept;
// header names, without case
bool equal_names(std::string_view a, std::string_view b) noexcept;
std::string chunk(std::string_view bytes);  // requires: not empty (an empty chunk ends the body)
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace capstan::net
