#include "plugins/steward-bridge/store/host_transport.hpp"

#include <algorithm>
#include <cstring>

namespace capstan::steward {
namespace {

class HostExchange final : public HttpExchange {
public:
    HostExchange(Call& call, HttpStream stream, std::chrono::milliseconds timeout)
        : call_(call), stream_(std::move(stream)), timeout_(timeout) {}

    Result<void> write(std::string_view bytes) override {
        return bytes.empty() ? Result<void>(ok()) : stream_.write(bytes);
    }
    Result<HttpHead> head() override {
        json::Value headers;
        HttpHead head;
        CAPSTAN_TRY(head.status, stream_.head(&headers));
        for (const json::Member& member : json::View(headers).object()) {
            if (const std::string* value = member.value.if_string()) {
                head.headers.emplace_back(member.key, *value);
            }
        }
        return head;
    }
    Result<std::size_t> read(std::span<char> into) override {
        if (used_ == kept_.size()) {
            kept_.clear();
            used_ = 0;
            CAPSTAN_TRY(stream_.read(kept_, call_.now() + timeout_));
        }
        const std::size_t count = std::min(into.size(), kept_.size() - used_);
        std::memcpy(into.data(), kept_.data() + used_, count);
        used_ += count;
        return count;
    }

private:
    Call& call_;
    HttpStream stream_;
    const std::chrono::milliseconds timeout_;
    std::string kept_;
    std::size_t used_{0};
};

}  // namespace

Result<std::unique_ptr<HttpExchange>> HostTransport::open(const HttpRequest& request,
                                                          std::int64_t body_bytes) {
    CAPSTAN_TRY(HttpStream stream, call_.http().open(request, body_bytes));
    return std::unique_ptr<HttpExchange>(
        std::make_unique<HostExchange>(call_, std::move(stream), request.timeout));
}

HostPace::HostPace(Call& call) noexcept
    : call_(call),
      state_(static_cast<std::uint64_t>(call.now().count()) ^
             static_cast<std::uint64_t>(call.wall_now().time_since_epoch().count())) {}

// SplitMix64: jitter needs no more.
double HostPace::chance() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
    return static_cast<double>((mixed ^ mixed >> 31) >> 11) / 9007199254740992.0;  // 2^53
}

}  // namespace capstan::steward
