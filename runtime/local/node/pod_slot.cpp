#include "runtime/local/node/pod_slot.hpp"

#include "runtime/local/node/addresses.hpp"
#include "runtime/local/node/files.hpp"
#include "runtime/local/node/objects.hpp"
#include "runtime/local/node/volumes.hpp"

#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace capstan::local {
namespace {

constexpr std::string_view kAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount";

MonotonicTime to_monotonic(WallTime time, MonotonicTime now, WallTime wall) {
    return now -
           std::clamp<std::chrono::nanoseconds>(wall - time, std::chrono::nanoseconds{0}, now);
}

}  // namespace

Result<void> adopt_slot(Container& container,
                        const std::string& name,
                        const std::string& pod_uid,
                        const std::string& pod_dir) {
    auto adopted = container.adopt();
    if (adopted.has_value() || adopted.error().code != Code::invalid) {
        return adopted;
    }
    for (const pid_t pid : find_by_environment("CAPSTAN_CONTAINER=" + pod_uid + "/" + name)) {
        ::kill(pid, SIGKILL);
    }
    const auto path = pod_dir + "/" + name + "/record.json";
    if (::unlink(path.c_str()) != 0) {
        return fail(file_error("remove", path, errno));
    }
    return ok();
}

ContainerFacts PodWorker::Slot::facts(MonotonicTime now, WallTime wall) const {
    const auto& record = container->record();
    ContainerFacts out{.init = init, .skipped = skipped, .failures = record.failures};
    if (container->running()) {
        out.stage = Stage::running;
    } else if (record.ended && !record.ended->planned) {
        out.stage = Stage::ended;
        out.succeeded = record.ended->succeeded();
        out.ended_at = to_monotonic(record.ended->finished, now, wall);
    }
    return out;
}

MonotonicTime PodWorker::Slot::started_at(const Clock& clock) const {
    return to_monotonic(container->record().started, clock.now(), clock.wall_now());
}

ContainerView PodWorker::Slot::as_view() const {
    ContainerView out;
    out.spec = &spec;
    out.init = init;
    out.skipped = skipped;
    out.running = container->running();
    out.started = prober && prober->started();
    out.ready = prober && prober->ready();
    out.record = &container->record();
    out.waiting_reason = waiting_reason;
    out.waiting_message = waiting_message;
    return out;
}

std::string PodWorker::Slot::waits_for() const {
    if (!waiting_message.empty()) {
        return waiting_message;
    }
    const auto& record = container->record();
    if (init) {
        return container->running() ? "init container runs" : "";
    }
    if (container->running()) {
        const auto failure = prober ? prober->last_failure() : std::string();
        return prober && prober->ready() ? "" : failure.empty() ? "not ready yet" : failure;
    }
    return record.ended ? "ended: " + record.ended->reason : "not started yet";
}

void PodWorker::Slot::wait_for_backoff(MonotonicTime until,
                                       MonotonicTime now,
                                       const ObjectKey& pod) {
    if (until > now) {
        const auto& end = container->record().ended;
        const auto delay = std::chrono::duration_cast<std::chrono::seconds>(
            restart_delay(container->record().failures));
        waiting_reason = "CrashLoopBackOff";
        waiting_message = "back-off " + std::to_string(delay.count()) + "s restarting container " +
                          name() + " of pod " + pod.to_string();
        if (end && !end->message.empty()) {
            waiting_message += ": " + end->message;
        } else if (end && end->code) {
            waiting_message += ": exit code " + std::to_string(*end->code);
        }
    } else if (waiting_reason == "CrashLoopBackOff") {
        clear_wait();
    }
}

void PodWorker::Slot::clear_wait() {
    waiting_reason.clear();
    waiting_message.clear();
    retry_at = MonotonicTime{0};
}

EnvironmentContext PodWorker::environment(const PathMap& paths) const {
    return {pod_,
            address_,
            context_.options.name,
            paths,
            aliases_,
            [this](const GroupVersionKind& kind, const ObjectKey& key) {
                return context_.api.get(kind, key);
            }};
}

Result<std::string> PodWorker::issue_token() const {
    const json::View pod(pod_);
    const auto account = pod["spec"]["serviceAccountName"].string_or("default");
    return context_.options.issue_token({key_.ns, std::string(account), key_.name, uid_});
}

Result<void> PodWorker::write_account(PathMap& paths) {
    const json::View pod(pod_);
    if (!context_.options.issue_token ||
        !pod["spec"]["automountServiceAccountToken"].bool_or(true)) {
        return ok();
    }
    CAPSTAN_TRY(auto token, issue_token());
    const auto dir = dir_ + "/serviceaccount.d";
    CAPSTAN_TRY(make_dirs(dir));
    CAPSTAN_TRY(write_payload(dir,
                              {{"token", {std::move(token), 0600}},
                               {"ca.crt", {context_.options.api_ca_pem, 0644}},
                               {"namespace", {key_.ns, 0644}}}));
    paths.add(kAccountDir, dir);
    return ok();
}

