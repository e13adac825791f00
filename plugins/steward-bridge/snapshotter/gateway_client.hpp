// etcd through its JSON gateway, with the host's HTTP: one call, one thread.
#pragma once

#include "plugins/steward-bridge/snapshotter/config.hpp"
#include "plugins/steward-bridge/snapshotter/etcd_client.hpp"
#include "plugins/steward-bridge/snapshotter/snapshotter.hpp"

#include "capstan/plugin.hpp"

#include <string>
#include <string_view>

namespace capstan::steward {

class GatewayClient final : public EtcdClient {
public:
    // Lives no longer than the call. `config`: timeouts and credentials.
    GatewayClient(Call& call, EtcdAccess etcd, const SnapshotterConfig& config);

    Result<EtcdHead> head(bool linearizable) override;
    Result<EtcdSnapshot> snapshot() override;
    Result<std::unique_ptr<WatchStream>> watch(std::int64_t start) override;
    Result<std::optional<std::int64_t>> lease_ttl(std::int64_t id) override;

private:
    HttpRequest request(std::string_view path, std::string body) const;
    Result<json::Value> post(std::string_view path, const json::Value& body);
    // A stream whose answer has begun with 200.
    Result<HttpStream> open(std::string_view path, const std::string& body);
    Result<void> authenticate();

    Call& call_;
    const EtcdAccess etcd_;
    const std::chrono::milliseconds timeout_;
    const std::string username_, password_;
    std::string token_;
};

}  // namespace capstan::steward
