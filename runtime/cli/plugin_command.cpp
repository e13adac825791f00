#include "runtime/cli/plugin_command.hpp"

#include "runtime/cli/host.hpp"
#include "runtime/control/command.hpp"
#include "runtime/net/http_client.hpp"
#include "runtime/plugin/inspect.hpp"
#include "runtime/plugin/strict_object.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace capstan::cli {
namespace {

constexpr int kSignalCodes = 128;  // what shells call the end by a signal

// The API server of a command: there is none.
class NoServer final : public net::HttpClient {
public:
    explicit NoServer(net::Loop& loop) : loop_(loop) {}
    std::unique_ptr<net::HttpExchange> send(
        net::HttpRequest, std::function<void(Result<net::HttpResponse>)> done) override {
        loop_.post([done = std::move(done)] { done(fail(refused())); });
        return nullptr;
    }
    std::unique_ptr<net::HttpStream> stream(net::HttpRequest,
                                            net::StreamOptions,
                                            net::StreamHandler handler) override {
        loop_.post([end = std::move(handler.on_end)] { end(fail(refused())); });
        return nullptr;
    }

private:
    static Error refused() {
        return {Code::unavailable, "a command of a plugin asks no API server", {}};
    }

    net::Loop& loop_;
};

int complain(const std::string& command, const std::string& what, int code) {
    std::fprintf(stderr, "capstan %s: %s\n", command.c_str(), what.c_str());
    return code;
}

int unknown_command(const std::string& name,
                    const OfferedCommands& offered,
                    std::vector<std::string> known) {
    for (const OfferedCommand& command : offered.commands) {
        known.push_back(command.name);
    }
    const std::string meant = plugin::nearest(name, known);
    std::fprintf(stderr,
                 "capstan: unknown command \"%s\"%s\n",
                 name.c_str(),
                 meant.empty() ? "; `capstan --help` lists them"
                               : ("; did you mean \"" + meant + "\"?").c_str());
    for (const std::string& refused : offered.refused) {
        std::fprintf(stderr,
                     "capstan: commands of this plugin are not known, as it is refused: %s\n",
                     refused.c_str());
    }
    return CAPSTAN_EXIT_USAGE;
}

// Everything one command runs on. Members are destroyed in reverse order.
class Session {
public:
    explicit Session(const OfferedCommand& command)
        : command_(command),
          loop_(net::make_loop()),
          log_(obs::Log::to_stderr(*loop_, {obs::Level::warn})),
          threads_(control::make_threads()),
          random_(std::random_device{}()),
          no_server_(*loop_),
          client_(*loop_, no_server_, {}),
          cache_(*loop_, client_, cache_options()) {}

    int run(std::vector<std::string> args) {
        plugin::Loader loader({plugin_cache_directory(), {}, true, plugin::kTrialMax});
        auto candidate = loader.check(command_.path);
        if (!candidate) {
            return complain(command_.name, candidate.error().message, CAPSTAN_EXIT_PLUGIN);
        }
        host_ = std::make_unique<control::CommandHost>(parts(), candidate.value().manifest());
        const auto module = loader.load(std::move(candidate).value(), host_->host());
        if (!module) {
            return complain(command_.name, module.error().message, CAPSTAN_EXIT_PLUGIN);
        }
        watch_signals();
        const auto started = host_->start(*module.value()->cli(),
                                          {command_.name, std::move(args)},
                                          [this](control::CommandEnd end) { end_ = end; });
        if (!started) {
            return complain(command_.name, started.error().message, CAPSTAN_EXIT_FAILED);
        }
        while (!end_) {
            loop_->run_until([this] { return end_.has_value(); }, std::chrono::hours(24));
        }
        return exit_code();
    }

private:
    control::Parts parts() {
        return {*loop_,
                *threads_,
                client_,
                cache_,
                log_,
                metrics_,
                health_,
                [this](net::HttpClientOptions options) {
                    return net::make_http_client(*loop_, std::move(options));
                },
                [this] { return random_(); },
                environment,
                nullptr};
    }
    cache::CacheOptions cache_options() {
        cache::CacheOptions options;
        options.random = [this] { return std::uniform_real_distribution<double>(0, 1)(random_); };
        return options;
    }

