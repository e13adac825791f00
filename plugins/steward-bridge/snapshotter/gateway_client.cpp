#include "plugins/steward-bridge/snapshotter/gateway_client.hpp"

#include "plugins/steward-bridge/etcd_gateway.hpp"
#include "plugins/steward-bridge/snapshotter/gateway_json.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace capstan::steward {
namespace {

constexpr std::size_t kErrorBytesMax = 4096;
constexpr std::size_t kDecodedBytes = 256 * 1024;  // reserved once for a snapshot's pieces

// The lines of a stream.
class Lines {
public:
    Lines(Call& call, HttpStream stream) : call_(call), stream_(std::move(stream)) {}

    // The next line, valid until the next call. nullopt: none was complete at `until`. Errors:
    // unavailable also when the stream ended.
    Result<std::optional<std::string_view>> next(MonotonicTime until) {
        buffer_.erase(0, used_);
        used_ = 0;
        std::size_t searched = 0;
        while (true) {
            const std::size_t end = buffer_.find('\n', searched);
            if (end != std::string::npos) {
                used_ = end + 1;
                return std::optional(std::string_view(buffer_).substr(0, end));
            }
            searched = buffer_.size();
            if (buffer_.size() > kGatewayLineBytesMax) {
                return fail(Code::too_large,
                            "a line of etcd's answer is longer than " +
                                std::to_string(kGatewayLineBytesMax) + " bytes");
            }
            const auto read = stream_.read(buffer_, until);
            if (!read) {
                if (read.error().code == Code::timeout) {
                    return std::optional<std::string_view>();
                }
                return fail(read.error());
            }
            if (read.value() == 0) {
                ended_ = true;
                return fail(Code::unavailable, "etcd ended the stream");
            }
        }
    }
    // The stream ended, and between two lines.
    bool ended_well() const { return ended_ && buffer_.empty(); }
    MonotonicTime now() const { return call_.now(); }

private:
    Call& call_;
    HttpStream stream_;
    std::string buffer_;
    std::size_t used_{0};
    bool ended_{false};
};

class GatewayWatch final : public WatchStream {
public:
    GatewayWatch(Lines lines, std::string& token) : lines_(std::move(lines)), token_(token) {}
    Result<bool> next(WatchMessage& message, MonotonicTime until) override {
        auto got = read(message, until);
        if (!got) {
            // An answer of 200 may say that the token is no good any more, in many words.
            token_.clear();
        }
        return got;
    }

private:
    Result<bool> read(WatchMessage& message, MonotonicTime until) {
        CAPSTAN_TRY(const std::optional<std::string_view> line, lines_.next(until));
        if (!line) {
            return false;
        }
        CAPSTAN_TRY(message, parse_watch_line(*line));
        return true;
    }

    Lines lines_;
    std::string& token_;  // of the client, which outlives it
};

class GatewaySnapshot final : public Source {
public:
    GatewaySnapshot(Lines lines, std::chrono::milliseconds patience)
        : lines_(std::move(lines)), patience_(patience) {
        decoded_.reserve(kDecodedBytes);
    }
    // The first piece; bytes of the whole.
    Result<std::uint64_t> begin() {
        CAPSTAN_TRY(fill());
        return decoded_.size() + remaining_;
    }
    Result<std::size_t> read(std::span<std::uint8_t> into) override {
        if (at_ == decoded_.size()) {
            CAPSTAN_TRY(fill());
        }
        const std::size_t count = std::min(into.size(), decoded_.size() - at_);
        std::memcpy(into.data(), decoded_.data() + at_, count);
        at_ += count;
        return count;
    }

private:
    Result<void> fill() {
        decoded_.clear();
        at_ = 0;
        while (decoded_.empty() && !ended_) {
            const auto line = lines_.next(lines_.now() + patience_);
            if (!line && lines_.ended_well()) {
                ended_ = true;
                return ok();
            }
            CAPSTAN_TRY(const std::optional<std::string_view> text, line);
            if (!text) {
                return fail(Code::timeout, "etcd sends no more of its snapshot");
            }
            CAPSTAN_TRY(read_snapshot_line(*text, decoded_, remaining_));
        }
        return ok();
    }

    Lines lines_;
    const std::chrono::milliseconds patience_;
    std::string decoded_;
    std::size_t at_{0};
    std::uint64_t remaining_{0};
    bool ended_{false};
};

std::chrono::milliseconds to_milliseconds(std::chrono::nanoseconds span) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(span);
}

Error refused(std::string_view path, int status, const std::string& body) {
    const auto parsed = json::parse(body);
    Error error{Code::unavailable, "HTTP " + std::to_string(status), {}};
    if (parsed && json::View(parsed.value())["message"].present()) {
        error = gateway_error(json::View(parsed.value()));
    } else if (status == 404) {
        error = {
            Code::unsupported,
            "etcd has no JSON gateway here; set enable-grpc-gateway: true in its configuration",
            {}};
    } else if (status == 401 || status == 403) {
        error.code = Code::forbidden;
    }
    return with_context(std::move(error), path);
}

}  // namespace

GatewayClient::GatewayClient(Call& call, EtcdAccess etcd, const SnapshotterConfig& config)
    : call_(call),
      etcd_(std::move(etcd)),
      timeout_(to_milliseconds(config.connection_timeout)),
      username_(config.username),
      password_(config.password) {}

