// capstan: one binary, several roles. Composition root: the only file that knows all commands.
#include "runtime/cli/config_command.hpp"
#include "runtime/cli/debug_command.hpp"
#include "runtime/cli/plugin_command.hpp"
#include "runtime/cli/render.hpp"
#include "runtime/cli/resource_command.hpp"
#include "runtime/cli/run.hpp"
#include "runtime/cli/up.hpp"

#include <CLI/CLI.hpp>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace {

using namespace capstan::cli;

void add_local_commands(CLI::App& app, UpOptions& up, std::string& down_dir, long& timeout) {
    CLI::App* command =
        app.add_subcommand("up", "Run the objects of FILE… on this machine, without Kubernetes");
    command->add_option("-f,--filename", up.files, "manifests to apply (YAML or JSON)")
        ->check(CLI::ExistingFile);
    command->add_option("--dir", up.dir, "where everything is kept")->capture_default_str();
    command->add_option(
        "--port", up.port, "port of the API server (default: that of last time, else any)");
    command->add_option("--etcd-dir",
                        up.etcd_dir,
                        "directory that holds the program etcd (default: CAPSTAN_ETCD_DIR, "
                        "etcd/bin below --dir, PATH)");
    command
        ->add_option(
            "--config", up.config, "operator configuration to use instead of the built-in one")
        ->check(CLI::ExistingFile);
    command->add_option("--timeout", timeout, "longest wait for readiness, in seconds")
        ->capture_default_str()
        ->check(CLI::Range(1, 86'400));
    command->add_flag("--once", up.once, "end after a put and a get through the cluster");
    command->add_flag("--api-only", up.api_only, "start the API server alone")->group("");
    CLI::App* down =
        app.add_subcommand("down", "End what a killed `capstan up` left running; data stays");
    down->add_option("--dir", down_dir, "the directory of `up`")->capture_default_str();
}

void add_host_commands(CLI::App& app,
                       RunOptions& run,
                       std::vector<std::string>& files,
                       bool& json,
                       std::string& role,
                       std::string& file) {
    CLI::App* command = app.add_subcommand("run", "Run plugins against an API server");
    command->add_option("--config", run.config, "configuration file (docs/config.example.yaml)");
    command->add_option("--profile", run.profile, "operator or steward")->capture_default_str();
    command->add_option(
        "--plugin-dir", run.plugin_dirs, "further directories with plugins, searched first");
    command->add_option("--kubeconfig", run.kubeconfig, "overrides the configuration");
    command->add_option("--context", run.context, "of the kubeconfig (default: the current one)");
    command->add_flag("--validate-only",
                      run.validate_only,
                      "check configuration, plugins and gates, start nothing, ask no server");
    CLI::App* inspect =
        app.add_subcommand("inspect", "Show what plugin files declare; runs none of their code");
    inspect->add_option("files", files, "plugin files")->required();
    inspect->add_flag("--json", json, "machine-readable");
    CLI::App* rbac =
        app.add_subcommand("rbac", "Print the ClusterRole an operator with these plugins needs");
    rbac->add_option("files", files, "plugin files")->required();
    rbac->add_option("--name", role, "name of the ClusterRole")->capture_default_str();
    rbac->add_option(
        "--config",
        run.config,
        "configuration whose settings need rights too; of an election, a Role follows");
    CLI::App* config =
        app.add_subcommand("config", "Check or print a configuration file")->require_subcommand(1);
    CLI::App* check =
        config->add_subcommand("check", "Check it together with the plugins it names");
    check->add_option("file", file, "configuration file")->required();
    check->add_option("--plugin-dir", run.plugin_dirs, "further directories with plugins");
    config->add_subcommand("reference", "Print every key with type, default and meaning");
    config->add_subcommand("print", "Print it with all defaults")
        ->add_option("file", file, "configuration file (default: none)");
}

void add_webhooks_command(CLI::App& app,
                          WebhooksOptions& options,
                          std::vector<std::string>& files) {
    CLI::App* command = app.add_subcommand(
        "webhooks", "Print the objects that make an API server ask these plugins' webhooks");
    command->add_option("files", files, "plugin files")->required();
    command->add_option("--service", options.service, "Service in front of the webhook listener");
    command->add_option("-n,--namespace", options.ns, "namespace of the Service");
    command->add_option("--port", options.port, "port of the Service")->capture_default_str();
    command->add_option("--url", options.url, "instead of a Service: https://HOST:PORT");
    command
        ->add_option("--ca-file", options.ca_file, "CA that signs the listener's certificate (PEM)")
        ->required();
    command->add_option("--name", options.name, "name of the objects")->capture_default_str();
}

void add_render_command(CLI::App& app, RenderOptions& options, long& timeout) {
    CLI::App* command = app.add_subcommand(
        "render", "Print the objects that plugins would make of FILE…, without a cluster");
    command
        ->add_option("-f,--filename",
                     options.files,
                     "manifests (YAML or JSON, also Lists); - is standard input")
        ->required();
    command->add_option(
        "--config", options.config, "operator configuration (default: that of `capstan run`)");
    command->add_option("--plugin", options.plugins, "these plugins alone");
    command
        ->add_option("--feature-gates",
                     options.feature_gates,
                     "PLUGIN.GATE=true, joined by commas; over those of the configuration")
        ->delimiter(',');
    command->add_option("--plugin-dir", options.plugin_dirs, "further directories with plugins");
    command->add_option("-o,--output", options.output, "yaml or json")
        ->capture_default_str()
        ->check(CLI::IsMember({"yaml", "json"}));
    command->add_option("-n,--namespace", options.ns, "of objects that name none")
        ->capture_default_str();
    command->add_flag("--all", options.all, "also the objects of FILE…, with their defaults");
    command->add_flag("--secrets", options.secrets, "also Secrets that plugins make");
    command->add_flag("--status", options.shape.status, "with status");
    command->add_flag("--owners",
                      options.shape.owners,
                      "with ownerReferences; their uid is a placeholder, do not apply them");
    command->add_flag("-v,--verbose", options.verbose, "the log of the plugins on stderr");
    command->add_option("--timeout", timeout, "longest run, in seconds")
        ->capture_default_str()
        ->check(CLI::Range(1, 86'400));
    command->footer(
        "Examples:\n"
        "  capstan render -f examples/etcd-3.yaml --feature-gates etcd.EtcdMember=true\n"
        "  capstan render -f etcd.yaml secrets.yaml --config operator.yaml -o json\n"
        "  kubectl kustomize . | capstan render -f - --config operator.yaml > rendered.yaml\n"
        "Exit codes: 0 good; 1 an object is refused or no rest in time; 2 input; 3 a plugin. "
        "Objects are printed with 0 alone.");
}

void add_debug_command(CLI::App& app, DebugOptions& options) {
    CLI::App* command =
        app.add_subcommand("debug", "Print queues, plugins and caches of a running operator");
    command->add_option("--address", options.address, "of its ops listener")->capture_default_str();
    command->add_option("--token-file", options.token_file, "bearer token, where one is asked for");
    command->add_option("--ca-file", options.ca_file, "of an https:// address");
    command->add_flag("--json", options.as_json, "machine-readable");
}

void add_resource_commands(CLI::App& app,
                           ResourceOptions& options,
                           std::string& what,
                           std::vector<std::string>& names) {
    const auto common = [&](CLI::App* command) {
        command->add_option(
            "--kubeconfig", options.kubeconfig, "default: .capstan/kubeconfig, else $KUBECONFIG");
        command->add_option(
            "--context", options.context, "of the kubeconfig (default: the current one)");
        command->add_option("-n,--namespace", options.ns, "default: that of the kubeconfig");
        return command;
    };
    CLI::App* get = common(app.add_subcommand("get", "List objects (kubectl does more)"));
    get->add_option("what", what, "kinds, joined by commas: etcd,pods")->required();
    get->add_option("names", names, "names (default: all)");
    get->add_option("-o,--output", options.output, "wide, yaml, json or name")
        ->check(CLI::IsMember({"wide", "yaml", "json", "name"}));
    get->add_option("-l,--selector", options.selector, "label selector");
    get->add_flag("-A,--all-namespaces", options.all_namespaces, "in all namespaces");
    CLI::App* describe = common(app.add_subcommand("describe", "Show one object with its events"));
    describe->add_option("what", what, "kind")->required();
    describe->add_option("name", names, "name")->required();
    CLI::App* apply = common(app.add_subcommand("apply", "Apply files on the server"));
    apply->add_option("-f,--filename", options.files, "manifests")
        ->required()
        ->check(CLI::ExistingFile);
    CLI::App* remove = common(app.add_subcommand("delete", "Delete objects"));
    remove->add_option("what", what, "kind");
    remove->add_option("names", names, "names");
    remove->add_option("-f,--filename", options.files, "manifests that name the objects")
        ->check(CLI::ExistingFile);
    CLI::App* logs = common(app.add_subcommand("logs", "Print the log of a pod's container"));
    logs->add_option("pod", what, "pod")->required();
    logs->add_option("-c,--container", options.container, "container (default: the first)");
    logs->add_option("--tail", options.tail, "last lines only");
    logs->add_flag("-p,--previous", options.previous, "of the run before");
}

int run_resource_command(const std::string& name,
                         const ResourceOptions& resources,
                         const std::string& what,
                         const std::vector<std::string>& names) {
    if (name == "get") {
        return run_get(resources, what, names);
    }
    if (name == "describe") {
        return run_describe(resources, what, names.front());
    }
    if (name == "apply") {
        return run_apply(resources);
    }
    if (name == "delete") {
        return run_delete(resources, what, names);
    }
    return run_logs(resources, what);
}

// What a closed stream would make of the next file or socket: a place for our output.
void open_standard_streams() {
    for (int fd = 0; fd <= 2; ++fd) {
        if (::fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
            [[maybe_unused]] const int opened = ::open("/dev/null", O_RDWR);
        }
    }
}

// True when nobody reads what we write there, as after `capstan get | head`.
bool reader_left(int fd) {
    pollfd entry{fd, 0, 0};
    return ::poll(&entry, 1, 0) == 1 && (entry.revents & (POLLERR | POLLHUP)) != 0;
}

std::vector<std::string> own_commands(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        names.push_back(command->get_name());
    }
    return names;
}

void show_foreign_commands(CLI::App& app, const std::vector<std::string>& plugin_dirs) {
    const std::vector<std::string> own = own_commands(app);
    for (const OfferedCommand& command : offered_commands(plugin_dirs).commands) {
        if (std::find(own.begin(), own.end(), command.name) == own.end()) {
            app.add_subcommand(command.name, command.summary)->group("Commands of plugins");
        }
    }
}

// Everything a command line may set.
struct Options {
    UpOptions up;
    RunOptions run;
    ResourceOptions resources;
    WebhooksOptions webhooks;
    DebugOptions debug;
    RenderOptions render;
    std::string down_dir{".capstan"}, role{"capstan"}, file, what;
    std::vector<std::string> files, names, plugin_dirs;
    bool json{false};
    long timeout{up.timeout.count()}, render_timeout{render.timeout.count()};
};

void add_commands(CLI::App& app, Options& options) {
    app.set_version_flag("--version", "capstan " CAPSTAN_VERSION);
    app.require_subcommand(1);
    app.footer(
        "Exit codes: 0 good, 1 failed, 2 usage or configuration, 3 plugin, 4 API server or etcd "
        "unreachable, 5 leadership lost, 6 data damaged or incomplete.");
    app.add_option(
           "--plugin-dir", options.plugin_dirs, "further directories with plugins, searched first")
        ->allow_extra_args(false);
    add_local_commands(app, options.up, options.down_dir, options.timeout);
    add_host_commands(app, options.run, options.files, options.json, options.role, options.file);
    add_webhooks_command(app, options.webhooks, options.files);
    add_resource_commands(app, options.resources, options.what, options.names);
    add_render_command(app, options.render, options.render_timeout);
    add_debug_command(app, options.debug);
    app.add_subcommand("version", "Print the version");
}

int run_render_command(Options& options) {
    RenderOptions& render = options.render;
    render.timeout = std::chrono::seconds(options.render_timeout);
    render.shape.as_json = render.output == "json";
    render.plugin_dirs.insert(
        render.plugin_dirs.begin(), options.plugin_dirs.begin(), options.plugin_dirs.end());
    return run_render(render);
}

int run_own_command(const CLI::App& chosen, Options& options) {
    const std::string& name = chosen.get_name();
    options.up.timeout = std::chrono::seconds(options.timeout);
    options.run.plugin_dirs.insert(
        options.run.plugin_dirs.begin(), options.plugin_dirs.begin(), options.plugin_dirs.end());
    if (name == "up") {
        return run_up(options.up);
    }
    if (name == "down") {
        return run_down(options.down_dir);
    }
    if (name == "run") {
        return run(options.run);
    }
    if (name == "inspect") {
        return run_inspect(options.files, options.json);
    }
    if (name == "rbac") {
        return run_rbac(options.files, options.role, options.run.config);
    }
    if (name == "render") {
        return run_render_command(options);
    }
    if (name == "debug") {
        return run_debug(options.debug);
    }
    if (name == "webhooks") {
        return run_webhooks(options.files, options.webhooks);
    }
    if (name == "config") {
        const std::string& action = chosen.get_subcommands().front()->get_name();
        return action == "check"   ? run_config_check(options.file, options.run.plugin_dirs)
               : action == "print" ? run_config_print(options.file)
                                   : run_config_reference();
    }
    if (name == "version") {
        std::printf("capstan %s\n", CAPSTAN_VERSION);
        return 0;
    }
    return run_resource_command(name, options.resources, options.what, options.names);
}

int run_command(int argc, char** argv) {
    CLI::App app{"Capstan: a Kubernetes controller runtime with plugins, and etcd on top of it",
                 "capstan"};
    Options options;
    add_commands(app, options);
    const ForeignWords foreign =
        foreign_words(own_commands(app), {argv + std::min(argc, 1), argv + argc});
    if (!foreign.name.empty()) {
        return run_plugin_command(foreign, own_commands(app));
    }
    if (foreign.asks_for_help) {
        show_foreign_commands(app, foreign.plugin_dirs);
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        const int code = app.exit(error);
        return code == 0 ? 0 : 2;
    }
    return run_own_command(*app.get_subcommands().front(), options);
}

}  // namespace

int main(int argc, char** argv) {
    open_standard_streams();
    ::signal(SIGPIPE, SIG_IGN);  // a reader that left is one failed write, not our end
    const int code = run_command(argc, argv);
    if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && !reader_left(STDOUT_FILENO)) {
        std::fprintf(
            stderr, "capstan: the output could not be written: %s\n", std::strerror(errno));
        return code == 0 ? 1 : code;
    }
    return code;
}
