#include "runtime/kube/exec_plugin.hpp"

#include "runtime/kube/status.hpp"

#include <algorithm>
#include <utility>

namespace capstan::kube {
namespace {

constexpr std::string_view kGroup = "client.authentication.k8s.io/";

std::string exec_info(const ExecConfig& config) {
    json::Value spec = {{"interactive", false}};
    if (!config.cluster.is_null()) {
        spec.set("cluster", config.cluster);
    }
    json::Value info = {{"kind", "ExecCredential"}, {"apiVersion", config.api_version}};
    info.set("spec", std::move(spec));
    return json::dump(info);
}

// The last line that says something, cut in front.
std::string_view last_line(std::string_view text) {
    const std::size_t end = text.find_last_not_of(" \t\r\n");
    text = text.substr(0, end == std::string_view::npos ? 0 : end + 1);
    text.remove_prefix(text.rfind('\n') + 1);  // npos + 1: nothing
    text.remove_prefix(text.size() - std::min(text.size(), kExecErrorsQuoted));
    return text;
}

class ExecTokens final : public TokenSource {
public:
    ExecTokens(net::Loop& loop,
               ExecConfig config,
               StartCommand start,
               std::function<Result<void>(std::string, std::string)> on_pair,
               ExecObserver* observer)
        : loop_(loop),
          config_(std::move(config)),
          start_(std::move(start)),
          on_pair_(std::move(on_pair)),
          observer_(observer),
          problem_{Code::timeout,
                   "credential plugin " + config_.argv.front() + ": has not answered yet",
                   {}} {}

    bool ready(std::function<void()> then) override {
        if (fresh() || (!running_ && ran_ && loop_.now() < *ran_ + kExecPauseMin)) {
            return true;
        }
        waiting_.push_back(std::move(then));
        if (!running_) {
            run();
        }
        return false;
    }
    Result<std::string> token() override {
        if (!have_) {
            return fail(problem_);
        }
        return token_;  // a stale one is still worth a try: the clocks may differ
    }
    bool refused(const std::string& used) override {
        if (have_ && token_ != used) {
            return true;  // renewed meanwhile
        }
        if (ran_ && loop_.now() < *ran_ + kExecPauseMin) {
            return false;
        }
        refused_ = true;
        return true;
    }
    std::string trouble() const override { return failing_ ? problem_.message : std::string(); }
    void close() override {
        waiting_.clear();
        running_.reset();
    }

private:
    bool fresh() const {
        return have_ && !refused_ && (!expiry_ || loop_.wall_now() + kExecLeeway < *expiry_);
    }

    void run() {
        net::Command command;
        command.argv = config_.argv;
        command.environment = config_.environment;
        command.environment.push_back("KUBERNETES_EXEC_INFO=" + exec_info(config_));
        command.time_max = kExecTimeMax;
        running_ = start_(std::move(command), [this](Result<net::CommandResult> result) {
            ran_ = loop_.now();
            take(std::move(result));
            loop_.post([kept = std::shared_ptr(std::move(running_))] {});
            for (const auto& then : std::exchange(waiting_, {})) {
                then();
            }
        });
    }

    void take(Result<net::CommandResult> result) {
        if (!result) {
            const bool absent = result.error().code == Code::not_found;
            tell(-1, absent ? "plugin_not_found_error" : "plugin_execution_error");
            trouble(result.error().message +
                    (config_.install_hint.empty() || !absent ? "" : "; " + config_.install_hint));
            return;
        }
        const net::CommandResult& got = result.value();
        if (got.code != 0) {
            tell(got.code, "plugin_execution_error");
            const std::string_view said = last_line(got.errors);
            trouble("exit code " + std::to_string(got.code) + ": " +
                    (said.empty() ? "it says nothing on stderr" : quote_server_text(said)));
            return;
        }
        auto credential = parse_credential(got.output, config_.api_version);
        if (credential && !credential.value().certificate_pem.empty()) {
            ExecCredential& with = credential.value();
            if (auto set = on_pair_(std::move(with.certificate_pem), std::move(with.key_pem));
                !set) {
                credential = fail(with_context(set.error(), "client certificate"));
            }
        }
        if (!credential) {
            tell(got.code, "client_internal_error");
            trouble(credential.error().message);
            return;
        }
        tell(got.code, "no_error");
        have_ = true;
        failing_ = false;
        refused_ = false;
        token_ = std::move(credential.value().token);
        expiry_ = credential.value().expiry;
        if (observer_ != nullptr) {
            observer_->exec_expires(expiry_);
        }
    }
    void trouble(const std::string& what) {
        failing_ = true;
        problem_ =
            Error{Code::unavailable, "credential plugin " + config_.argv.front() + ": " + what, {}};
    }
    void tell(int code, std::string_view status) {
        if (observer_ != nullptr) {
            observer_->exec_called(code, status);
        }
    }

