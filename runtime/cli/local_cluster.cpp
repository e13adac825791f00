#include "runtime/cli/local_cluster.hpp"

#include "runtime/cli/plugins.hpp"
#include "runtime/cli/pod_log.hpp"
#include "runtime/cli/rbac.hpp"
#include "runtime/config/yaml.hpp"
#include "runtime/local/node/files.hpp"
#include "runtime/net/http_client.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace capstan::cli {
namespace {

constexpr const char* kOperatorUser = "capstan-operator";
constexpr std::size_t kLogLineMax = 8192;

std::uint16_t remembered_port(const std::string& dir) {
    const auto text = local::read_file(dir + "/port");
    unsigned port = 0;
    if (text) {
        std::from_chars(text.value().data(), text.value().data() + text.value().size(), port);
    }
    return port <= 65535 ? static_cast<std::uint16_t>(port) : std::uint16_t{0};
}

obs::Level level_of(local::NodeLogLevel level) {
    switch (level) {
        case local::NodeLogLevel::debug: return obs::Level::debug;
        case local::NodeLogLevel::info: return obs::Level::info;
        case local::NodeLogLevel::warn: return obs::Level::warn;
        case local::NodeLogLevel::error: return obs::Level::error;
    }
    return obs::Level::info;
}

local::User user_of(const PodIdentity& pod) {
    return {"system:serviceaccount:" + pod.ns + ":" + pod.service_account,
            {"system:serviceaccounts",
             "system:serviceaccounts:" + pod.ns,
             std::string(local::kGroupAuthenticated)}};
}

}  // namespace

LocalCluster::LocalCluster(net::IoLoop& loop, const Paths& paths, LocalClusterOptions options)
    : loop_(loop), paths_(paths), options_(std::move(options)) {}

LocalCluster::~LocalCluster() {
    operator_.reset();
    http_.reset();
    binding_.reset();
    node_.reset();
    if (log_fd_ >= 0) {
        ::close(log_fd_);
    }
}

Result<std::unique_ptr<LocalCluster>> LocalCluster::create(net::IoLoop& loop,
                                                           const Paths& paths,
                                                           LocalClusterOptions options) {
    // tidy: allow new, private constructor
    std::unique_ptr<LocalCluster> cluster(new LocalCluster(loop, paths, std::move(options)));
    CAPSTAN_TRY(cluster->open_directory());
    CAPSTAN_TRY(cluster->start_server());
    CAPSTAN_TRY(cluster->install_crds());
    if (cluster->options_.parts != ClusterParts::api_only) {
        CAPSTAN_TRY(cluster->start_node());
    }
    if (cluster->options_.parts == ClusterParts::all) {
        CAPSTAN_TRY(cluster->start_operator());
    }
    return cluster;
}

Result<void> LocalCluster::open_directory() {
    CAPSTAN_TRY(local::make_dirs(options_.dir));
    auto etcd_dir = find_etcd_dir(options_.dir, options_.etcd_dir);
    if (etcd_dir) {
        etcd_dir_ = std::move(etcd_dir).value();
    } else if (options_.parts == ClusterParts::all) {  // the others start no etcd
        const bool named = !options_.etcd_dir.empty() || std::getenv("CAPSTAN_ETCD_DIR") != nullptr;
        if (named || options_.config.empty()) {  // without a configuration our plugins run
            return fail(etcd_dir.error());
        }
        options_.notice("note: " + etcd_dir.error().message + "; pods with etcd will not start");
    }
    CAPSTAN_TRY(identity_, LocalIdentity::load_or_create(options_.dir, loop_.wall_now()));
    tokens_ = std::make_unique<PodTokens>(identity_.token_key);
    const std::string path = options_.dir + "/capstan.log";
    log_fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd_ < 0) {
        return fail(local::file_error("open", path, errno));
    }
    log_ = obs::Log(loop_, [fd = log_fd_](std::string_view line) {
        std::string text(line.substr(0, kLogLineMax));
        text += '\n';
        // A full disk costs the line, nothing else.
        static_cast<void>(!::write(fd, text.data(), text.size()));
    });
    return ok();
}

Result<void> LocalCluster::start_server() {
    local::ApiServerOptions options;
    options.data_dir = options_.dir + "/state";
    options.seed = static_cast<std::uint64_t>(loop_.wall_now().time_since_epoch().count());
    options.on_notice = options_.notice;
    options.service_account_token =
        [this](const std::string& ns, const std::string& name, WallTime from, WallTime to) {
            return tokens_->issue({ns, name, {}, {}}, from, to);
        };
    CAPSTAN_TRY(server_, local::ApiServer::create(loop_, std::move(options)));
    client_ = std::make_unique<LocalClient>(*server_);
    authenticator_.set_verifier([this](std::string_view token) -> std::optional<local::User> {
        const auto pod = tokens_->verify(token, loop_.wall_now());
        return pod ? std::optional(user_of(*pod)) : std::nullopt;
    });
    local::HttpBindingOptions binding;
    binding.pod_log = [this](const local::PodLogRequest& request,
                             std::shared_ptr<net::ServerExchange> exchange) {
        serve_pod_log(node_.get(), request, std::move(exchange));
    };
    binding_ =
        std::make_unique<local::HttpBinding>(loop_, *server_, authenticator_, std::move(binding));
    net::HttpServerOptions http;
    http.port = options_.port != 0 ? options_.port : remembered_port(options_.dir);
    http.certificate_pem = identity_.server.certificate_pem;
    http.key_pem = identity_.server.key_pem;
    http.client_ca_pem = identity_.ca_pem;
    http.client_auth = net::ClientAuth::request;
    CAPSTAN_TRY(http_, net::make_http_server(loop_, std::move(http), binding_->handler()));
    url_ = "https://127.0.0.1:" + std::to_string(http_->port());
    CAPSTAN_TRY(
        local::write_file(options_.dir + "/port", std::to_string(http_->port()) + "\n", 0600));
    CAPSTAN_TRY(
        local::write_file(kubeconfig_path(),
                          make_kubeconfig(url_, identity_.ca_pem, identity_.admin, "capstan-admin"),
                          0600));
    return ok();
}

