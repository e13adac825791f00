// Asks one running container whether it is started, ready and alive.
//
// httpGet through net::HttpClient (TLS unverified, as the kubelet), tcpSocket by a connect, exec as
// a process. When to ask and what an answer means is ProbeFsm's. Owner: PodWorker, one per start of
// a container; destroying it ends what is under way. Thread: [io].
#pragma once

#include "capstan/json.hpp"
#include "runtime/local/node/node.hpp"
#include "runtime/local/node/probe_fsm.hpp"
#include "runtime/local/node/process_watcher.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace capstan::local {

struct ProberContext {
    net::Loop& loop;
    ProcessWatcher& watcher;
    const HttpClientFactory& http_client;
    std::string address;  // of the pod
    // a command in the container
    std::function<Result<SpawnRequest>(const std::vector<std::string>&)> exec;
    // later, when an answer below changed
    std::function<void()> on_change;
};

class Prober {
public:
    // `container`: its spec. `started`: when its process started; an adopted one is asked at once.
    Prober(ProberContext context, const json::Value& container, MonotonicTime started);
    ~Prober();
    Prober(const Prober&) = delete;
    Prober& operator=(const Prober&) = delete;

    bool started() const noexcept;  // startup probe passed, or there is none
    bool ready() const noexcept;    // started, and the readiness probe passes or there is none
    // Why the container has to be restarted: "liveness probe failed: …"; empty: it has not.
    std::string fatal() const;
    std::string last_failure() const;  // of the readiness or startup probe, for people

private:
    struct Probe;
    void schedule();
    void run(Probe& probe);
    void run_http(Probe& probe, const json::View& spec);
    void run_exec(Probe& probe, const json::View& spec);
    void answer(Probe& probe, bool success, std::string detail);
    std::optional<std::uint16_t> port_of(const json::View& port) const;

    ProberContext context_;
    const json::Value container_;
    std::vector<std::unique_ptr<Probe>> probes_;
    std::unique_ptr<net::Timer> timer_;
};

}  // namespace capstan::local