HttpRequest GatewayClient::request(std::string_view path, std::string body) const {
    HttpRequest request;
    request.method = "POST";
    request.url = etcd_.endpoint + std::string(path);
    request.headers = {{"content-type", "application/json"}};
    if (!token_.empty()) {
        request.headers.emplace_back("authorization", token_);
    }
    request.body = std::move(body);
    request.timeout = timeout_;
    request.tls = etcd_.tls;
    return request;
}

// The token of a name and password; etcd forgets it after a while without use.
Result<void> GatewayClient::authenticate() {
    token_.clear();
    const json::Value who = {{"name", username_}, {"password", password_}};
    constexpr std::string_view kPath = "/v3/auth/authenticate";
    CAPSTAN_TRY(const HttpResponse answer, call_.http().send(request(kPath, json::dump(who))));
    if (answer.status != 200) {
        return fail(refused(kPath, answer.status, answer.body));
    }
    CAPSTAN_TRY(const json::Value parsed, json::parse(answer.body));
    CAPSTAN_TRY(token_, json::View(parsed)["token"].as_string());
    return ok();
}

Result<json::Value> GatewayClient::post(std::string_view path, const json::Value& body) {
    for (bool again = false;; again = true) {
        if (!username_.empty() && token_.empty()) {
            CAPSTAN_TRY(authenticate());
        }
        CAPSTAN_TRY(const HttpResponse answer, call_.http().send(request(path, json::dump(body))));
        if (answer.status == 200) {
            return json::parse(answer.body);
        }
        Error error = refused(path, answer.status, answer.body);
        if (again || username_.empty() || error.code != Code::forbidden) {
            return fail(std::move(error));
        }
        token_.clear();
    }
}

Result<HttpStream> GatewayClient::open(std::string_view path, const std::string& body) {
    if (!username_.empty() && token_.empty()) {
        CAPSTAN_TRY(authenticate());
    }
    CAPSTAN_TRY(HttpStream stream,
                call_.http().open(request(path, {}), static_cast<std::int64_t>(body.size())));
    CAPSTAN_TRY(stream.write(body));
    CAPSTAN_TRY(const int status, stream.head());
    if (status == 200) {
        return stream;
    }
    std::string text;
    while (text.size() < kErrorBytesMax) {
        const auto read = stream.read(text, call_.now() + timeout_);
        if (!read || read.value() == 0) {
            break;
        }
    }
    token_.clear();
    return fail(refused(path, status, text));
}

Result<EtcdHead> GatewayClient::head(bool linearizable) {
    // One key that nobody has: only the header counts. A linearizable read waits until the member
    // has applied what the cluster has.
    const json::Value range = {{"key", "AA=="}, {"serializable", !linearizable}};
    CAPSTAN_TRY(const json::Value answer, post("/v3/kv/range", range));
    EtcdHead head;
    CAPSTAN_TRY(head.revision, read_int64(json::View(answer)["header"]["revision"]));
    if (head.revision <= 0) {
        return fail(Code::invalid, "etcd's answer carries no revision");
    }
    CAPSTAN_TRY(const json::Value state, post("/v3/maintenance/status", json::object()));
    CAPSTAN_TRY(const EtcdStatus status, parse_status(state));
    head.leads = status.leader;
    return head;
}

Result<EtcdSnapshot> GatewayClient::snapshot() {
    CAPSTAN_TRY(HttpStream stream, open("/v3/maintenance/snapshot", "{}"));
    auto source = std::make_unique<GatewaySnapshot>(Lines(call_, std::move(stream)), timeout_);
    CAPSTAN_TRY(const std::uint64_t bytes, source->begin());
    return EtcdSnapshot{std::move(source), bytes};
}

Result<std::unique_ptr<WatchStream>> GatewayClient::watch(std::int64_t start) {
    const json::Value create = {
        {"create_request",
         {{"key", "AA=="},
          {"range_end", "AA=="},
          {"start_revision", std::to_string(start)},
          {"progress_notify", true},
          {"fragment", true}}},
    };
    CAPSTAN_TRY(HttpStream stream, open("/v3/watch", json::dump(create)));
    return std::unique_ptr<WatchStream>(
        std::make_unique<GatewayWatch>(Lines(call_, std::move(stream)), token_));
}

Result<std::optional<std::int64_t>> GatewayClient::lease_ttl(std::int64_t id) {
    const auto answer = post("/v3/lease/timetolive", {{"ID", std::to_string(id)}});
    if (!answer) {
        const bool gone = answer.error().message.find("lease not found") != std::string::npos;
        return gone ? Result<std::optional<std::int64_t>>(std::optional<std::int64_t>())
                    : Result<std::optional<std::int64_t>>(fail(answer.error()));
    }
    const json::View view(answer.value());
    CAPSTAN_TRY(const std::int64_t ttl, read_int64(view["TTL"]));
    CAPSTAN_TRY(const std::int64_t granted, read_int64(view["grantedTTL"]));
    return ttl < 0 || granted <= 0 ? std::optional<std::int64_t>() : std::optional(granted);
}

}  // namespace capstan::steward