    net::Loop& loop_;
    const ExecConfig config_;
    const StartCommand start_;
    const std::function<Result<void>(std::string, std::string)> on_pair_;
    ExecObserver* const observer_;
    std::unique_ptr<net::RunningCommand> running_;
    std::vector<std::function<void()>> waiting_;
    std::optional<MonotonicTime> ran_;  // the last run ended
    bool have_{false};
    bool refused_{false};
    bool failing_{false};  // the last run gave nothing
    std::string token_;
    std::optional<WallTime> expiry_;
    Error problem_;
};

}  // namespace

Result<ExecConfig> parse_exec(json::View exec, std::string_view directory) {
    ExecConfig config;
    config.api_version = exec["apiVersion"].string_or("");
    if (config.api_version != std::string(kGroup) + "v1" &&
        config.api_version != std::string(kGroup) + "v1beta1") {
        return fail(Code::invalid,
                    "exec.apiVersion is \"" + config.api_version + "\"; " + std::string(kGroup) +
                        "v1 and v1beta1 are understood");
    }
    std::string command(exec["command"].string_or(""));
    if (command.empty()) {
        return fail(Code::invalid, "exec.command is missing");
    }
    // As with files: a path is relative to the kubeconfig, a bare name is looked for in $PATH.
    if (command.find('/') != std::string::npos && command.front() != '/') {
        command = std::string(directory) + "/" + command;
    }
    const std::string_view mode = exec["interactiveMode"].string_or("");
    if (mode == "Always") {
        return fail(Code::unsupported,
                    "exec.interactiveMode is Always; there is no terminal to ask on");
    }
    if (mode.empty() ? config.api_version.ends_with("/v1")
                     : mode != "Never" && mode != "IfAvailable") {
        return fail(Code::invalid, "exec.interactiveMode must be Never, IfAvailable or Always");
    }
    config.argv.push_back(std::move(command));
    for (const json::Value& argument : exec["args"].array()) {
        config.argv.emplace_back(json::View(argument).string_or(""));
    }
    for (const json::Value& variable : exec["env"].array()) {
        const json::View entry(variable);
        const std::string name(entry["name"].string_or(""));
        if (name.empty() || name.find('=') != std::string::npos) {
            return fail(Code::invalid, "exec.env needs entries with a name and a value");
        }
        config.environment.push_back(name + "=" + std::string(entry["value"].string_or("")));
    }
    config.install_hint = exec["installHint"].string_or("");
    return config;
}

Result<ExecCredential> parse_credential(std::string_view output, std::string_view api_version) {
    const auto parsed = json::parse(output);
    if (!parsed) {
        return fail(Code::invalid, "its output is no JSON: " + parsed.error().message);
    }
    const json::View document(parsed.value());
    if (document["kind"].string_or("") != "ExecCredential" ||
        document["apiVersion"].string_or("") != api_version) {
        return fail(Code::invalid,
                    "its output is no ExecCredential of " + std::string(api_version));
    }
    const json::View status = document["status"];
    ExecCredential credential;
    credential.token = status["token"].string_or("");
    credential.certificate_pem = status["clientCertificateData"].string_or("");
    credential.key_pem = status["clientKeyData"].string_or("");
    if (credential.certificate_pem.empty() != credential.key_pem.empty()) {
        return fail(Code::invalid,
                    "status.clientCertificateData and clientKeyData are needed together");
    }
    if (credential.token.empty() && credential.certificate_pem.empty()) {
        return fail(Code::invalid, "status holds neither a token nor a client certificate");
    }
    if (credential.token.size() > kTokenBytesMax ||
        std::any_of(credential.token.begin(), credential.token.end(), [](char c) {
            return c <= ' ' || c == 0x7f;
        })) {
        return fail(Code::invalid, "status.token cannot be a header");
    }
    if (const std::string_view text = status["expirationTimestamp"].string_or(""); !text.empty()) {
        credential.expiry = parse_rfc3339(text);
        if (!credential.expiry) {
            return fail(Code::invalid, "status.expirationTimestamp is no time");
        }
    }
    return credential;
}

std::unique_ptr<TokenSource> make_exec_tokens(
    net::Loop& loop,
    ExecConfig config,
    StartCommand start,
    std::function<Result<void>(std::string, std::string)> on_pair,
    ExecObserver* observer) {
    return std::make_unique<ExecTokens>(
        loop, std::move(config), std::move(start), std::move(on_pair), observer);
}

}  // namespace capstan::kube