// Volumes, token and map of one container; `reason` is for the status.
std::optional<Error> PodWorker::prepare(Slot& slot, std::string& reason) {
    reason = "ContainerCreating";
    PathMap paths;
    const PathMap none;
    const auto context = environment(none);
    if (auto account = write_account(paths); !account.has_value()) {
        return with_context(std::move(account).error(), "service account token");
    }
    std::function<Result<std::string>()> token;
    if (context_.options.issue_token) {
        token = [this] { return issue_token(); };
    }
    auto volumes = prepare_volumes(
        {context, dir_, context_.options.dir + "/volumes", context_.options.dir + "/host", token});
    if (!volumes.has_value()) {
        return std::move(volumes).error();
    }
    for (const auto& [inside, outside] : image_paths(slot.image(), context_.options.images)) {
        paths.add(inside, outside);
    }
    for (const auto& mount : slot.view()["volumeMounts"].array()) {
        const json::View view(mount);
        const auto it = volumes.value().find(std::string(view["name"].string_or("")));
        if (it == volumes.value().end()) {
            reason = "CreateContainerConfigError";
            return Error{Code::invalid,
                         "volume " + std::string(view["name"].string_or("")) + " is not in the pod",
                         {}};
        }
        const std::string sub(view["subPath"].string_or(""));
        if (sub.starts_with('/') || ("/" + sub + "/").find("/../") != std::string::npos) {
            return Error{Code::invalid, "subPath \"" + sub + "\" leaves the volume", {}};
        }
        const auto outside = it->second + (sub.empty() ? "" : "/" + sub);
        if (!sub.empty() && ::access(outside.c_str(), F_OK) != 0) {
            if (auto made = make_dirs(outside); !made.has_value()) {
                return std::move(made).error();
            }
        }
        paths.add(view["mountPath"].string_or(""), outside);
    }
    slot.paths = std::move(paths);
    if (auto made = make_dirs(dir_ + "/" + slot.name()); !made.has_value()) {
        return std::move(made).error();
    }
    return write_map(slot);
}

std::optional<Error> PodWorker::write_map(Slot& slot) {
    const auto map = context_.build_map({key_.ns,
                                         address_,
                                         aliases_,
                                         &slot.paths,
                                         context_.options.api_url,
                                         context_.ca_file,
                                         dir_ + "/serviceaccount.d/token",
                                         context_.options.steward_token_file});
    auto text = json::dump_pretty(map);
    if (text == slot.map_text) {
        return std::nullopt;
    }
    if (auto written = write_file(dir_ + "/" + slot.name() + "/map.json", text, 0600);
        !written.has_value()) {
        return std::move(written).error();
    }
    slot.map_text = std::move(text);
    return std::nullopt;
}

namespace {

void add_server_address(std::map<std::string, std::string>& env, std::string_view url) {
    const auto scheme = url.find("://");
    const auto colon = url.rfind(':');
    if (scheme != std::string_view::npos && colon > scheme + 2 && colon != std::string_view::npos) {
        env["KUBERNETES_SERVICE_HOST"] = url.substr(scheme + 3, colon - scheme - 3);
        env["KUBERNETES_SERVICE_PORT"] = url.substr(colon + 1);
    }
}

// The first of the container's own ports that somebody else holds on the pod's address.
std::optional<std::string> taken_port(const json::View& container, const std::string& address) {
    for (const auto& port : container["ports"].array()) {
        const auto number = json::View(port)["containerPort"].int_or(0);
        if (number <= 0 || number > 65535) {
            continue;
        }
        if (auto conflict = port_conflict(address, static_cast<std::uint16_t>(number))) {
            return conflict;
        }
    }
    return std::nullopt;
}

}  // namespace

// What is executed: the container itself, or (`command` given) a program inside it, for a probe.
Result<SpawnRequest> PodWorker::build_request(const Slot& slot,
                                              const std::vector<std::string>* command,
                                              std::string& reason) {
    reason = "CreateContainerConfigError";
    const auto context = environment(slot.paths);
    CAPSTAN_TRY(auto text, build_container_text(slot.spec, context));
    if (command != nullptr) {
        text.command.clear();
        text.args.clear();
        for (const auto& word : *command) {
            text.command.push_back(slot.paths.apply(word));
        }
    }
    reason = "ImageNotUsable";
    CAPSTAN_TRY(auto program,
                resolve_program(slot.image(), text.command, text.args, context_.options.images));
    if (auto conflict = command == nullptr ? taken_port(slot.view(), address_) : std::nullopt) {
        reason = "PortInUse";
        return fail(Code::unavailable, std::move(*conflict));
    }
    auto& env = text.env;
    const char* path = ::getenv("PATH");
    env.emplace("PATH", path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path);
    if (classify_image(slot.image(), context_.options.images) == ImageKind::etcd) {
        env["PATH"] = context_.options.images.etcd_dir + ":" + env["PATH"];
    }
    env.emplace("HOME", dir_ + "/" + slot.name());
    env.emplace("HOSTNAME", key_.name);
    add_server_address(env, context_.options.api_url);
    env["CAPSTAN_POD_MAP"] = dir_ + "/" + slot.name() + "/map.json";
    env["CAPSTAN_NODE_ID"] = context_.node_id;
    env["CAPSTAN_CONTAINER"] = uid_ + "/" + slot.name();
    SpawnRequest request{program.path, program.argv, {}, dir_ + "/" + slot.name(), ""};
    if (const auto cwd = slot.view()["workingDir"].string_or(""); !cwd.empty()) {
        request.cwd = slot.paths.apply(cwd);
    }
    for (const auto& [name, value] : env) {
        request.env.push_back(name + "=" + value);
    }
    return request;
}

}  // namespace capstan::local
