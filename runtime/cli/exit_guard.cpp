#include "runtime/cli/exit_guard.hpp"

#include "runtime/control/call.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

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

}  // namespace

void guard_exit() noexcept {
    guarded = true;
    std::atexit(refuse_exit);
    std::at_quick_exit(refuse_exit);
}

void end_guard() noexcept {
    guarded = false;
}

}  // namespace capstan::cli
