// The parts of `capstan up` in one process: embedded API server on TLS, node, operator
// child. One owner, one loop.
//
// Everything is started in create() in this order and ended in reverse; a failure leaves nothing
// running that was not running before. Thread: [io], the main thread.
#pragma once

#include "capstan/error.hpp"
#include "runtime/cli/child.hpp"
#include "runtime/cli/local_client.hpp"
#include "runtime/cli/local_identity.hpp"
#include "runtime/cli/paths.hpp"
#include "runtime/cli/pod_tokens.hpp"
#include "runtime/local/apiserver/api_server.hpp"
#include "runtime/local/apiserver/authenticator.hpp"
#include "runtime/local/apiserver/http_binding.hpp"
#include "runtime/local/node/api_server_adapter.hpp"
#include "runtime/local/node/node.hpp"
#include "runtime/net/http_server.hpp"
#include "runtime/net/io_loop.hpp"
#include "runtime/obs/log.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace capstan::cli {

enum class ClusterParts : std::uint8_t {
    all,
    no_operator,  // to end what an earlier one left
    api_only,     // neither node nor operator
};

struct LocalClusterOptions {
    std::string dir;  // absolute
    std::uint16_t port{0};
    std::string config;    // operator configuration file, or empty
    std::string etcd_dir;  // or empty
    ClusterParts parts{ClusterParts::all};
    std::function<void(const std::string&)> notice;  // a line for people
};

class LocalCluster {
public:
    static Result<std::unique_ptr<LocalCluster>> create(net::IoLoop& loop,
                                                        const Paths& paths,
                                                        LocalClusterOptions options);
    ~LocalCluster();

    LocalClient& client() noexcept { return *client_; }
    // What the node still has to do, in words; nothing without a node.
    std::vector<std::string> awaited() const {
        return node_ ? node_->awaited() : std::vector<std::string>{};
    }
    const std::string& url() const noexcept { return url_; }
    std::string kubeconfig_path() const { return options_.dir + "/kubeconfig"; }
    const std::string& binary() const { return paths_.binary; }
    // That of the etcd in use; "etcdctl" when there is none beside it.
    std::string etcdctl() const;
    // The operator ended with a code that trying again does not change: 2
    // configuration, 3 plugin. [io]
    void on_operator_refused(std::function<void(int code)> refused) {
        operator_refused_ = std::move(refused);
    }
    // Operator first, then every container. `done` runs once.
    void stop(std::function<void()> done);

private:
    LocalCluster(net::IoLoop& loop, const Paths& paths, LocalClusterOptions options);
    Result<void> open_directory();
    Result<void> start_server();
    Result<void> install_crds();
    Result<void> start_node();
    Result<void> start_operator();
    Result<std::string> write_operator_config();

    net::IoLoop& loop_;
    const Paths paths_;
    const LocalClusterOptions options_;
    LocalIdentity identity_;
    std::string url_, etcd_dir_;
    int log_fd_{-1};
    obs::Log log_;
    std::unique_ptr<PodTokens> tokens_;
    std::unique_ptr<local::ApiServer> server_;
    std::unique_ptr<LocalClient> client_;
    local::Authenticator authenticator_;
    std::unique_ptr<local::HttpBinding> binding_;
    std::unique_ptr<net::HttpServer> http_;
    std::unique_ptr<local::NodeApi> node_api_;
    std::unique_ptr<local::Node> node_;
    std::function<void(int)> operator_refused_;
    std::unique_ptr<Child> operator_;
};

}  // namespace capstan::cli
