#include "capstan/testing/fake_cli.hpp"

#include "fake_state.hpp"

#include <algorithm>
#include <cstring>

namespace capstan::testing {
namespace {

capstan_rc environment(capstan_call* raw, capstan_str name, capstan_str* value) noexcept {
    const FakeCommand* command = to_fake(raw)->command;
    if (command == nullptr) {
        return CAPSTAN_E_INVALID;
    }
    const auto at = command->input.environment.find(view(name));
    if (at == command->input.environment.end()) {
        return CAPSTAN_E_NOT_FOUND;
    }
    *value = str(at->second);
    return CAPSTAN_OK;
}

capstan_rc read(capstan_call* raw, char* buffer, std::uint64_t cap, std::uint64_t* n) noexcept {
    FakeCall* call = to_fake(raw);
    *n = 0;
    if (const capstan_rc rc = call->state->enter(call, "cli.read"); rc != CAPSTAN_OK) {
        return rc;
    }
    FakeCommand* command = call->command;
    if (command == nullptr) {
        return CAPSTAN_E_INVALID;
    }
    if (call->state->cancelled) {
        return CAPSTAN_E_CANCELLED;
    }
    const std::string& in = command->input.in;
    *n = std::min<std::uint64_t>(cap, in.size() - command->read_at);
    std::memcpy(buffer, in.data() + command->read_at, static_cast<std::size_t>(*n));
    command->read_at += static_cast<std::size_t>(*n);
    return CAPSTAN_OK;
}

capstan_rc write(capstan_call* raw, std::int32_t stream, capstan_str bytes) noexcept {
    FakeCall* call = to_fake(raw);
    if (const capstan_rc rc = call->state->enter(call, "cli.write", "", {}, view(bytes));
        rc != CAPSTAN_OK) {
        return rc;
    }
    if (call->command == nullptr || (stream != CAPSTAN_STDOUT && stream != CAPSTAN_STDERR)) {
        return CAPSTAN_E_INVALID;
    }
    CommandOutput& output = call->command->output;
    (stream == CAPSTAN_STDOUT ? output.out : output.err) += view(bytes);
    return CAPSTAN_OK;
}

}  // namespace

const void* fake_cli_extension() noexcept {
    static const capstan_ext_cli kTable{head<capstan_ext_cli>(), &environment, &read, &write};
    return &kTable;
}

CommandOutput run_command(FakeHost& host,
                          PluginEntry entry,
                          std::string_view command,
                          const CommandInput& input) {
    FakeState& state = host.state();
    CommandOutput output;
    const capstan_plugin* plugin = entry(host.host());
    if (plugin == nullptr || plugin->get_ext == nullptr) {
        return output;
    }
    const auto* table =
        static_cast<const capstan_plugin_cli*>(plugin->get_ext(str("capstan.cli/1")));
    if (table == nullptr) {
        return output;
    }
    FakeCommand running{input, output};
    FakeCall call;
    call.state = &state;
    call.command = &running;
    state.open_calls.insert(&call);
    std::vector<capstan_str> args;
    for (const std::string& arg : input.args) {
        args.push_back(str(arg));
    }
    const capstan_command given{head<capstan_command>(),
                                str(command),
                                args.data(),
                                static_cast<std::uint32_t>(args.size()),
                                input.terminals,
                                input.columns,
                                0};
    output.rc =
        table->run(host.host(), reinterpret_cast<capstan_call*>(&call), &given, &output.exit_code);
    state.close_call(call);
    return output;
}

}  // namespace capstan::testing
