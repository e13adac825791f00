#include "runtime/plugin/trial.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace capstan::plugin {
namespace {

using Clock = std::chrono::steady_clock;

// noexcept: an exception out of a constructor must end the child here, not unwind into its copy of
// whoever called us.
[[noreturn]] void map_in_child(const std::string& path, int output, pid_t parent) noexcept {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // one that hangs must not outlive us
    if (::getppid() != parent) {
        ::_exit(0);
    }
    ::dup2(output, STDERR_FILENO);
    ::dup2(output, STDOUT_FILENO);
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTERM, SIGINT}) {
        ::signal(signal, SIG_DFL);
    }
    // What dlopen itself refuses is said by the mapping in the parent, with the loader's text.
    static_cast<void>(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
    ::_exit(0);
}

// Reads until the child closes its end or the time is over; false: time over.
bool read_output(int descriptor, Clock::time_point limit, std::string& text) {
    for (;;) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now());
        pollfd entry{descriptor, POLLIN, 0};
        const int ready = ::poll(&entry, 1, static_cast<int>(std::max<long>(left.count(), 0)));
        if (ready == 0) {
            return false;
        }
        std::array<char, 1024> buffer{};
        const ssize_t count = ready < 0 ? -1 : ::read(descriptor, buffer.data(), buffer.size());
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return true;
        }
        text.append(buffer.data(), static_cast<std::size_t>(count));
        if (text.size() > kTrialOutputBytesMax) {
            text.erase(0, text.size() - kTrialOutputBytesMax);
        }
    }
}

std::string in_one_line(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
        text.pop_back();
    }
    std::replace_if(
        text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
    return text.empty() ? "" : ": " + text;
}

}  // namespace

Result<void> try_mapping(const std::string& path, std::chrono::milliseconds limit) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        return ok();
    }
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
        map_in_child(path, ends[1], parent);
    }
    ::close(ends[1]);
    std::string said;
    const bool ended = child < 0 || read_output(ends[0], Clock::now() + limit, said);
    ::close(ends[0]);
    if (child < 0) {
        return ok();
    }
    if (!ended) {
        ::kill(child, SIGKILL);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!ended) {
        return fail(Code::invalid,
                    "its static initialisation did not end within " +
                        std::to_string(limit.count()) + " ms" + in_one_line(said));
    }
    if (WIFSIGNALED(status)) {
        return fail(Code::invalid,
                    "its static initialisation ends the process with signal " +
                        std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) +
                        ")" + in_one_line(said));
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
        return fail(Code::invalid,
                    "its static initialisation ends the process with code " +
                        std::to_string(WEXITSTATUS(status)) + in_one_line(said));
    }
    return ok();
}

}  // namespace capstan::plugin
