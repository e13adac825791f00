#include "runtime/local/node/node.hpp"

#include "runtime/local/node/addresses.hpp"
#include "runtime/local/node/controllers.hpp"
#include "runtime/local/node/dir_lock.hpp"
#include "runtime/local/node/files.hpp"
#include "runtime/local/node/log_reader.hpp"
#include "runtime/local/node/mirror.hpp"
#include "runtime/local/node/names.hpp"
#include "runtime/local/node/objects.hpp"
#include "runtime/local/node/pod_worker.hpp"

#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <set>

namespace capstan::local {
namespace {

// ConfigMaps, Secrets and names come in bursts
constexpr std::chrono::milliseconds kRefreshDelay{100};

Result<std::string> load_node_id(const std::string& path) {
    auto text = read_file(path);
    if (text.has_value() && text.value().size() == 36) {
        return text;
    }
    CAPSTAN_TRY(auto fresh, read_file("/proc/sys/kernel/random/uuid"));
    fresh.resize(36);
    CAPSTAN_TRY(write_file(path, fresh, 0600));
    return fresh;
}

class RealNode final : public Node {
public:
    RealNode(net::Loop& loop,
             NodeApi& api,
             NodeOptions options,
             DirLock lock,
             std::string id,
             std::unique_ptr<ProcessWatcher> watcher)
        : loop_(loop),
          api_(api),
          options_(std::move(options)),
          lock_(std::move(lock)),
          id_(std::move(id)),
          watcher_(std::move(watcher)),
          addresses_(options_.dir + "/node/addresses.json", options_.address_prefix),
          mirror_(
              api,
              [this](const GroupVersionKind& kind, const json::Value* old, const json::Value* now) {
                  changed(kind, old, now);
              }),
          controllers_(loop, api, mirror_, options_, [this] { schedule(); }),
          alive_(std::make_shared<bool>(true)),
          context_{loop_,
                   api_,
                   *watcher_,
                   options_,
                   id_,
                   options_.dir + "/node/ca.crt",
                   [this](const ObjectKey& pod) { return addresses_.address_of(pod); },
                   [this](const PodMapInput& input) {
                       return build_pod_map(input, mirror_, addresses_);
                   },
                   [this] { reap(); }} {}

    void start() override;
    void stop_all(std::function<void()> done) override;
    Result<std::string> read_log(const ObjectKey& pod, const LogOptions& options) override;
    Result<std::unique_ptr<LogFollow>> follow_log(const ObjectKey& pod,
                                                  const LogOptions& options,
                                                  std::function<void(std::string_view)> on_data,
                                                  std::function<void()> on_end) override;
    std::vector<std::string> awaited() const override;

private:
    void changed(const GroupVersionKind& kind, const json::Value* old, const json::Value* now);
    void schedule();
    void sync();
    void sync_pods();
    void adopt_all();
    void kill_strays();
    void refresh_later();
    void reap();
    const PodWorker* worker_of(const ObjectKey& pod) const;
    void log(NodeLogLevel level,
             std::string_view message,
             std::string_view pod,
             std::string_view detail) const {
        if (options_.log) {
            options_.log(level, message, pod, detail);
        }
    }

