// Credentials printed by a program: kubeconfig users with `exec`
// (client.authentication.k8s.io/v1 and v1beta1, Kubernetes "client-go credential plugins").
//
// One run at a time, never on the loop's thread; what it printed serves until it expires, or until
// the server refuses it. Thread: [io].
#pragma once

#include "capstan/json.hpp"
#include "runtime/kube/credentials.hpp"
#include "runtime/net/command.hpp"
#include "runtime/net/loop.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::kube {

inline constexpr std::chrono::seconds kExecTimeMax{60};
inline constexpr std::chrono::seconds kExecPauseMin{5};  // between two runs that failures asked for
inline constexpr std::chrono::seconds kExecLeeway{10};   // run again this long before the expiry
// bytes of the last line of its standard error in an error
inline constexpr std::size_t kExecErrorsQuoted = 400;

struct ExecConfig {
    std::string api_version;  // "client.authentication.k8s.io/v1"
    std::vector<std::string> argv;
    std::vector<std::string> environment;  // "NAME=value"
    std::string install_hint;
    json::Value cluster;  // spec.cluster; null: not wanted
};

// `exec` of a user; `directory`: of the kubeconfig. `cluster` stays null. Errors: invalid with the
// field named, unsupported (interactiveMode: Always).
Result<ExecConfig> parse_exec(json::View exec, std::string_view directory);

// What one run gave. Errors: invalid (no ExecCredential, another apiVersion, half a pair, nothing).
struct ExecCredential {
    std::string token;
    std::string certificate_pem;
    std::string key_pem;
    std::optional<WallTime> expiry;
};
Result<ExecCredential> parse_credential(std::string_view output, std::string_view api_version);

// Starts a program; injected in tests. run_command() on a real loop.
using StartCommand =
    std::function<std::unique_ptr<net::RunningCommand>(net::Command, net::CommandDone)>;

class ExecObserver {
public:
    virtual ~ExecObserver() = default;
    // `code`: exit code, -1: it did not run to its end. `status`: client-go's words: "no_error",
    // "plugin_execution_error", "plugin_not_found_error", "client_internal_error".
    virtual void exec_called(int code, std::string_view status) = 0;
    virtual void exec_expires(std::optional<WallTime> expiry) = 0;
};

// token() before the first run has ended: timeout; when it gave nothing: unavailable, with command,
// exit code and the last line of its standard error.
// `on_pair`: takes a client certificate the program gave; its error is that of the run. `observer`
// may be nullptr; both outlive the source.
std::unique_ptr<TokenSource> make_exec_tokens(
    net::Loop& loop,
    ExecConfig config,
    StartCommand start,
    std::function<Result<void>(std::string certificate_pem, std::string key_pem)> on_pair,
    ExecObserver* observer);

}  // namespace capstan::kube
