// Outgoing and incoming HTTP from C++.
#include "capstan/plugin.hpp"

#include <array>

namespace capstan {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;

std::string describe(const HttpRequest& request) {
    json::Value headers = json::object();
    for (const auto& [name, value] : request.headers) {
        headers.set(name, value);
    }
    json::Value tls = json::object();
    const std::array<std::pair<const char*, const std::string*>, 4> texts{
        {{"caPem", &request.tls.ca_pem},
         {"certificatePem", &request.tls.certificate_pem},
         {"keyPem", &request.tls.key_pem},
         {"serverName", &request.tls.server_name}}};
    for (const auto& [name, text] : texts) {
        if (!text->empty()) {
            tls.set(name, *text);
        }
    }
    if (request.tls.insecure) {
        tls.set("insecure", true);
    }
    return json::dump({{"method", request.method},
                       {"url", request.url},
                       {"headers", std::move(headers)},
                       {"timeoutMs", request.timeout.count()},
                       {"tls", std::move(tls)}});
}

// "%41+b" -> "A b" (application/x-www-form-urlencoded).
std::string decode_form(std::string_view text) {
    const auto hex = [](char c) -> int {
        if (c >= '0' && c <= '9') {
            return c - '0';
        }
        if (c >= 'a' && c <= 'f') {
            return c - 'a' + 10;
        }
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    };
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '+') {
            out += ' ';
        } else if (text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 &&
                   hex(text[i + 2]) >= 0) {
            out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
            i += 2;
        } else {
            out += text[i];
        }
    }
    return out;
}

}  // namespace

HttpStream& HttpStream::operator=(HttpStream&& other) noexcept {
    if (this != &other) {
        close();
        call_ = other.call_;
        handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
}

void HttpStream::close() noexcept {
    if (handle_ != nullptr) {
        call_->host().http->close(std::exchange(handle_, nullptr));
    }
}

Result<void> HttpStream::write(std::string_view bytes) {
    const capstan_rc rc = call_->host().http->write(handle_, to_str(bytes));
    if (rc != CAPSTAN_OK) {
        return fail(call_->last_error(rc, "send request body"));
    }
    return ok();
}

Result<int> HttpStream::head(json::Value* headers) {
    std::int32_t status = 0;
    capstan_str text{};
    const capstan_rc rc = call_->host().http->await_head(handle_, &status, &text);
    if (rc != CAPSTAN_OK) {
        return fail(call_->last_error(rc, "await response"));
    }
    if (headers != nullptr) {
        CAPSTAN_TRY(*headers, json::parse(view_of(text)));
    }
    return static_cast<int>(status);
}

Result<std::size_t> HttpStream::read(std::string& out, MonotonicTime until) {
    const std::size_t before = out.size();
    out.resize(before + kReadBytes);
    std::uint64_t count = 0;
    const std::uint64_t until_ns =
        until == kNever ? CAPSTAN_NEVER : static_cast<std::uint64_t>(until.count());
    const capstan_rc rc =
        call_->host().http->read(handle_, out.data() + before, kReadBytes, until_ns, &count);
    out.resize(before + (rc == CAPSTAN_OK ? static_cast<std::size_t>(count) : 0));
    if (rc != CAPSTAN_OK) {
        return fail(call_->last_error(rc, "read response body"));
    }
    return static_cast<std::size_t>(count);
}

Result<HttpStream> Http::open(const HttpRequest& request, std::int64_t body_bytes) {
    const capstan_ext_http* table = call_->host().http;
    if (table == nullptr) {
        return fail(Code::unsupported, "the host has no capstan.http/1");
    }
    capstan_http* handle = nullptr;
    const capstan_rc rc =
        table->open(call_->handle(), to_str(describe(request)), body_bytes, &handle);
    if (rc != CAPSTAN_OK) {
        return fail(call_->last_error(rc, request.method + " " + request.url));
    }
    return HttpStream(*call_, handle);
}

Result<HttpResponse> Http::send(const HttpRequest& request) {
    CAPSTAN_TRY(HttpStream stream, open(request, static_cast<std::int64_t>(request.body.size())));
    if (!request.body.empty()) {
        CAPSTAN_TRY(stream.write(request.body));
    }
    HttpResponse response;
    CAPSTAN_TRY(response.status, stream.head(&response.headers));
    const MonotonicTime until = call_->now() + request.timeout;
    for (;;) {
        CAPSTAN_TRY(const std::size_t count, stream.read(response.body, until));
        if (count == 0) {
            return response;
        }
        if (response.body.size() > kBodyBytesMax) {
            return fail(Code::too_large,
                        request.method + " " + request.url + ": the answer is over " +
                            std::to_string(kBodyBytesMax) + " bytes");
        }
    }
}

Exchange::Exchange(const HostTables& host, capstan_exchange* handle)
    : host_(&host), handle_(handle) {
    auto parsed = json::parse(view_of(host.http_server->request_json(handle)));
    if (parsed) {
        request_ = std::move(parsed).value();
    }
    const json::View view(request_);
    method_ = view["method"].string_or("");
    path_ = view["path"].string_or("");
    query_ = view["query"].string_or("");
    common_name_ = view["commonName"].string_or("");
    remote_ = view["remote"].string_or("");
    over_tls_ = view["tls"].bool_or(false);
    certified_ = view["certificate"].bool_or(!common_name_.empty());
}

std::string_view Exchange::header(std::string_view lower_case_name) const noexcept {
    const json::Value* headers = request_.find("headers");
    const json::Value* value = headers == nullptr ? nullptr : headers->find(lower_case_name);
    const std::string* text = value == nullptr ? nullptr : value->if_string();
    return text == nullptr ? std::string_view() : std::string_view(*text);
}

std::string Exchange::query_value(std::string_view key) const {
    std::string_view rest = query_;
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find('&'), rest.size());
        const std::string_view pair = rest.substr(0, end);
        const std::size_t equals = std::min(pair.find('='), pair.size());
        if (decode_form(pair.substr(0, equals)) == key) {
            return decode_form(pair.substr(std::min(equals + 1, pair.size())));
        }
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return {};
}

Result<std::string> Exchange::body() {
    std::string out;
    std::array<char, 16 * 1024> buffer{};
    for (;;) {
        std::uint64_t count = 0;
        const capstan_rc rc =
            host_->http_server->read(handle_, buffer.data(), buffer.size(), &count);
        if (rc != CAPSTAN_OK) {
            return fail(code_of(rc), "read request body: " + std::string(to_string(code_of(rc))));
        }
        if (count == 0) {
            return out;
        }
        out.append(buffer.data(), static_cast<std::size_t>(count));
        if (out.size() > kBodyBytesMax) {
            return fail(Code::too_large,
                        "request body is over " + std::to_string(kBodyBytesMax) + " bytes");
        }
    }
}

void Exchange::set_header(std::string_view name, std::string_view value) {
    headers_out_.set(name, value);
}

void Exchange::respond(int status, std::string_view content_type, std::string_view body) {
    set_header("content-type", content_type);
    set_header("content-length", std::to_string(body.size()));
    const std::string headers = json::dump(headers_out_);
    const capstan_ext_http_server* table = host_->http_server;
    // The peer may have gone; then there is nobody left to tell.
    if (table->respond(handle_, status, to_str(headers)) == CAPSTAN_OK &&
        (body.empty() || table->write(handle_, to_str(body)) == CAPSTAN_OK)) {
        table->end(handle_);
    }
}

void Exchange::respond_json(int status, const json::Value& body) {
    respond(status, "application/json", json::dump(body));
}

}  // namespace capstan
