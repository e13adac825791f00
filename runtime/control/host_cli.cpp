// capstan.cli/1: environment and standard streams of a command.
#include "runtime/control/host_tables.hpp"

#include "runtime/control/call.hpp"
#include "runtime/control/command_state.hpp"
#include "runtime/control/unit.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace capstan::control {
namespace {

constexpr std::size_t kReadBytesMax = 64 * 1024;

std::shared_ptr<CallState> command_call(capstan_call* handle,
                                        capstan_rc* rc,
                                        bool even_when_cancelled) {
    auto call = enter(handle, rc, even_when_cancelled);
    if (call != nullptr && call->command == nullptr) {
        *rc = report(CAPSTAN_E_INVALID, "this call is no command");
        return nullptr;
    }
    return call;
}

capstan_rc environment(capstan_call* handle, capstan_str name, capstan_str* value) noexcept {
    capstan_rc rc = CAPSTAN_OK;
    const auto call = command_call(handle, &rc, true);
    if (call == nullptr) {
        return rc;
    }
    const auto found = call->core->parts.environment(text(name));
    if (!found) {
        return report(CAPSTAN_E_NOT_FOUND, text(name) + " is not set");
    }
    *value = str(call->command->environment.emplace_back(*found));
    return CAPSTAN_OK;
}

// Until there is something to read, or the call is cancelled.
capstan_rc wait_for_input(CallState& call) {
    PolledSignal cancelled;
    if (cancelled.fd() < 0) {
        return report(CAPSTAN_E_UNAVAIL, std::string("eventfd: ") + std::strerror(errno));
    }
    call.add_waiter(cancelled);
    capstan_rc rc = call.check();
    while (rc == CAPSTAN_OK) {
        pollfd fds[] = {{call.command->line.in, POLLIN, 0}, {cancelled.fd(), POLLIN, 0}};
        const int ready = ::poll(fds, 2, -1);
        if (ready < 0 && errno != EINTR) {
            rc = report(CAPSTAN_E_UNAVAIL, std::string("poll: ") + std::strerror(errno));
        } else if (ready > 0 && fds[0].revents != 0) {
            break;
        } else {
            rc = call.check();
        }
    }
    call.remove_waiter(cancelled);
    return rc == CAPSTAN_E_CANCELLED ? report(rc, "the command was cancelled") : rc;
}

capstan_rc read(capstan_call* handle, char* buffer, std::uint64_t cap, std::uint64_t* n) noexcept {
    *n = 0;
    capstan_rc rc = CAPSTAN_OK;
    const auto call = command_call(handle, &rc, false);
    if (call == nullptr) {
        return rc;
    }
    for (;;) {
        if (rc = wait_for_input(*call); rc != CAPSTAN_OK) {
            return rc;
        }
        const ssize_t count =
            ::read(call->command->line.in, buffer, std::min<std::uint64_t>(cap, kReadBytesMax));
        if (count >= 0) {
            *n = static_cast<std::uint64_t>(count);
            return CAPSTAN_OK;
        }
        if (errno != EINTR && errno != EAGAIN) {
            return report(CAPSTAN_E_UNAVAIL, std::strerror(errno));
        }
    }
}

// 0, or errno.
int write_all(int fd, std::string_view bytes) noexcept {
    while (!bytes.empty()) {
        const ssize_t count = ::write(fd, bytes.data(), bytes.size());
        if (count >= 0) {
            bytes.remove_prefix(static_cast<std::size_t>(count));
        } else if (errno == EAGAIN) {  // shared with somebody who does not want to wait
            pollfd ready{fd, POLLOUT, 0};
            ::poll(&ready, 1, -1);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

capstan_rc write(capstan_call* handle, std::int32_t stream, capstan_str bytes) noexcept {
    capstan_rc rc = CAPSTAN_OK;
    const auto call = command_call(handle, &rc, true);
    if (call == nullptr) {
        return rc;
    }
    CommandState& command = *call->command;
    if (stream != CAPSTAN_STDOUT && stream != CAPSTAN_STDERR) {
        return report(CAPSTAN_E_INVALID, "a command writes to CAPSTAN_STDOUT or CAPSTAN_STDERR");
    }
    const bool is_out = stream == CAPSTAN_STDOUT;
    const int error = write_all(is_out ? command.line.out : command.line.err, view(bytes));
    if (error == 0) {
        return CAPSTAN_OK;
    }
    if (is_out && command.write_error == 0) {
        command.write_error = error;
    }
    return report(CAPSTAN_E_UNAVAIL, std::strerror(error));
}

}  // namespace

const capstan_ext_cli kCliTable{
    {sizeof(capstan_ext_cli), CAPSTAN_ABI}, &environment, &read, &write};

}  // namespace capstan::control
