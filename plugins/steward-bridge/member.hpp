// State that the steward's service, heartbeat and routes share about their one member.
//
// The service writes, the others read and ask. Owns its mutex. Thread: any.
#pragma once

#include "api/etcd_member.hpp"
#include "capstan/plugin.hpp"
#include "plugins/steward-bridge/configuration.hpp"
#include "plugins/steward-bridge/etcd_gateway.hpp"

#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace capstan::steward {

enum class RunState : std::uint8_t { none, progress, successful, failed };  // of an initialisation

struct RunRequest {
    std::string run;  // the launcher's name for it; "" from a launcher that gives none
    bool full{true};
};

// Of the steward that takes snapshots, for its EtcdMember.
struct BackupReport {
    std::optional<api::Snapshots> snapshots;
    std::string reason, message;  // of the trouble; empty: none
};

// Of the API's own TLS.
struct ApiReport {
    std::string reason, message;  // of the trouble; empty: none
    friend bool operator==(const ApiReport&, const ApiReport&) = default;
};

class Member {
public:
    Member(const HostTables& host, Identity identity)
        : identity_(std::move(identity)), wake_(host), beat_(host), api_wake_(host) {}

    const Identity& identity() const noexcept { return identity_; }
    // What the plugin itself is told, for every cluster. [startup]
    void set_plugin_config(json::Value config) { plugin_config_ = std::move(config); }
    const json::Value& plugin_config() const noexcept { return plugin_config_; }

    Token& wake() noexcept { return wake_; }  // something changed: the member service looks again
    Token& beat() noexcept { return beat_; }  // new facts: the heartbeat goes out at once
    Token& api_wake() noexcept { return api_wake_; }  // the API service looks again

    // A launcher asks for an initialisation; asking again for the same run changes nothing.
    void request_run(RunRequest request);
    std::optional<RunRequest> take_request();
    // `run` "" : the peer's behaviour, a finished state is reported once and then reset.
    RunState run_state(const std::string& run);
    void finish_run(RunState state, std::string etcd_config);
    std::optional<std::string> etcd_config() const;

    void set_status(std::optional<EtcdStatus> status);
    std::optional<EtcdStatus> status() const;
    // Called with each status that is set, also when it says the same. [startup]
    using OnStatus = std::function<void(const std::optional<EtcdStatus>&)>;
    void on_status(OnStatus observer) { on_status_ = std::move(observer); }

    // Who takes snapshots of the etcd that ran so far: told that it is started anew, and asked
    // whether all that follows from the old one is in the store. [startup]
    struct Snapshots {
        std::function<void()> end;
        std::function<bool()> at_rest;
    };
    void set_snapshots(Snapshots snapshots) { snapshots_ = std::move(snapshots); }
    void end_snapshots();
    bool snapshots_at_rest() const { return !snapshots_.at_rest || snapshots_.at_rest(); }

    void set_backup_report(BackupReport report);  // wakes the member service
    BackupReport backup_report() const;

    void set_api_report(ApiReport report);  // a new one wakes the member service
    ApiReport api_report() const;

    // For client URLs of etcd: authority and client pair. Empty without TLS.
    void set_client_tls(HttpTls tls);
    HttpTls client_tls() const;

    // What maintenance did and saw, for the member's report; nullopt: nothing since the start.
    void set_defragmentation(api::Defragmentation work);
    std::optional<api::Defragmentation> defragmentation() const;
    void set_alarms(std::vector<EtcdAlarm> alarms);  // of the whole cluster
    std::optional<std::vector<EtcdAlarm>> alarms() const;

private:
    const Identity identity_;
    json::Value plugin_config_;  // constant once the services run
    Token wake_, beat_, api_wake_;
    OnStatus on_status_;   // constant once the services run
    Snapshots snapshots_;  // likewise
    mutable std::mutex mutex_;
    std::optional<RunRequest> request_;  // guarded by mutex_, as all below
    std::string current_run_;
    RunState run_state_{RunState::none};
    std::optional<std::string> etcd_config_;
    std::optional<EtcdStatus> status_;
    BackupReport backup_report_;
    ApiReport api_report_;
    HttpTls client_tls_;
    std::optional<api::Defragmentation> defragmentation_;
    std::optional<std::vector<EtcdAlarm>> alarms_;
};

}  // namespace capstan::steward
