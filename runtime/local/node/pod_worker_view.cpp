// What a pod shows of itself: its status, its processes, its logs and what it waits for.
#include "runtime/local/node/objects.hpp"
#include "runtime/local/node/pod_slot.hpp"
#include "runtime/local/node/pod_status.hpp"
#include "runtime/local/node/pod_worker.hpp"

#include <unistd.h>
#include <algorithm>

namespace capstan::local {

void PodWorker::write_status() {
    PodStatusInput input{
        &pod_, address_, started_, context_.loop.wall_now(), phase_, initialized_, {}};
    for (const auto& slot : slots_) {
        input.containers.push_back(slot->as_view());
    }
    const auto desired = build_pod_status(input);
    const auto* present = pod_.find("status");
    auto patch = merge_patch_between(present == nullptr ? json::object() : *present, desired);
    if (patch && patch->is_object()) {
        std::erase_if(*patch->if_object(),
                      [](const json::Member& member) { return member.value.is_null(); });
    }
    if (!patch || !patch->is_object() || patch->if_object()->empty()) {
        return;
    }
    json::Value body = {{"metadata", {{"uid", uid_}}}, {"status", std::move(*patch)}};
    auto written = context_.api.patch_status(kPodKind, key_, std::move(body));
    if (written.has_value()) {
        pod_ = std::move(written).value();
        if (is_deleting(pod_)) {
            schedule();
        }
    } else if (written.error().code != Code::not_found && written.error().code != Code::conflict) {
        log(NodeLogLevel::warn, "pod status could not be written", written.error().message);
        wake_at(context_.loop.now() + kRetryApi);
    }
}

std::vector<pid_t> PodWorker::pids() const {
    std::vector<pid_t> out;
    for (const auto& slot : slots_) {
        if (slot->container->running()) {
            out.push_back(slot->container->record().process.pid);
        }
    }
    return out;
}

std::string PodWorker::waits_for() const {
    if (!setup_error_.empty()) {
        return key_.name + ": " + setup_error_;
    }
    if (is_deleting(pod_)) {
        return key_.name + ": stopping";
    }
    for (const auto& slot : slots_) {
        const auto text = slot->waits_for();
        if (!text.empty() && phase_ != Phase::succeeded && phase_ != Phase::failed) {
            return key_.name + ": " + slot->name() + ": " + text;
        }
    }
    return {};
}

Result<PodWorker::LogFile> PodWorker::log_file(const LogOptions& options) const {
    const Slot* found = nullptr;
    for (const auto& slot : slots_) {
        if (options.container.empty() ? !slot->init && found == nullptr
                                      : slot->name() == options.container) {
            found = slot.get();
        }
    }
    if (found == nullptr) {
        return fail(Code::not_found,
                    "container " + options.container + " is not in pod " + key_.to_string());
    }
    const int attempt = found->container->record().attempt - (options.previous ? 1 : 0);
    const auto path = found->container->log_path(attempt);
    if (attempt < 0 || ::access(path.c_str(), R_OK) != 0) {
        return fail(Code::not_found,
                    std::string(options.previous ? "previous " : "") + "log of container " +
                        found->name() + " in pod " + key_.to_string() + " does not exist");
    }
    return LogFile{path, found->name(), attempt};
}

bool PodWorker::log_open(const std::string& container, int attempt) const {
    return !done_ && std::any_of(slots_.begin(), slots_.end(), [&](const auto& slot) {
        return slot->name() == container && slot->container->running() &&
               slot->container->record().attempt == attempt;
    });
}

}  // namespace capstan::local
