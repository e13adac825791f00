#include "runtime/net/http1.hpp"

#include <boost/beast/http/basic_parser.hpp>

#include <variant>

namespace capstan::net {

namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;

std::string text(string_view view) {
    return {view.data(), view.size()};
}

// Collects what basic_parser finds.
template <bool is_request>
class Collector final : public http::basic_parser<is_request> {
public:
    Head head;
    std::string body;
    bool head_complete{false};

private:
    void on_request_impl(
        http::verb, string_view method, string_view target, int version, error_code&) override {
        head.method = text(method);
        head.target = text(target);
        head.minor = version % 10;
    }
    void on_response_impl(int status, string_view, int version, error_code&) override {
        head.status = status;
        head.minor = version % 10;
    }
    void on_field_impl(http::field, string_view name, string_view value, error_code&) override {
        // a trailer
        if (head_complete) {
            return;
        }
        head.headers.emplace_back(text(name), text(value));
    }
    void on_header_impl(error_code&) override {
        head_complete = true;
        head.keep_alive = this->keep_alive();
        const auto length = this->content_length();
        head.content_length = length ? static_cast<std::int64_t>(*length) : -1;
        head.expects_continue = equal_names(find_header(head.headers, "Expect"), "100-continue");
    }
    void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
    std::size_t on_body_impl(string_view piece, error_code&) override {
        body.append(piece.data(), piece.size());
        return piece.size();
    }
    void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
    std::size_t on_chunk_body_impl(std::uint64_t, string_view piece, error_code&) override {
        body.append(piece.data(), piece.size());
        return piece.size();
    }
    void on_finish_impl(error_code&) override {}
};

}  // namespace

// The shortest end of a chunked body, "0\r\n\r\n". Beast asserts that what it has asked more of
// behind a last chunk's "0\r\n" is at least as long.
constexpr std::size_t kChunkEndBytes = 5;

struct Http1Parser::Impl {
    std::variant<std::monostate, Collector<true>, Collector<false>> parser;
    bool wants_more{false};  // of what was left over

    template <class F>
    auto visit(F f) {
        if (auto* request = std::get_if<Collector<true>>(&parser)) {
            return f(*request);
        }
        return f(std::get<Collector<false>>(parser));
    }
};

Http1Parser::Http1Parser(Role role, std::size_t header_bytes_max, bool no_body)
    : impl_(std::make_unique<Impl>()) {
    if (role == Role::request) {
        impl_->parser.emplace<Collector<true>>();
    } else {
        impl_->parser.emplace<Collector<false>>();
    }
    impl_->visit([&](auto& parser) {
        parser.eager(true);
        parser.header_limit(static_cast<std::uint32_t>(header_bytes_max));
        parser.body_limit(boost::none);  // the callers count: they know what to do about it
        if (no_body) {
            parser.skip(true);
        }
        return 0;
    });
}

Http1Parser::~Http1Parser() = default;

Http1Parser::Step Http1Parser::parse(std::string_view input) {
    return impl_->visit([&](auto& parser) {
        Step step;
        while (step.consumed < input.size() && !parser.is_done()) {
            error_code error;
            const std::string_view rest = input.substr(step.consumed);
            if (impl_->wants_more && parser.head_complete && parser.chunked() &&
                rest.size() < kChunkEndBytes) {
                break;  // no chunk's head with what must follow it is shorter
            }
            const std::size_t used =
                parser.put(boost::asio::const_buffer(rest.data(), rest.size()), error);
            step.consumed += used;
            impl_->wants_more = error == http::error::need_more;
            if (error == http::error::need_more) {
                break;
            }
            if (error) {
                const bool large = error == http::error::header_limit;
                step.problem = large ? Problem::head_too_large : Problem::malformed;
                step.text = error.message();
                break;
            }
            if (used == 0) {
                break;
            }
        }
        return step;
    });
}

bool Http1Parser::finish() {
    return impl_->visit([](auto& parser) {
        if (!parser.head_complete || !parser.need_eof()) {
            return false;
        }
        error_code error;
        parser.put_eof(error);
        return !error && parser.is_done();
    });
}

bool Http1Parser::head_done() const noexcept {
    return impl_->visit([](const auto& parser) { return parser.head_complete; });
}
bool Http1Parser::done() const noexcept {
    return impl_->visit([](const auto& parser) { return parser.is_done(); });
}
Head& Http1Parser::head() noexcept {
    return *impl_->visit([](auto& parser) { return &parser.head; });
}
std::string& Http1Parser::body() noexcept {
    return *impl_->visit([](auto& parser) { return &parser.body; });
}

}  // namespace capstan::net
