// A reflector whose wishes are texts, for the tests of this folder.
#pragma once

#include "runtime/cache/reflector_fsm.hpp"

#include <gtest/gtest.h>

#include <string>

namespace capstan::cache {

using namespace std::chrono_literals;

// Feeds a reflector and writes down what it wants: "list rv= first", "watch rv=5 t=300", "wait
// 800ms", "keep", then the verdict and the log lines.
struct Reflector {
    explicit Reflector(ReflectorOptions options = {}) : fsm(options, [this] { return random; }) {}

    double random{0};
    MonotonicTime now{1h};
    ReflectorFsm fsm;

    std::string show(const Action& action) const {
        std::string text;
        switch (action.kind) {
            case Action::Kind::keep:
                text = action.check ? "keep check=" + action.resource_version : "keep";
                break;
            case Action::Kind::list:
                text = "list rv=" + action.resource_version +
                       (action.continue_token.empty() ? "" : " c=" + action.continue_token);
                break;
            case Action::Kind::watch:
                text = "watch rv=" + action.resource_version + (action.by_list ? " list" : "") +
                       (action.send_initial_events ? " initial" : "") +
                       " t=" + std::to_string(action.timeout.count());
                break;
            case Action::Kind::wait:
                text = "wait " +
                       std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(
                                          fsm.deadline() - now)
                                          .count()) +
                       "ms";
                break;
        }
        text += action.new_shadow ? " new:" + std::string(action.reason) : "";
        for (const LogLine& line : action.log) {
            constexpr const char* kLevels[] = {"debug", "info", "warn", "error"};
            text += std::string(" | ") + kLevels[static_cast<int>(line.level)] + " " +
                    line.message + (line.error.empty() ? "" : " (" + line.error + ")");
        }
        return text;
    }
    std::string show(const Step& step) const {
        constexpr const char* kVerdicts[] = {"ignore", "collect", "commit", "apply"};
        return std::string(kVerdicts[static_cast<int>(step.verdict)]) + (step.reset ? "!" : "") +
               " " + show(step.action);
    }

    std::string start() { return show(fsm.start(now)); }
    std::string page(const char* rv, const char* token = "") {
        return show(fsm.on_page(now, rv, token));
    }
    std::string list_error(Code code,
                           const char* text = "x",
                           std::chrono::milliseconds wait = 0ms) {
        return show(fsm.on_list_error(now, Error{code, text, wait}));
    }
    std::string checked(bool known) { return show(fsm.on_checked(now, known)); }
    std::string check_failed(Code code, const char* text = "x") {
        return show(fsm.on_checked(now, fail(Error{code, text, {}})));
    }
    std::string opened() { return show(fsm.on_watch_open(now)); }
    std::string event(EventKind kind, const char* rv) {
        fsm.on_watch_bytes(now);
        return show(fsm.on_watch_event(now, kind, rv));
    }
    std::string ended() { return show(fsm.on_watch_end(now, ok())); }
    std::string failed(Code code, const char* text = "x", std::chrono::milliseconds wait = 0ms) {
        return show(fsm.on_watch_end(now, fail(Error{code, text, wait})));
    }
    std::string pass(MonotonicTime time) {
        now += time;
        return show(fsm.on_timer(now));
    }
    std::string due() { return pass(fsm.deadline() - now); }
    // Live at version 10, nothing learned.
    void go_live() {
        start();
        event(EventKind::initial_end, "10");
        ASSERT_EQ(fsm.phase(), Phase::live);
    }
};

}  // namespace capstan::cache
