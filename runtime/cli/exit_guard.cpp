#include "runtime/cli/exit_guard.hpp"

#include "runtime/control/call.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace capstan::cli {
namespace {

// What exit() calls can be told nothing: this is where it finds whether it may.
std::atomic<bool> guarded{false};

void refuse_exit() {
    if (!guarded.exchange(false)) {
        return;
    }
    const control::CallState* call = control::current_call();
    const std::string who = call == nullptr ? "a plugin, or a library of one," : call->what;
    std::fprintf(stderr,
                 "capstan run: %s called exit(), which would end every plugin of this process; it "
                 "ends with code 3. A plugin returns its error instead\n",
                 who.c_str());
    ::_exit(3);
}

// Only what a signal handler may do.
void put(std::string_view text) noexcept {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

std::string_view name_of(int signal) noexcept {
    switch (signal) {
        case SIGSEGV: return "a segmentation fault (SIGSEGV)";
        case SIGBUS: return "a bus error (SIGBUS)";
        case SIGFPE: return "an arithmetic error (SIGFPE)";
        case SIGILL: return "an illegal instruction (SIGILL)";
        default: return "an abort (SIGABRT)";
    }
}

[[maybe_unused]] void say_where(int signal) noexcept {
    const control::CallState* call = control::current_call();
    put("capstan run: ");
    put(name_of(signal));
    if (call == nullptr) {
        put(" outside of any plugin's call ends the process\n");
    } else {
        put(" in ");
        put(call->what);
        put(" ends the process; if it comes again, take the object or the plugin out\n");
    }
    ::raise(signal);  // is held back until this returns, and then does what it always does
}

}  // namespace

void name_crashes() noexcept {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct sigaction action {};
    action.sa_handler = say_where;
    action.sa_flags = SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
        ::sigaction(signal, &action, nullptr);
    }
#endif
}

void guard_exit() noexcept {
    guarded = true;
    std::atexit(refuse_exit);
    std::at_quick_exit(refuse_exit);
}

void end_guard() noexcept {
    guarded = false;
}

}  // namespace capstan::cli
