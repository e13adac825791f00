#include "runtime/local/node/prober.hpp"

#include "runtime/local/node/environment.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace capstan::local {
namespace {

// On loopback a connect is answered at once; whatever would have to wait counts as a failure.
std::string try_connect(const std::string& address, std::uint16_t port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in peer{};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(port);
    ::inet_pton(AF_INET, address.c_str(), &peer.sin_addr);
    sockaddr generic{};
    static_assert(sizeof generic == sizeof peer);
    std::memcpy(&generic, &peer, sizeof peer);
    const int result = fd < 0 ? -1 : ::connect(fd, &generic, sizeof generic);
    const int error = errno;
    if (fd >= 0) {
        ::close(fd);
    }
    return result == 0 ? std::string() : std::string(std::strerror(error));
}

std::string_view name_of(ProbeKind kind) {
    switch (kind) {
        case ProbeKind::startup: return "startup";
        case ProbeKind::readiness: return "readiness";
        case ProbeKind::liveness: return "liveness";
    }
    return "?";
}

}  // namespace

struct Prober::Probe {
    Probe(ProbeKind probe_kind, const json::Value& probe_spec, MonotonicTime started)
        : kind(probe_kind),
          spec(probe_spec),
          times(probe_spec_from(json::View(probe_spec))),
          fsm(probe_kind, times, started) {}

    const ProbeKind kind;
    const json::Value& spec;
    const ProbeSpec times;
    ProbeFsm fsm;
    bool busy{false};
    std::string failure;
    std::unique_ptr<net::HttpClient> client;
    std::unique_ptr<net::HttpExchange> exchange;
    std::unique_ptr<WatchedProcess> process;
    std::unique_ptr<net::Timer> timeout;
};

Prober::Prober(ProberContext context, const json::Value& container, MonotonicTime started)
    : context_(std::move(context)), container_(container) {
    const std::pair<const char*, ProbeKind> kinds[] = {{"startupProbe", ProbeKind::startup},
                                                       {"readinessProbe", ProbeKind::readiness},
                                                       {"livenessProbe", ProbeKind::liveness}};
    for (const auto& [field, kind] : kinds) {
        const auto* spec = container_.find(field);
        if (spec != nullptr && spec->is_object()) {
            probes_.push_back(std::make_unique<Probe>(kind, *spec, started));
        }
    }
    schedule();
}

Prober::~Prober() {
    for (const auto& probe : probes_) {
        if (probe->process) {
            probe->process->signal(SIGKILL);
        }
    }
}

bool Prober::started() const noexcept {
    return std::all_of(probes_.begin(), probes_.end(), [](const auto& probe) {
        return probe->kind != ProbeKind::startup || probe->fsm.passed();
    });
}

bool Prober::ready() const noexcept {
    return std::all_of(probes_.begin(), probes_.end(), [](const auto& probe) {
        return probe->kind == ProbeKind::liveness || probe->fsm.passed();
    });
}

std::string Prober::fatal() const {
    for (const auto& probe : probes_) {
        if (probe->fsm.fatal()) {
            return std::string(name_of(probe->kind)) + " probe failed: " + probe->failure;
        }
    }
    return {};
}

std::string Prober::last_failure() const {
    for (const auto& probe : probes_) {
        if (probe->kind != ProbeKind::liveness && !probe->fsm.passed() && !probe->failure.empty()) {
            return std::string(name_of(probe->kind)) + " probe: " + probe->failure;
        }
    }
    return {};
}

void Prober::schedule() {
    MonotonicTime due = kNever;
    for (const auto& probe : probes_) {
        const bool held = probe->busy || (probe->kind != ProbeKind::startup && !started());
        if (!held) {
            due = std::min(due, probe->fsm.next_due());
        }
    }
    timer_.reset();
    if (due == kNever) {
        return;
    }
    timer_ = context_.loop.at(due, [this] {
        for (const auto& probe : probes_) {
            const bool held = probe->busy || (probe->kind != ProbeKind::startup && !started());
            if (!held && probe->fsm.next_due() <= context_.loop.now()) {
                run(*probe);
            }
        }
        schedule();
    });
}

