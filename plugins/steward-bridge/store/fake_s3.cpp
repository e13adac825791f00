#include "plugins/steward-bridge/store/fake_s3.hpp"

#include "plugins/steward-bridge/store/encoding.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace capstan::steward::testing {
namespace {

constexpr const char* kXml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

std::string tag(const std::string& name, const std::string& text) {
    return "<" + name + ">" + text + "</" + name + ">";
}

std::string path_and_query(const std::string& url) {
    return url.substr(std::min(url.find('/', url.find("://") + 3), url.size()));
}

std::string http_date(WallTime time) {
    // "20260102T030405Z" -> IMF-fixdate; the day of the week is not looked at by anybody here.
    constexpr const char* months = "JanFebMarAprMayJunJulAugSepOctNovDec";
    const std::string t = to_amz_date(time);
    const int month = std::atoi(t.substr(4, 2).c_str());
    return "Mon, " + t.substr(6, 2) + " " + std::string(months + (month - 1) * 3, 3) + " " +
           t.substr(0, 4) + " " + t.substr(9, 2) + ":" + t.substr(11, 2) + ":" + t.substr(13, 2) +
           " GMT";
}

}  // namespace

Result<void> FakePace::sleep(std::chrono::nanoseconds duration) {
    if (cancelled) {
        return fail(Code::cancelled, "stop was asked for");
    }
    sleeps.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(duration));
    now += duration;
    return ok();
}

Fault answered(int status, const std::string& code, HeaderList headers) {
    Fault fault{Fault::Kind::answered, 0, status, {}, std::move(headers)};
    if (!code.empty()) {
        fault.body = kXml + tag("Error", tag("Code", code) + tag("Message", "planned by the test"));
    }
    return fault;
}

class FakeExchange final : public HttpExchange {
public:
    FakeExchange(FakeS3& server, HttpRequest request, std::optional<Fault> fault)
        : server_(server), request_(std::move(request)), fault_(std::move(fault)) {}

    Result<void> write(std::string_view bytes) override {
        if (is(Fault::Kind::cut_upload) && !bytes.empty()) {
            return fail(Code::unavailable, "connection reset by peer");
        }
        body_ += bytes;
        return ok();
    }
    Result<HttpHead> head() override {
        if (is(Fault::Kind::silent)) {
            return fail(Code::timeout, "no response head came in time");
        }
        if (is(Fault::Kind::answered)) {
            reply_ = {fault_->status, fault_->headers, fault_->body};
        } else if (is(Fault::Kind::cut_upload)) {
            return fail(Code::unavailable, "connection reset by peer");
        } else {
            reply_ = server_.answer(request_, body_);
        }
        if (is(Fault::Kind::lost_answer)) {
            return fail(Code::unavailable, "connection reset by peer");
        }
        HttpHead head{reply_.status, reply_.headers};
        if (!server_.says_sizes) {
            std::erase_if(head.headers, [](const auto& h) { return h.first == "content-length"; });
        } else if (header_of(head.headers, "content-length").empty()) {
            head.headers.emplace_back("content-length", std::to_string(reply_.body.size()));
        }
        if (request_.method == "HEAD") {
            reply_.body.clear();
        }
        return head;
    }
    Result<std::size_t> read(std::span<char> into) override {
        const bool stops = is(Fault::Kind::cut_answer) || is(Fault::Kind::slow_answer);
        const std::size_t end =
            stops ? std::min(fault_->bytes, reply_.body.size()) : reply_.body.size();
        const std::size_t count = std::min(into.size(), end - used_);
        if (count == 0 && is(Fault::Kind::slow_answer)) {
            return fail(Code::timeout, "no data came in time");
        }
        if (count == 0 && is(Fault::Kind::cut_answer)) {
            return fail(Code::unavailable, "the connection ended before the answer");
        }
        std::memcpy(into.data(), reply_.body.data() + used_, count);
        used_ += count;
        return count;
    }

private:
    bool is(Fault::Kind kind) const { return fault_ && fault_->kind == kind; }
    FakeS3& server_;
    const HttpRequest request_;
    const std::optional<Fault> fault_;
    std::string body_;
    FakeS3::Reply reply_;
    std::size_t used_{0};
};