    void watch_signals() {
        ::signal(SIGPIPE, SIG_IGN);  // a reader that left is one failed write, not our end
        for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
            struct sigaction now {};
            if (signal == SIGHUP && ::sigaction(signal, nullptr, &now) == 0 &&
                now.sa_handler == SIG_IGN) {
                continue;  // started by nohup
            }
            auto watch = loop_->on_signal(signal, [this, signal] {
                if (signal_ != 0) {
                    ::_exit(kSignalCodes + signal);
                }
                signal_ = signal;
                host_->cancel();
            });
            if (watch) {
                signals_.push_back(std::move(watch).value());
            }
        }
    }

    int exit_code() const {
        if (end_->rc != CAPSTAN_OK) {
            const bool panicked = end_->rc == CAPSTAN_E_PANIC;
            return complain(command_.name,
                            "plugin " + command_.plugin +
                                (panicked ? " panicked" : " ended it without an exit code") +
                                " (code " + std::to_string(end_->rc) + ")",
                            panicked ? CAPSTAN_EXIT_PLUGIN : CAPSTAN_EXIT_FAILED);
        }
        int code = end_->exit_code;
        if (end_->write_error == EPIPE) {
            code = code == CAPSTAN_EXIT_FAILED ? CAPSTAN_EXIT_GOOD : code;  // as `… | head`
        } else if (end_->write_error != 0) {
            code = complain(
                command_.name,
                "the output could not be written: " + std::string(std::strerror(end_->write_error)),
                code == CAPSTAN_EXIT_GOOD ? CAPSTAN_EXIT_FAILED : code);
        }
        return signal_ != 0 && code != CAPSTAN_EXIT_GOOD ? kSignalCodes + signal_ : code;
    }

    const OfferedCommand& command_;
    const std::unique_ptr<net::IoLoop> loop_;
    obs::Metrics metrics_;
    obs::Health health_;
    const obs::Log log_;
    const std::unique_ptr<control::Threads> threads_;
    std::mt19937_64 random_;
    NoServer no_server_;
    kube::Client client_;
    cache::Cache cache_;
    std::unique_ptr<control::CommandHost> host_;
    std::vector<std::unique_ptr<net::Watch>> signals_;
    int signal_{0};  // the first
    std::optional<control::CommandEnd> end_;
};

}  // namespace

OfferedCommands offered_commands(const std::vector<std::string>& first) {
    OfferedCommands offered;
    for (const std::string& file : plugin_files(plugin_directories(first, {}))) {
        const plugin::Report report = plugin::inspect(file);
        if (!report.loadable()) {
            offered.refused.push_back(
                file + ": " + (report.problems.empty() ? "is no plugin" : report.problems.front()));
            continue;
        }
        for (const plugin::CliCommand& command : report.manifest->cli) {
            const bool known = std::any_of(
                offered.commands.begin(), offered.commands.end(), [&command](const auto& other) {
                    return other.name == command.name;
                });
            if (!known) {
                offered.commands.push_back(
                    {command.name, command.summary, report.manifest->id, file});
            }
        }
    }
    std::sort(offered.commands.begin(), offered.commands.end(), [](const auto& a, const auto& b) {
        return a.name < b.name;
    });
    return offered;
}

ForeignWords foreign_words(const std::vector<std::string>& own,
                           const std::vector<std::string>& words) {
    constexpr std::string_view kPluginDir = "--plugin-dir";
    ForeignWords out;
    auto at = words.begin();
    for (; at != words.end() && at->starts_with(kPluginDir); ++at) {
        const std::string value = at->substr(kPluginDir.size());
        if (value.starts_with('=')) {
            out.plugin_dirs.push_back(value.substr(1));
        } else if (value.empty() && at + 1 != words.end()) {
            out.plugin_dirs.push_back(*++at);
        } else {
            return out;  // the program says what is wrong with it
        }
    }
    out.asks_for_help = at != words.end() && (*at == "-h" || *at == "--help");
    const bool is_word = at != words.end() && !at->empty() && at->front() != '-';
    if (is_word && std::find(own.begin(), own.end(), *at) == own.end()) {
        out.name = *at;
        out.args.assign(at + 1, words.end());
    }
    return out;
}

int run_plugin_command(const ForeignWords& words, std::vector<std::string> own) {
    const OfferedCommands offered = offered_commands(words.plugin_dirs);
    const auto found = std::find_if(
        offered.commands.begin(), offered.commands.end(), [&words](const auto& command) {
            return command.name == words.name;
        });
    if (found == offered.commands.end()) {
        return unknown_command(words.name, offered, std::move(own));
    }
    return Session(*found).run(words.args);
}

}  // namespace capstan::cli