Result<void> LocalCluster::install_crds() {
    CAPSTAN_TRY(cli::install_crds(*client_, paths_.data_dir));
    server_->tick();
    return ok();
}

Result<void> LocalCluster::start_node() {
    local::NodeOptions options;
    options.dir = options_.dir;
    options.images.capstan_binary = paths_.binary;
    options.images.launcher_binary = paths_.launcher;
    options.images.etcd_dir = etcd_dir_;
    options.images.capstan_paths = {{"/etc/capstan", paths_.data_dir + "/etc"}};
    options.api_url = url_;
    options.api_ca_pem = identity_.ca_pem;
    options.issue_token = [this](const local::TokenRequest& request) -> Result<std::string> {
        return tokens_->issue(
            {request.ns, request.service_account, request.pod_name, request.pod_uid},
            loop_.wall_now());
    };
    options.steward_token_file = identity_.steward_token_file;
    options.http_client = [this](net::HttpClientOptions http) {
        return net::make_http_client(loop_, std::move(http));
    };
    options.log = [this](local::NodeLogLevel level,
                         std::string_view message,
                         std::string_view pod,
                         std::string_view detail) {
        log_.write(level_of(level), message, {{"pod", pod}, {"detail", detail}});
    };
    node_api_ = local::make_node_api(loop_, *server_);
    CAPSTAN_TRY(node_, local::Node::create(loop_, *node_api_, std::move(options)));
    node_->start();
    return ok();
}

Result<std::string> LocalCluster::write_operator_config() {
    if (!options_.config.empty()) {
        return absolute_path(options_.config);
    }
    const json::Value config = {
        {"apiVersion", "config.capstan.dev/v1alpha1"},
        {"kind", "OperatorConfig"},
        {"plugins",
         {
             {"etcd", {{"featureGates", {{"EtcdMember", true}}}}},
             {"custodian", json::object()},
         }},
        {"listeners", {{"ops", {{"address", "127.0.0.1"}, {"port", 0}}}}},
    };
    const std::string path = options_.dir + "/operator.yaml";
    CAPSTAN_TRY(local::write_file(path, config::to_yaml(config), 0600));
    return path;
}

std::string LocalCluster::etcdctl() const {
    const std::string beside = etcd_dir_ + "/etcdctl";
    return !etcd_dir_.empty() && ::access(beside.c_str(), X_OK) == 0 ? beside : "etcdctl";
}

Result<void> LocalCluster::start_operator() {
    CAPSTAN_TRY(const std::string config, write_operator_config());
    // What it may do: what the plugins that come with it ask for, and those of the configuration.
    std::vector<std::string> files = files_in(paths_.plugin_dir, ".so");
    CAPSTAN_TRY(const auto configured, config::load_operator_config(config));
    // Looked for as the operator below does, so that the rights are those of the files it loads.
    const auto directories = plugin_directories({paths_.plugin_dir}, configured);
    std::vector<std::string> missing;  // the operator says so
    for (const ChosenPlugin& chosen : choose_plugins(configured, directories, missing)) {
        files.push_back(chosen.path);
    }
    std::sort(files.begin(), files.end());
    files.erase(std::unique(files.begin(), files.end()), files.end());
    CAPSTAN_TRY(auto manifests, manifests_of(files));
    for (plugin::Manifest& manifest : manifests) {
        manifest = under_policy(std::move(manifest), configured);
    }
    CAPSTAN_TRY(client_->apply(cluster_role(kOperatorUser, manifests)));
    CAPSTAN_TRY(client_->apply(cluster_role_binding(kOperatorUser, kOperatorUser)));
    const std::string kubeconfig = options_.dir + "/operator.kubeconfig";
    CAPSTAN_TRY(local::write_file(
        kubeconfig,
        make_kubeconfig(url_, identity_.ca_pem, identity_.operator_, kOperatorUser),
        0600));
    operator_ = std::make_unique<Child>(
        loop_,
        std::vector<std::string>{paths_.binary,
                                 "run",
                                 "--config",
                                 config,
                                 "--kubeconfig",
                                 kubeconfig,
                                 "--plugin-dir",
                                 paths_.plugin_dir},
        options_.dir + "/operator.log",
        [this](int code) {
            if ((code == 2 || code == 3) && operator_refused_) {
                operator_refused_(code);
                return;
            }
            options_.notice("the operator ended with code " + std::to_string(code) +
                            "; its log is " + options_.dir + "/operator.log; starting it again");
        });
    return operator_->start();
}

void LocalCluster::stop(std::function<void()> done) {
    const auto stop_node = [this, done = std::move(done)] {
        if (node_) {
            node_->stop_all(done);
        } else {
            done();
        }
    };
    if (operator_) {
        operator_->stop(stop_node);
    } else {
        stop_node();
    }
}

}  // namespace capstan::cli
