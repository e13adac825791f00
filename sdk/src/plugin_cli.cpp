// Subcommands from C++: the table behind add_command.
#include "capstan/cli.hpp"

#include "plugin_instance.hpp"

namespace capstan {
namespace {

PluginInstance& instance_behind(const Setup& setup) noexcept {
    return static_cast<const InstanceHost&>(setup.host()).instance;
}

capstan_rc run(const capstan_host* host,
               capstan_call* handle,
               const capstan_command* raw,
               std::int32_t* exit_code) noexcept {
    const HostTables tables(host);
    return guarded(tables, "command", [&]() -> capstan_rc {
        const auto* table =
            static_cast<const capstan_ext_cli*>(host->get_ext(host, to_str("capstan.cli/1")));
        if (table == nullptr) {
            return CAPSTAN_E_UNSUPP;
        }
        PluginInstance instance(host);
        instance.for_command = true;
        instance.config = json::object();
        Call call(instance.host, handle);
        CommandCall command(call, *table, *raw);
        if (const Result<void> made = instance.build(plugin_make()); !made) {
            command.complain("capstan " + command.name() + ": " + made.error().message + "\n");
            *exit_code = CAPSTAN_EXIT_FAILED;
            return CAPSTAN_OK;
        }
        for (const auto& [name, body] : instance.commands) {
            if (name == command.name()) {
                *exit_code = body(command);
                return CAPSTAN_OK;
            }
        }
        command.complain("capstan " + command.name() +
                         ": make_plugin adds no such command, which the manifest names\n");
        *exit_code = CAPSTAN_EXIT_PLUGIN;
        return CAPSTAN_OK;
    });
}

}  // namespace

CommandCall::CommandCall(Call& call, const capstan_ext_cli& table, const capstan_command& command)
    : call_(call),
      table_(table),
      terminals_(command.terminals),
      columns_(command.columns),
      name_(view_of(command.name)) {
    args_.reserve(command.arg_count);
    for (std::uint32_t i = 0; i < command.arg_count; ++i) {
        args_.emplace_back(view_of(command.args[i]));
    }
}

std::optional<std::string> CommandCall::environment(std::string_view name) const {
    capstan_str value{};
    if (table_.environment(call_.handle(), to_str(name), &value) != CAPSTAN_OK) {
        return std::nullopt;
    }
    return std::string(view_of(value));
}

bool CommandCall::is_terminal(std::int32_t stream) const noexcept {
    return stream >= CAPSTAN_STDIN && stream <= CAPSTAN_STDERR && (terminals_ >> stream & 1U) != 0;
}

Result<void> CommandCall::print(std::string_view text) {
    const capstan_rc rc = table_.write(call_.handle(), CAPSTAN_STDOUT, to_str(text));
    return rc == CAPSTAN_OK ? Result<void>(ok())
                            : Result<void>(fail(call_.last_error(rc, "standard output")));
}

void CommandCall::complain(std::string_view text) noexcept {
    static_cast<void>(table_.write(call_.handle(), CAPSTAN_STDERR, to_str(text)));
}

Result<std::size_t> CommandCall::read(std::span<char> into) {
    std::uint64_t count = 0;
    const capstan_rc rc = table_.read(call_.handle(), into.data(), into.size(), &count);
    if (rc != CAPSTAN_OK) {
        return fail(call_.last_error(rc, "standard input"));
    }
    return static_cast<std::size_t>(count);
}

void add_command(Setup& setup, std::string name, CommandBody body) {
    instance_behind(setup).commands.emplace_back(std::move(name), std::move(body));
}

bool is_for_command(const Setup& setup) noexcept {
    return instance_behind(setup).for_command;
}

const capstan_plugin_cli kPluginCli{{sizeof(capstan_plugin_cli), CAPSTAN_ABI}, &run};

}  // namespace capstan