Result<std::unique_ptr<HttpExchange>> FakeS3::open(const HttpRequest& request, std::int64_t) {
    const std::string line = request.method + " " + path_and_query(request.url);
    requests.push_back(line);
    heads.push_back(request);
    auto fault = take_fault(line);
    if (fault && fault->kind == Fault::Kind::refused) {
        return fail(Code::unavailable, "connection refused");
    }
    return std::unique_ptr<HttpExchange>(
        std::make_unique<FakeExchange>(*this, request, std::move(fault)));
}

std::optional<Fault> FakeS3::take_fault(const std::string& line) {
    const auto found = std::find_if(faults_.begin(), faults_.end(), [&line](const auto& planned) {
        return line.find(planned.first) != std::string::npos;
    });
    if (found == faults_.end()) {
        return std::nullopt;
    }
    Fault fault = std::move(found->second);
    faults_.erase(found);
    return fault;
}

std::size_t FakeS3::count(std::string_view what) const {
    return static_cast<std::size_t>(
        std::count_if(requests.begin(), requests.end(), [what](const std::string& line) {
            return line.find(what) != std::string::npos;
        }));
}

std::string FakeS3::Asked::get(const std::string& name) const {
    const auto found = query.find(name);
    return found == query.end() ? "" : found->second;
}

std::string FakeS3::Asked::header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
}

FakeS3::Reply FakeS3::error(int status, const std::string& code) const {
    return {status,
            {{"date", http_date(pace_.now + clock_ahead)}},
            kXml + tag("Error", tag("Code", code) + tag("Message", "as S3 says it"))};
}

FakeS3::Reply FakeS3::answer(const HttpRequest& request, const std::string& body) {
    const std::string target = path_and_query(request.url);
    const std::size_t mark = std::min(target.find('?'), target.size());
    Asked asked;
    asked.method = request.method;
    asked.body = body;
    const std::string path = target.substr(0, mark);
    std::string_view rest = std::string_view(target).substr(std::min(mark + 1, target.size()));
    while (!rest.empty()) {
        const std::string_view pair = rest.substr(0, rest.find('&'));
        const std::size_t equals = pair.find('=');
        asked.query[*uri_decode(pair.substr(0, equals))] = *uri_decode(pair.substr(equals + 1));
        rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    }
    for (const auto& [name, value] : request.headers) {
        asked.headers[name] = value;
    }
    if (auto refused = refuse(request, asked)) {
        return *refused;
    }
    if (!path.starts_with("/bucket")) {
        return error(404, "NoSuchBucket");
    }
    asked.key = path.size() > 8 ? *uri_decode(path.substr(8)) : "";
    return asked.key.empty() ? bucket(asked) : object(asked);
}

std::optional<FakeS3::Reply> FakeS3::refuse(const HttpRequest& request, const Asked& asked) {
    const std::string target = path_and_query(request.url);
    Signing signing;
    signing.method = request.method;
    signing.path = target.substr(0, target.find('?'));
    for (const auto& [name, value] : asked.query) {
        signing.query.emplace_back(name, value);
    }
    for (const auto& [name, value] : request.headers) {
        if (name != "authorization") {
            signing.headers.emplace_back(name, value);
        }
    }
    const std::size_t host = request.url.find("://") + 3;
    signing.headers.emplace_back("host",
                                 request.url.substr(host, request.url.find('/', host) - host));
    signing.payload_sha256 = sha256_hex(digests_, asked.body).value();
    if (asked.header("x-amz-content-sha256") != signing.payload_sha256) {
        return error(400, "XAmzContentSHA256Mismatch");
    }
    const std::string date = asked.header("x-amz-date");
    const auto expected = authorization_of(digests_, keys, {date, region, "s3"}, signing);
    if (asked.header("authorization").find(keys.access_key + "/") == std::string::npos) {
        return error(403, "InvalidAccessKeyId");
    }
    if (asked.header("authorization") != expected.value()) {
        return error(403, "SignatureDoesNotMatch");
    }
    if (keys.session_token != asked.header("x-amz-security-token")) {
        return error(403, "InvalidToken");
    }
    if (std::chrono::abs(clock_ahead) > std::chrono::minutes(15)) {
        return error(403, "RequestTimeTooSkewed");
    }
    return std::nullopt;
}

}  // namespace capstan::steward::testing
