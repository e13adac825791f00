#include "runtime/control/command.hpp"

#include "runtime/control/call.hpp"
#include "runtime/control/command_state.hpp"
#include "runtime/control/core.hpp"
#include "runtime/control/events.hpp"
#include "runtime/control/host_tables.hpp"
#include "runtime/control/unit.hpp"

#include <sys/ioctl.h>

namespace capstan::control {
namespace {

std::uint32_t columns_of(int fd) noexcept {
    winsize size{};
    return ::ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

struct CommandHost::State : std::enable_shared_from_this<CommandHost::State> {
    State(Parts parts, const plugin::Manifest& manifest)
        : core(std::make_shared<Core>(std::move(parts), RuntimeOptions{})),
          unit(std::make_shared<Unit>(core, manifest)) {}

    const std::shared_ptr<Core> core;  // shared with calls in flight on the loop
    const std::shared_ptr<Unit> unit;
    const std::shared_ptr<CommandState> command = std::make_shared<CommandState>();
    std::shared_ptr<CallState> call;
    std::unique_ptr<Thread> thread;
    std::function<void(CommandEnd)> done;

    CommandEnd run(const capstan_plugin_cli& table) const {
        const CommandLine& line = command->line;
        std::vector<capstan_str> args;
        args.reserve(line.args.size());
        for (const std::string& arg : line.args) {
            args.push_back(str(arg));
        }
        std::uint32_t terminals = 0;
        const int streams[] = {line.in, line.out, line.err};
        for (std::uint32_t i = 0; i < 3; ++i) {
            terminals |= ::isatty(streams[i]) == 1 ? 1U << i : 0;
        }
        const bool out_is_terminal = (terminals >> CAPSTAN_STDOUT & 1U) != 0;
        const capstan_command given{{sizeof(capstan_command), CAPSTAN_ABI},
                                    str(line.name),
                                    args.data(),
                                    static_cast<std::uint32_t>(args.size()),
                                    terminals,
                                    columns_of(out_is_terminal ? line.out : line.err),
                                    0};
        std::int32_t exit_code = -1;
        CommandEnd end;
        {
            const CurrentCall current(*call);
            end.rc = table.run(unit->host(), call->handle, &given, &exit_code);
        }
        call->end();
        end.exit_code = exit_code;
        end.write_error = command->write_error;
        if (end.rc == CAPSTAN_OK && (exit_code < 0 || exit_code > kExitCodeMax)) {
            end.rc = CAPSTAN_E_INTERNAL;
        }
        return end;
    }

    // On the loop: nothing of the command is left on it afterwards.
    void finish(CommandEnd end) {
        thread.reset();
        core->events->shut_down();
        core->http.clear();
        auto told = std::exchange(done, nullptr);
        told(end);
    }
};

CommandHost::CommandHost(Parts parts, const plugin::Manifest& manifest)
    : state_(std::make_shared<State>(std::move(parts), manifest)) {}

CommandHost::~CommandHost() {
    CAPSTAN_CHECK(!state_->done, "the command has not ended");
}

const capstan_host* CommandHost::host() const noexcept {
    return state_->unit->host();
}

Result<void> CommandHost::start(const capstan_plugin_cli& table,
                                CommandLine line,
                                std::function<void(CommandEnd)> done) {
    State& s = *state_;
    CAPSTAN_CHECK(s.call == nullptr, "a command runs once");
    s.command->line = std::move(line);
    s.call = std::make_shared<CallState>(s.core, s.unit, CallKind::command);
    s.call->command = s.command;
    s.call->what = "command " + s.command->line.name;
    s.call->log = s.unit->log();
    if (!s.call->begin()) {
        return fail(Code::overloaded, "no call handle is left");
    }
    s.done = std::move(done);
    auto thread = s.core->parts.threads.start(s.command->line.name, [self = state_, &table] {
        const CommandEnd end = self->run(table);
        self->core->parts.loop.post([self, end] { self->finish(end); });
    });
    if (!thread) {
        s.done = nullptr;
        return fail(std::move(thread).error());
    }
    s.thread = std::move(thread).value();
    return ok();
}

void CommandHost::cancel() {
    if (state_->call != nullptr) {
        state_->call->move_to(CallState::Stage::cancelled);
    }
}

}  // namespace capstan::control
