// The node of local mode: StatefulSet, Job and volume claim controllers, and Pods as
// processes of this machine.
//
// No privileges and no mounts: each pod has a loopback address of its own, its volumes are
// directories, and mount paths in command, arguments and environment are replaced by them; the rest
// is in the file that CAPSTAN_POD_MAP names (docs/local.md). Containers outlive this process: the
// next Node on the same directory adopts them. Owner: the composition root. Thread: all [io].
#pragma once

#include "capstan/error.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/local/node/images.hpp"
#include "runtime/local/node/node_api.hpp"
#include "runtime/net/http.hpp"
#include "runtime/net/loop.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

inline constexpr std::size_t kPodsMax = 200;  // workers of one node
// of one log file; then copied aside and cut
inline constexpr std::size_t kLogBytesMax = 64u * 1024 * 1024;
// doubles; the kubelet starts at 10 s
inline constexpr std::chrono::seconds kRestartDelayFirst{1};
inline constexpr std::chrono::seconds kRestartDelayMax{30};    // the kubelet: 300 s
inline constexpr std::chrono::minutes kRestartDelayReset{10};  // of running; as the kubelet

struct TokenRequest {
    std::string ns;
    std::string service_account;
    std::string pod_name;
    std::string pod_uid;
};
// A bearer token bound to the pod; asked again when a pod (re)starts on this node, and
// may return the same one.
using TokenIssuer = std::function<Result<std::string>(const TokenRequest&)>;
using HttpClientFactory =
    std::function<Result<std::unique_ptr<net::HttpClient>>(net::HttpClientOptions)>;

enum class NodeLogLevel : std::uint8_t { debug, info, warn, error };
// `pod` is "ns/name" or empty.
using NodeLog = std::function<void(
    NodeLogLevel level, std::string_view message, std::string_view pod, std::string_view detail)>;

struct NodeOptions {
    std::string dir;                       // absolute: ".capstan"; made 0700 when missing
    std::string name{"local"};             // spec.nodeName of pods
    std::string address_prefix{"127.77"};  // pods get <prefix>.0.2 and up; a /16 inside 127.0.0.0/8
    ImageOptions images;
    std::string api_url;  // "https://127.0.0.1:6443"
    std::string api_ca_pem;
    TokenIssuer issue_token;  // empty: no token files
    // What the stewards of all pods accept; empty: each only its own.
    std::string steward_token_file;
    HttpClientFactory http_client;  // for httpGet probes; empty: such probes fail
    NodeLog log;                    // empty: silent
};

struct LogOptions {
    std::string container;  // empty: the only one, or the first
    bool previous{false};
    std::optional<std::int64_t> tail_lines;
    std::optional<std::int64_t> limit_bytes;
};

class LogFollow {  // ends when destroyed
public:
    virtual ~LogFollow() = default;
};

class Node {
public:
    // Locks the directory. Errors: conflict (another node holds it; names its pid), unavailable
    // (directory cannot be made or written: names it and the remedy), invalid (options).
    static Result<std::unique_ptr<Node>> create(net::Loop& loop, NodeApi& api, NodeOptions options);
    virtual ~Node() = default;  // containers go on running: the same as a crash, without the crash

    // Adopts what still runs, stops what no longer has a pod, then follows the API.
    virtual void start() = 0;
    // Stops every container (SIGTERM, grace, SIGKILL) and starts nothing new; API objects
    // stay. `done` runs once.
    virtual void stop_all(std::function<void()> done) = 0;

    // GET pods/log. Errors: not_found (pod, container or log), invalid (several
    // containers and none named).
    virtual Result<std::string> read_log(const ObjectKey& pod, const LogOptions& options) = 0;
    // The same, then what is appended, until the container has ended and everything was given.
    virtual Result<std::unique_ptr<LogFollow>> follow_log(
        const ObjectKey& pod,
        const LogOptions& options,
        std::function<void(std::string_view)> on_data,
        std::function<void()> on_end) = 0;
    // One line per pod that is not Ready, with what it waits for: "main-0: etcd: back-off
    // 4s after exit code 1".
    virtual std::vector<std::string> awaited() const = 0;
};

}  // namespace capstan::local
