#include "plugins/steward-bridge/member.hpp"

#include <utility>

namespace capstan::steward {

void Member::request_run(RunRequest request) {
    {
        const std::lock_guard lock(mutex_);
        const bool same = request.run == current_run_ && run_state_ != RunState::none;
        const bool busy_without_name = request.run.empty() && run_state_ == RunState::progress;
        if (same && !request.run.empty()) {
            return;
        }
        if (busy_without_name) {
            return;
        }
        current_run_ = request.run;
        run_state_ = RunState::progress;
        request_ = std::move(request);
    }
    wake_.notify();
}

std::optional<RunRequest> Member::take_request() {
    const std::lock_guard lock(mutex_);
    return std::exchange(request_, std::nullopt);
}

RunState Member::run_state(const std::string& run) {
    const std::lock_guard lock(mutex_);
    if (!run.empty()) {
        return run == current_run_ ? run_state_ : RunState::none;
    }
    const bool finished = run_state_ == RunState::successful || run_state_ == RunState::failed;
    return finished ? std::exchange(run_state_, RunState::none) : run_state_;
}

void Member::finish_run(RunState state, std::string etcd_config) {
    const std::lock_guard lock(mutex_);
    if (request_) {
        return;  // a newer request waits; its result counts
    }
    run_state_ = state;
    if (state == RunState::successful) {
        etcd_config_ = std::move(etcd_config);
    }
}

std::optional<std::string> Member::etcd_config() const {
    const std::lock_guard lock(mutex_);
    return etcd_config_;
}

void Member::set_status(std::optional<EtcdStatus> status) {
    bool changed = false;
    {
        const std::lock_guard lock(mutex_);
        changed = status.has_value() != status_.has_value() ||
                  (status &&
                   (status->member_id != status_->member_id || status->leader != status_->leader));
        status_ = status;
    }
    if (on_status_) {
        on_status_(status);
    }
    if (changed) {
        beat_.notify();
    }
}

void Member::end_snapshots() {
    if (snapshots_.end) {
        snapshots_.end();
    }
}

void Member::set_backup_report(BackupReport report) {
    {
        const std::lock_guard lock(mutex_);
        backup_report_ = std::move(report);
    }
    wake_.notify();
}

BackupReport Member::backup_report() const {
    const std::lock_guard lock(mutex_);
    return backup_report_;
}

void Member::set_api_report(ApiReport report) {
    {
        const std::lock_guard lock(mutex_);
        if (api_report_ == report) {
            return;
        }
        api_report_ = std::move(report);
    }
    wake_.notify();
}

ApiReport Member::api_report() const {
    const std::lock_guard lock(mutex_);
    return api_report_;
}

std::optional<EtcdStatus> Member::status() const {
    const std::lock_guard lock(mutex_);
    return status_;
}

void Member::set_client_tls(HttpTls tls) {
    const std::lock_guard lock(mutex_);
    client_tls_ = std::move(tls);
}

HttpTls Member::client_tls() const {
    const std::lock_guard lock(mutex_);
    return client_tls_;
}

void Member::set_defragmentation(api::Defragmentation work) {
    {
        const std::lock_guard lock(mutex_);
        defragmentation_ = std::move(work);
    }
    wake_.notify();
}

std::optional<api::Defragmentation> Member::defragmentation() const {
    const std::lock_guard lock(mutex_);
    return defragmentation_;
}

void Member::set_alarms(std::vector<EtcdAlarm> alarms) {
    {
        const std::lock_guard lock(mutex_);
        if (alarms_ == alarms) {
            return;
        }
        alarms_ = std::move(alarms);
    }
    wake_.notify();
}

std::optional<std::vector<EtcdAlarm>> Member::alarms() const {
    const std::lock_guard lock(mutex_);
    return alarms_;
}

}  // namespace capstan::steward