    net::Loop& loop_;
    NodeApi& api_;
    const NodeOptions options_;
    const DirLock lock_;
    const std::string id_;
    const std::unique_ptr<ProcessWatcher> watcher_;  // outlives the workers
    AddressBook addresses_;
    Mirror mirror_;
    Controllers controllers_;
    const std::shared_ptr<bool> alive_;  // shared: posted tasks may outlive the node
    PodContext context_;
    std::map<std::string, std::unique_ptr<PodWorker>> workers_;  // by uid
    bool scheduled_{false};
    std::unique_ptr<net::Timer> refresh_timer_;
    std::function<void()> stop_done_;
    bool stopping_{false};
};

void RealNode::start() {
    if (auto written = write_file(context_.ca_file, options_.api_ca_pem, 0600);
        !written.has_value()) {
        log(NodeLogLevel::error, "CA file could not be written", "", written.error().message);
    }
    for (const auto* kind : {&kPodKind,
                             &kServiceKind,
                             &kConfigMapKind,
                             &kSecretKind,
                             &kClaimKind,
                             &kStatefulSetKind,
                             &kJobKind}) {
        mirror_.watch(*kind);
    }
    adopt_all();
    kill_strays();
    schedule();
}

// Pods this directory knows. Those that have no object any more are stopped and cleaned up.
void RealNode::adopt_all() {
    for (const auto& uid : list_dir(options_.dir + "/pods")) {
        const auto text = read_file(PodWorker::dir_of(options_, uid) + "/pod.json");
        const auto record =
            text.has_value() ? json::parse(text.value()) : fail(Code::not_found, "no record");
        const auto* pod = record.has_value() ? record.value().find("pod") : nullptr;
        if (pod == nullptr) {
            log(NodeLogLevel::warn, "pod directory without a readable record is removed", "", uid);
            [[maybe_unused]] const auto removed = remove_tree(PodWorker::dir_of(options_, uid));
            continue;
        }
        const auto key = key_of(*pod);
        auto present = api_.get(kPodKind, key);
        const bool known = present.has_value() && uid_of(present.value()) == uid;
        if (known) {
            addresses_.claim(key, std::string(json::View(record.value())["ip"].string_or("")));
        }
        auto worker = std::make_unique<PodWorker>(context_, known ? present.value() : *pod);
        if (!known && (present.has_value() || present.error().code == Code::not_found)) {
            log(NodeLogLevel::info, "pod was deleted meanwhile", key.to_string(), uid);
            worker->vanish();
        }
        if (auto result = worker->setup(); !result.has_value()) {
            log(NodeLogLevel::error,
                "pod cannot be adopted yet",
                key.to_string(),
                result.error().message);
        }
        workers_.emplace(uid, std::move(worker));
    }
}

// Processes with our mark that belong to no container we know: left behind by one that
// ended while we were away.
void RealNode::kill_strays() {
    std::set<pid_t> leaders;
    for (const auto& [uid, worker] : workers_) {
        for (const pid_t pid : worker->pids()) {
            leaders.insert(pid);
        }
    }
    for (const pid_t pid : find_by_environment("CAPSTAN_NODE_ID=" + id_)) {
        const auto session = session_of(pid);
        if (session != 0 && pid != ::getpid() && !leaders.contains(session)) {
            log(NodeLogLevel::warn, "stray process killed", "", std::to_string(pid));
            ::kill(pid, SIGKILL);
        }
    }
}

void RealNode::changed(const GroupVersionKind& kind,
                       const json::Value* old,
                       const json::Value* now) {
    if (kind == kClaimKind && now == nullptr) {
        controllers_.claim_deleted(*old);
    }
    if (kind == kConfigMapKind || kind == kSecretKind) {
        const auto* before = old == nullptr ? nullptr : old->find("data");
        const auto* after = now == nullptr ? nullptr : now->find("data");
        if (before != nullptr && after != nullptr && *before == *after) {
            return;
        }
    }
    refresh_later();
    schedule();
}

void RealNode::refresh_later() {
    if (refresh_timer_) {
        return;
    }
    refresh_timer_ = loop_.at(loop_.now() + kRefreshDelay, [this] {
        const auto timer = std::move(refresh_timer_);
        for (const auto& [uid, worker] : workers_) {
            worker->refresh();
        }
    });
}

void RealNode::schedule() {
    if (scheduled_) {
        return;
    }
    scheduled_ = true;
    loop_.post([this, alive = std::weak_ptr<bool>(alive_)] {
        if (!alive.expired()) {
            scheduled_ = false;
            sync();
        }
    });
}

void RealNode::sync() {
    if (stopping_) {
        return;
    }
    controllers_.sync();
    if (auto reserved = reserve_addresses(mirror_, addresses_); !reserved.has_value()) {
        log(NodeLogLevel::error, "no address for pod", "", reserved.error().message);
    }
    sync_pods();
}

void RealNode::sync_pods() {
    std::set<std::string> present;
    for (const auto& [key, pod] : mirror_.all(kPodKind)) {
        const auto uid = uid_of(pod);
        const auto node = json::View(pod)["spec"]["nodeName"].string_or("");
        if (uid.empty() || (!node.empty() && node != options_.name)) {
            continue;
        }
        present.insert(uid);
        if (const auto it = workers_.find(uid); it != workers_.end()) {
            if (!(it->second->pod() == pod)) {
                it->second->update(pod);
            }
        } else if (workers_.size() < kPodsMax) {
            auto& worker =
                workers_.emplace(uid, std::make_unique<PodWorker>(context_, pod)).first->second;
            worker->update(pod);
            if (node.empty()) {
                const json::Value patch = {{"metadata", {{"uid", uid}}},
                                           {"spec", {{"nodeName", options_.name}}}};
                [[maybe_unused]] const auto bound = api_.patch(kPodKind, key, patch);
            }
        } else {
            log(NodeLogLevel::error,
                "pod is not run: too many pods on this machine",
                key.to_string(),
                "");
        }
    }
    for (const auto& [uid, worker] : workers_) {
        // The mirror may not have the pod yet (adopted, first list under way):
        // ask the server itself.
        if (!present.contains(uid)) {
            const auto object = api_.get(kPodKind, key_of(worker->pod()));
            const bool gone = object.has_value() ? uid_of(object.value()) != uid
                                                 : object.error().code == Code::not_found;
            if (gone) {
                worker->vanish();
            }
        }
    }
}

void RealNode::reap() {
    for (auto it = workers_.begin(); it != workers_.end();) {
        if (!it->second->done()) {
            ++it;
            continue;
        }
        const auto& pod = it->second->pod();
        // Members of a set come back under their name and must keep their address; others do not.
        if (label_of(pod, "statefulset.kubernetes.io/pod-name").empty()) {
            addresses_.release(key_of(pod));
        }
        it = workers_.erase(it);
    }
    schedule();
    const bool all = std::all_of(workers_.begin(), workers_.end(), [](const auto& entry) {
        return entry.second->stopped();
    });
    if (stopping_ && all && stop_done_) {
        const auto done = std::exchange(stop_done_, nullptr);
        done();
    }
}

void RealNode::stop_all(std::function<void()> done) {
    stopping_ = true;
    stop_done_ = std::move(done);
    for (const auto& [uid, worker] : workers_) {
        worker->stop();
    }
    loop_.post([this, alive = std::weak_ptr<bool>(alive_)] {
        if (!alive.expired()) {
            reap();
        }
    });
}

const PodWorker* RealNode::worker_of(const ObjectKey& pod) const {
    for (const auto& [uid, worker] : workers_) {
        if (key_of(worker->pod()) == pod) {
            return worker.get();
        }
    }
    return nullptr;
}

Result<std::string> RealNode::read_log(const ObjectKey& pod, const LogOptions& options) {
    const auto* worker = worker_of(pod);
    if (worker == nullptr) {
        return fail(Code::not_found, "pod " + pod.to_string() + " is not on this node");
    }
    CAPSTAN_TRY(auto file, worker->log_file(options));
    CAPSTAN_TRY(auto part, read_log_file(file.path, options.tail_lines, options.limit_bytes));
    return std::move(part.text);
}

Result<std::unique_ptr<LogFollow>> RealNode::follow_log(
    const ObjectKey& pod,
    const LogOptions& options,
    std::function<void(std::string_view)> on_data,
    std::function<void()> on_end) {
    const auto* worker = worker_of(pod);
    if (worker == nullptr) {
        return fail(Code::not_found, "pod " + pod.to_string() + " is not on this node");
    }
    CAPSTAN_TRY(auto file, worker->log_file(options));
    CAPSTAN_TRY(auto part, read_log_file(file.path, options.tail_lines, std::nullopt));
    const auto uid = uid_of(worker->pod());
    auto ended = [this, uid, file] {
        const auto it = workers_.find(uid);
        return it == workers_.end() || !it->second->log_open(file.container, file.attempt);
    };
    return follow_log_file(loop_,
                           file.path,
                           part.end - part.text.size(),
                           std::move(ended),
                           std::move(on_data),
                           std::move(on_end));
}

std::vector<std::string> RealNode::awaited() const {
    std::vector<std::string> out;
    for (const auto& [uid, worker] : workers_) {
        if (auto text = worker->waits_for(); !text.empty()) {
            out.push_back(std::move(text));
        }
    }
    std::sort(out.begin(), out.end());
    return out;
}

}  // namespace

Result<std::unique_ptr<Node>> Node::create(net::Loop& loop, NodeApi& api, NodeOptions options) {
    if (!options.dir.starts_with('/')) {
        return fail(Code::invalid, "node directory \"" + options.dir + "\" is not absolute");
    }
    if (!options.address_prefix.starts_with("127.")) {
        return fail(
            Code::invalid,
            "address prefix \"" + options.address_prefix + "\" is not a /16 of 127.0.0.0/8");
    }
    for (const char* sub : {"/node", "/pods", "/volumes", "/host"}) {
        CAPSTAN_TRY(make_dirs(options.dir + sub));
    }
    CAPSTAN_TRY(auto lock, DirLock::take(options.dir + "/node/lock"));
    CAPSTAN_TRY(auto id, load_node_id(options.dir + "/node/id"));
    CAPSTAN_TRY(auto watcher, ProcessWatcher::create(loop));
    return std::unique_ptr<Node>(std::make_unique<RealNode>(
        loop, api, std::move(options), std::move(lock), std::move(id), std::move(watcher)));
}

}  // namespace capstan::local