std::optional<std::uint16_t> Prober::port_of(const json::View& port) const {
    auto number = port.int_or(0);
    if (const auto name = port.string_or(""); !name.empty()) {
        for (const auto& entry : json::View(container_)["ports"].array()) {
            if (json::View(entry)["name"].string_or("") == name) {
                number = json::View(entry)["containerPort"].int_or(0);
            }
        }
    }
    return number > 0 && number < 65536 ? std::optional(static_cast<std::uint16_t>(number))
                                        : std::nullopt;
}

void Prober::run(Probe& probe) {
    probe.busy = true;
    const json::View spec(probe.spec);
    if (spec["httpGet"].present()) {
        run_http(probe, spec["httpGet"]);
    } else if (spec["exec"].present()) {
        run_exec(probe, spec["exec"]);
    } else if (spec["tcpSocket"].present()) {
        const auto port = port_of(spec["tcpSocket"]["port"]);
        auto failure = port ? try_connect(context_.address, *port) : std::string("no such port");
        answer(probe, failure.empty(), std::move(failure));
    } else {
        answer(probe, false, "this kind of probe runs only on Kubernetes");
    }
}

void Prober::run_http(Probe& probe, const json::View& spec) {
    const auto port = port_of(spec["port"]);
    if (!port || !context_.http_client) {
        return answer(probe, false, port ? "no HTTP client on this node" : "no such port");
    }
    const bool tls = spec["scheme"].string_or("HTTP") == "HTTPS";
    const std::string host(spec["host"].string_or(context_.address));
    if (!probe.client) {
        net::HttpClientOptions options;
        options.endpoint = (tls ? "https://" : "http://") + host + ":" + std::to_string(*port);
        options.tls.insecure = true;
        options.connections_max = 1;
        options.idle_connections_max = 1;
        options.connect_timeout = probe.times.timeout;
        auto client = context_.http_client(std::move(options));
        if (!client.has_value()) {
            return answer(probe, false, client.error().message);
        }
        probe.client = std::move(client).value();
    }
    net::HttpRequest request;
    request.target = spec["path"].string_or("/");
    if (!request.target.starts_with('/')) {
        request.target.insert(0, 1, '/');
    }
    request.headers.emplace_back("User-Agent", "kube-probe/capstan");
    for (const auto& header : spec["httpHeaders"].array()) {
        const json::View view(header);
        request.headers.emplace_back(view["name"].string_or(""), view["value"].string_or(""));
    }
    request.deadline = context_.loop.now() + probe.times.timeout;
    request.body_bytes_max = 64 * 1024;
    probe.exchange =
        probe.client->send(std::move(request), [this, &probe](Result<net::HttpResponse> response) {
            if (!response.has_value()) {
                return answer(probe, false, response.error().message);
            }
            const auto status = response.value().status;
            const auto body = response.value().body.substr(0, 200);
            answer(probe,
                   status >= 200 && status < 400,
                   "status " + std::to_string(status) + (body.empty() ? "" : ": " + body));
        });
}

void Prober::run_exec(Probe& probe, const json::View& spec) {
    auto request = context_.exec(strings_of(spec["command"]));
    if (!request.has_value()) {
        return answer(probe, false, request.error().message);
    }
    request.value().log_path = "/dev/null";
    auto child = GatedProcess::spawn(request.value());
    if (!child.has_value()) {
        return answer(probe, false, child.error().message);
    }
    auto watched =
        context_.watcher.watch(child.value().identity(), [this, &probe](ProcessExit exit) {
            answer(probe,
                   exit.code == 0,
                   "exit code " + (exit.code ? std::to_string(*exit.code) : "unknown"));
        });
    if (!watched.has_value()) {
        return answer(probe, false, watched.error().message);
    }
    if (auto released = child.value().release(); !released.has_value()) {
        watched.value().reset();
        return answer(probe, false, released.error().message);
    }
    probe.process = std::move(watched).value();
    probe.timeout = context_.loop.at(context_.loop.now() + probe.times.timeout, [&probe] {
        if (probe.process) {
            probe.process->signal(SIGKILL);  // its exit is the answer
        }
    });
}

void Prober::answer(Probe& probe, bool success, std::string detail) {
    probe.busy = false;
    probe.process.reset();
    probe.timeout.reset();
    probe.failure = success ? std::string() : std::move(detail);
    if (probe.fsm.record(success, context_.loop.now())) {
        context_.loop.post(context_.on_change);
    }
    schedule();
}

}  // namespace capstan::local
