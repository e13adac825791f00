// Guards `capstan run` against exit() called by a plugin or by a library of its: the process ends
// with code 3 and a sentence that names the call, not with the code of somebody who knows nothing
// of us, and nothing destroys what other threads use. A lease that was held runs out by itself.
// A crash cannot be held up, but it says in whose call it was.
#pragma once

namespace capstan::cli {

// From now on. Again after plugins were loaded: the last to register is the first to be asked.
void guard_exit() noexcept;
// From now on exit() is ours.
void end_guard() noexcept;
// From now on a fatal signal (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) writes one line to stderr
// that names the call of the thread it came to; then it ends the process as ever, with a core dump
// where one is written. Not in sanitizer builds, which have handlers of their own.
void name_crashes() noexcept;

}  // namespace capstan::cli
