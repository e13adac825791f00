// The transport of the plugin: capstan.http/1 and capstan.clock/1 of the call it was made with.
#pragma once

#include "plugins/steward-bridge/store/transport.hpp"

#include "capstan/plugin.hpp"

namespace capstan::steward {

// Lives no longer than the call. Thread: the call's.
class HostTransport final : public Transport {
public:
    explicit HostTransport(Call& call) noexcept : call_(call) {}
    Result<std::unique_ptr<HttpExchange>> open(const HttpRequest& request,
                                               std::int64_t body_bytes) override;

private:
    Call& call_;
};

class HostPace final : public Pace {
public:
    explicit HostPace(Call& call) noexcept;
    WallTime wall_now() override { return call_.wall_now(); }
    Result<void> sleep(std::chrono::nanoseconds duration) override {
        return call_.sleep_until(call_.now() + duration);
    }
    double chance() override;

private:
    Call& call_;
    std::uint64_t state_;
};

}  // namespace capstan::steward
