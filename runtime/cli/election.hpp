// Leader election of `capstan run`: the lease, its own connection, the fence. Internal to
// runtime/cli. Thread: main.
#pragma once

#include "runtime/config/operator_config.hpp"
#include "runtime/kube/connection.hpp"
#include "runtime/lease/elector.hpp"
#include "runtime/net/io_loop.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace capstan::cli {

// Borrowed; outlive the Election.
struct ElectionParts {
    net::IoLoop& loop;
    kube::ClientObserver* observer;
    obs::Log log;
    obs::Metrics& metrics;
    obs::Health& health;
    std::function<std::uint64_t()> random;
};

class Election {
    struct Private {};  // create() only

public:
    Election(Private, ElectionParts parts, lease::LeaderOptions options);
    // Errors: invalid (as make_http_client).
    static Result<std::unique_ptr<Election>> create(ElectionParts parts,
                                                    const kube::ConnectionConfig& connection,
                                                    const config::LeaderElectionConfig& config);
    Election(const Election&) = delete;
    Election& operator=(const Election&) = delete;

    // The gate of every client but the election's own.
    kube::WriteGate& gate() noexcept { return fence_; }
    void start(lease::ElectorHandler handler);
    // Requires: started, and all that may write has ended. Blocks, running the loop.
    Result<void> release();
    void close() noexcept { api_->close(); }  // as Connection::close

private:
    ElectionParts parts_;
    const lease::LeaderOptions options_;
    lease::Fence fence_;
    std::unique_ptr<kube::Connection> api_;
    std::unique_ptr<lease::Elector> elector_;
};

// `<identity, or the name of this host>_<uuid>`: two processes never share one, not even those of
// one configuration.
std::string make_identity(const std::string& configured,
                          const std::function<std::uint64_t()>& random);

}  // namespace capstan::cli
